"""The least time that a kernel call can take on a GPU."""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.kinds.cuda.target import CudaTarget
from tilework.overriding import override
from tilework.runtime.executor import Roofline
from tilework.runtime.image import Step

_TENSOR = ("bf16", "f16", "tf32")
_L2_SHARE = 0.5
"""Of the second-level cache: data of this size stays there from one kernel to the next."""


def peak_flops(target: CudaTarget) -> float:
    """Float32 operations per second of all multiprocessors; a multiply-add is two."""
    device = target.device
    return 2.0 * device.sms * target.limits.fp32_lanes * device.ghz * 1e9


def tensor_flops(target: CudaTarget, precision: str) -> float:
    """The same of tensor cores that multiply ``bf16``, ``f16`` or ``tf32``; 0 without any."""
    if not target.limits.mma:
        return 0.0
    lanes = target.device.tensor_lanes / (2.0 if precision == "tf32" else 1.0)
    return 2.0 * target.device.sms * lanes * target.device.ghz * 1e9


def flops_of(target: CudaTarget, precision: str) -> float:
    """Operations per second of products in a precision: on tensor cores, where that is faster."""
    tensor = tensor_flops(target, precision) if precision in _TENSOR else 0.0
    return max(tensor, peak_flops(target))


def l2_bytes_per_s(target: CudaTarget) -> float:
    """What all multiprocessors together get from the second-level cache."""
    device = target.device
    return device.sms * device.l2_bytes_per_clock * device.ghz * 1e9


@frozen
class CudaRoofline(Roofline):
    """The figures of a target's device: those of its data sheet."""

    target: CudaTarget

    @property
    def wall_clock(self) -> bool:
        """Only on a device: emulated times say nothing of one."""
        return self.target.run == "device"

    @override
    def flops(self, step: Step) -> float:
        # descriptions end with a narrow precision
        return flops_of(self.target, step.desc.rpartition(" ")[2])

    @override
    def level(self, nbytes: float) -> str:
        return "the L2 cache" if self._fits(nbytes) else "the device's memory"

    @override
    def read_s(self, nbytes: float, footprint: float) -> float:
        rate = self.target.device.dram_bytes_per_s
        return nbytes / (l2_bytes_per_s(self.target) if self._fits(footprint) else rate)

    def _fits(self, nbytes: float) -> bool:
        return nbytes <= _L2_SHARE * self.target.device.l2_bytes
