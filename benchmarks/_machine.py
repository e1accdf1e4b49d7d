"""The machine as a report needs it: what it is, what it reaches, how busy it is."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilework.target import Target, available_cores
from tilework.target.hardware import hardware_of
from tilework.target.host import processor_name
from tilework.target.runs import caveat

_PACKAGES = ("tilework", "numpy", "llvmlite", "onnx", "onnxruntime", "openvino", "torch")


def describe_machine(target: Target) -> dict[str, Any]:
    """What does not change during a run."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": processor_name(),
        "cores": available_cores(),
        "clock_mhz": _clock_mhz(),
        **hardware_of(target).sizes(target),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "target": str(target),
        "packages": {name: _version(name) for name in _PACKAGES},
        "load_average": list(os.getloadavg()),
    }


def measure_machine(target: Target) -> dict[str, Any]:
    """What the machine reaches with the target's threads."""
    return hardware_of(target).figures(target)


def machine_line(target: Target, found: dict[str, Any]) -> str:
    """One line of the figures of `measure_machine`; a second one if the target is not run here."""
    said = caveat(str(target))
    return hardware_of(target).in_one_line(found) + (f"\n{said}" if said else "")


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
