"""The least time that a kernel call can take on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from tilework.index.extents import known
from tilework.kinds.cuda.target import CudaTarget
from tilework.overriding import override
from tilework.runtime.executor import Roofline
from tilework.runtime.image import Image, Step

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


@dataclass(frozen=True)
class CudaRoofline(Roofline):
    """The figures of a target's device: those of its data sheet."""

    target: CudaTarget

    @property
    def wall_clock(self) -> bool:
        """Only on a device: emulated times say nothing of one."""
        return self.target.run == "device"

    def seconds(self, step: Step, image: Image) -> float:
        """The longer of the arithmetic at its peak and the memory traffic at its peak."""
        values = known(step.nbytes) - step.constant_bytes
        return max(
            # descriptions end with a narrow precision
            step.operations / flops_of(self.target, step.desc.rpartition(" ")[2]),
            self.constants_s(step, image) + self._read_s(values, values),
        )

    @override
    def constants_s(self, step: Step, image: Image) -> float:
        return self._read_s(step.constant_bytes, image.constants.nbytes + image.arena_bytes)

    @override
    def warm_constants_s(self, step: Step) -> float:
        return self._read_s(step.constant_bytes, known(step.nbytes))

    @override
    def level(self, nbytes: float) -> str:
        return "the L2 cache" if self._fits(nbytes) else "the device's memory"

    def _read_s(self, nbytes: float, footprint: float) -> float:
        rate = self.target.device.dram_bytes_per_s
        return nbytes / (l2_bytes_per_s(self.target) if self._fits(footprint) else rate)

    def _fits(self, nbytes: float) -> bool:
        return nbytes <= _L2_SHARE * self.target.device.l2_bytes
