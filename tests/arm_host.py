"""A plugin of pytest: tests are collected as on an AArch64 machine, on any other.

``python -m pytest --collect-only -q -p tests.arm_host`` fails where a module of tests names a CPU
of this machine without its architecture (`tests.hosts` has what such tests need).
"""

from __future__ import annotations

import platform

import llvmlite.binding as llvm
import pytest

_machine = platform.machine
platform.machine = lambda: "aarch64"
import tilework.target.host  # noqa: E402, F401  (it asks once)

platform.machine = _machine
llvm.get_host_cpu_name = lambda: "neoverse-n1"
llvm.get_host_cpu_features = lambda: {"neon": True}


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("collectonly"):
        raise pytest.UsageError("tests.arm_host: nothing runs on a machine that is not there")
