"""The machine as a report needs it: what it is, what it reaches, how busy it is."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilework.kinds.cpu.calibrate.bandwidth import Bandwidth, read_bandwidth
from tilework.kinds.cpu.calibrate.core_to_core import core_to_core_ns
from tilework.kinds.cpu.calibrate.peak import fma_peak_gflops
from tilework.target import Target, available_cores
from tilework.target.host import processor_name

_PACKAGES = ("tilework", "numpy", "llvmlite", "onnx", "onnxruntime", "openvino", "torch")


def describe_machine(target: Target) -> dict[str, Any]:
    """What does not change during a run."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": processor_name(),
        "cores": available_cores(),
        "clock_mhz": _clock_mhz(),
        "caches_bytes": {"l1": target.l1_bytes, "l2": target.l2_bytes, "l3": target.l3_bytes},
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "target": str(target),
        "packages": {name: _version(name) for name in _PACKAGES},
        "load_average": list(os.getloadavg()),
    }


def measure_machine(target: Target) -> dict[str, Any]:
    """Peaks at the target's number of threads, and, with several, the way between cores."""
    threads = target.num_cores
    found: dict[str, Any] = {
        "threads": threads,
        "fma_peak_gflops": fma_peak_gflops(target, threads=threads),
        "read_gb_per_s": asdict(read_bandwidth(target, threads)),
    }
    if threads > 1:
        found["core_to_core_ns"] = core_to_core_ns()
    return found


def machine_line(found: dict[str, Any]) -> str:
    """One line of the figures of `measure_machine`."""
    read = Bandwidth(**found["read_gb_per_s"])
    text = (
        f"FMA peak {found['fma_peak_gflops']:.0f} GFLOP/s; reads L1 {read.l1:.0f}, L2 "
        f"{read.l2:.0f}, L3 {read.l3:.0f}, DRAM {read.dram:.0f} GB/s"
    )
    if found.get("core_to_core_ns"):
        text += f"; core to core {found['core_to_core_ns']:.0f} ns"
    return text


def _clock_mhz() -> float | None:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("cpu MHz"):
            return float(line.partition(":")[2])
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
