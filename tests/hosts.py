"""Machines that tests name: code for x86 is generated anywhere, and runs on x86 alone."""

from __future__ import annotations

from typing import Any

import pytest

from tilework.target import HOST_PLATFORM, Target
from tilework.target.host import available_cores

HOST_ARCH = HOST_PLATFORM.split()[1]
ELSEWHERE = f"llvm -mtriple={'x86_64' if HOST_ARCH == 'aarch64' else 'aarch64'}-linux-gnu"
"""A target whose code does not run here."""

runs_x86 = pytest.mark.skipif(HOST_ARCH != "x86_64", reason="this machine runs no x86 code")
x86_records = pytest.mark.skipif(
    HOST_ARCH != "x86_64", reason="records of x86 machines name no architecture"
)


def x86(cpu: str, cores: int | None = None) -> str:
    """The text of a target with an x86 CPU, whatever this machine is."""
    cores = available_cores() if cores is None else cores
    return f"llvm -mcpu={cpu} -mtriple=x86_64-linux-gnu -num-cores={cores}"


def runs(cpu: str) -> bool:
    """Whether this machine runs code of an x86 CPU, or of a target of one."""
    target = Target(cpu if cpu.startswith("llvm") else x86(cpu, 1))
    return HOST_ARCH == "x86_64" and not target.missing_on_host()


def on_x86(*values: str) -> list[Any]:
    """Parameters of a test that runs code of these CPUs or targets.

    What this machine lacks the instructions for is skipped by name: it would end the process.
    """
    return [
        pytest.param(v, marks=pytest.mark.skipif(not runs(v), reason=f"this machine runs no {v}"))
        for v in values
    ]


def small_caches(patch: pytest.MonkeyPatch) -> None:
    """For targets that are made from now on: a virtual machine may show half a GiB of its host's.

    To read from beyond that takes seconds, and says nothing more of how it is measured.
    """
    patch.setattr("tilework.kinds.cpu.target.cache_sizes", lambda: (32 << 10, 1 << 20, 16 << 20))
