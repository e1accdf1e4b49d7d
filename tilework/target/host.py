"""This machine, whatever programs are made for."""

from __future__ import annotations

import os
import platform
import sys
from functools import lru_cache
from pathlib import Path

from tilework.target.arm_names import arm_name

_CPUINFO = Path("/proc/cpuinfo")


def _host_platform() -> str:
    machine = platform.machine().lower()
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    return f"{sys.platform} {arch}"


HOST_PLATFORM = _host_platform()
"""Operating system and architecture of this machine, such as ``linux x86_64``."""


def available_cores() -> int:
    """Cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@lru_cache(maxsize=1)
def processor_name() -> str:
    """The name of this machine's processor, as its maker writes it.

    Linux names ARM's by numbers alone: those have the names of `tilework.target.arm_names`.
    """
    return (
        _cpuinfo_line("model name")
        or arm_name(_cpuinfo())
        or platform.processor()
        or platform.machine()
    )


@lru_cache(maxsize=1)
def processor_maker() -> str:
    """Who made this machine's processor, as it says itself; empty if it does not tell."""
    return _cpuinfo_line("vendor_id", "CPU implementer")


def _cpuinfo_line(*names: str) -> str:
    """What Linux says of the first processor under one of these names."""
    values = (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith(names))
    return next(values, "")


def _cpuinfo() -> list[str]:
    """What Linux says of all processors, line by line; nothing elsewhere."""
    try:
        return _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
