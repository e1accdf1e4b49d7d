"""GPUs for people and reports: `tilework.target.hardware.Hardware`.

Where no device is, the figures are those of the target's model, and it is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilework.errors import TargetError
from tilework.kinds.cuda.architectures import KIB
from tilework.kinds.cuda.devices.gpu import described
from tilework.kinds.cuda.emulate.compile import compiler
from tilework.kinds.cuda.probe import Found, look
from tilework.kinds.cuda.roofline import flops_of, l2_bytes_per_s, peak_flops
from tilework.kinds.cuda.source.nvrtc import available, compiler_name
from tilework.kinds.cuda.target import CudaTarget
from tilework.overriding import override
from tilework.target.hardware import Hardware, Reach
from tilework.target.identity import identity_of

_MIB = 1 << 20


class CudaHardware(Hardware):
    """What a GPU is, by its driver and by its data sheet."""

    def describe(self, target: CudaTarget) -> dict[str, str]:
        """The device that is here, the one that is described, and what code is made with."""
        limits, seen = target.limits, look()
        return {
            "device": _here(seen, target),
            "in records": identity_of(target).id,
            "driver": f"CUDA {seen.driver[0]}.{seen.driver[1]}" if seen.driver[0] else "none",
            "compiler": available() or compiler_name(),
            "emulation": _emulation(),
            "figures": _whose(target),
            "multiprocessors": f"{target.device.sms} at {target.device.ghz:.2f} GHz, "
            f"{limits.fp32_lanes} float32 lanes each",
            "of each": f"{limits.threads_per_sm} threads, {limits.blocks_per_sm} blocks, "
            f"{limits.registers_per_sm // KIB} Ki registers, {limits.shared_per_sm // KIB} KiB "
            f"shared memory ({limits.shared_per_block // KIB} KiB a block)",
            "memory": f"L2 {target.device.l2_bytes / _MIB:.0f} MiB, "
            f"{target.device.dram_bytes_per_s * 1e-9:.0f} GB/s",
            "float32 peak": f"{peak_flops(target) * 1e-12:.1f} TFLOP/s",
        }

    def calibrate(self, target: CudaTarget, again: bool) -> dict[str, str]:
        """The analytic model takes its figures from data sheets: nothing is measured or kept."""
        return {
            "figures": _whose(target),
            "float32 peak": f"{peak_flops(target) * 1e-12:.1f} TFLOP/s",
            "reads": f"L2 {l2_bytes_per_s(target) * 1e-9:.0f} GB/s, memory "
            f"{target.device.dram_bytes_per_s * 1e-9:.0f} GB/s",
        }

    def sizes(self, target: CudaTarget) -> dict[str, Any]:
        """Bytes of the second-level cache."""
        return {"caches_bytes": {"l2": target.device.l2_bytes}}

    def figures(self, target: CudaTarget) -> dict[str, Any]:
        """Peaks on paper: ``fp32_peak_gflops`` in GFLOP/s, ``read_gb_per_s`` by level."""
        return {
            "source": _whose(target),
            "fp32_peak_gflops": peak_flops(target) * 1e-9,
            "read_gb_per_s": {
                "l2": l2_bytes_per_s(target) * 1e-9,
                "dram": target.device.dram_bytes_per_s * 1e-9,
            },
        }

    @override
    def in_one_line(self, figures: Mapping[str, Any]) -> str:
        read = figures["read_gb_per_s"]
        return (
            f"float32 peak {figures['fp32_peak_gflops']:.0f} GFLOP/s; reads L2 {read['l2']:.0f}, "
            f"memory {read['dram']:.0f} GB/s ({figures['source']})"
        )

    def reach(self, target: CudaTarget, nbytes: int, precision: str = "f32") -> Reach:
        """See `tilework.target.hardware.Hardware`; on paper, not measured."""
        near = nbytes <= target.device.l2_bytes // 2
        rate = l2_bytes_per_s(target) if near else target.device.dram_bytes_per_s
        return Reach(flops_of(target, precision) * 1e-9, rate * 1e-9, measured=False)


def _here(seen: Found, target: CudaTarget) -> str:
    if not seen.devices:
        return f"none here: {seen.why_none}"
    listed = ", ".join(f"{device.name} ({device.arch})" for device in seen.devices)
    fits = any(device.arch == target.arch for device in seen.devices)
    return listed if fits else f"{listed}: none of {target.arch}"


def _whose(target: CudaTarget) -> str:
    return f"of {described(target)}, by its data sheet"


def _emulation() -> str:
    try:
        return " ".join(compiler())
    except TargetError as e:
        return f"none: {e}"


HARDWARE = CudaHardware()
