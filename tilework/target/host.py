"""This machine, whatever programs are made for."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from tilework.target.arm_names import arm_name

_CPUINFO = Path("/proc/cpuinfo")
_STAT = Path("/proc/stat")


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


def others_since_now() -> Callable[[], float]:
    """Asked later: the share of the cores that others took from now on, 0 where unknown.

    Others are all other processes, and the neighbours of a virtual machine.
    """
    before = _others_seconds(), time.perf_counter()

    def share() -> float:
        took, lasted = (_others_seconds() - before[0]), time.perf_counter() - before[1]
        return max(0.0, took / max(lasted, 1e-9) / (os.cpu_count() or 1))

    return share


def _others_seconds() -> float:
    """Seconds of all cores that were neither idle nor this process's."""
    try:
        user, nice, system, _, _, irq, softirq, steal = map(int, _STAT.read_text().split()[1:9])
    except (OSError, ValueError):
        return 0.0
    busy = user + nice + system + irq + softirq + steal
    return busy / os.sysconf("SC_CLK_TCK") - time.process_time()


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
