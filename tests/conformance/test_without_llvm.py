"""A kind that needs no LLVM where llvmlite cannot be imported: built, measured, compiled, run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
WAY = "every_schedule or tuning or compile_save_load"
"""The tests that go the whole way; what else there is of the suite imports no other modules."""


def test_the_reference_kind_needs_no_llvm():
    """Worker processes have their parent's path, and so no llvmlite either."""
    path = os.pathsep.join([str(HERE / "without_llvm"), *sys.path])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly",
         "-k", WAY, str(HERE / "test_reference.py")],
        env={**os.environ, "PYTHONPATH": path}, cwd=HERE.parent.parent,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:]
    assert "3 passed" in run.stdout


def test_there_is_no_llvmlite_in_that_environment():
    run = subprocess.run(
        [sys.executable, "-c", "import llvmlite"],
        env={**os.environ, "PYTHONPATH": str(HERE / "without_llvm")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert "this environment has none" in run.stderr


def test_targets_that_need_it_say_so():
    run = subprocess.run(
        [sys.executable, "-c", "import tilework; tilework.Target('llvm')"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE / "without_llvm"), *sys.path])},
        capture_output=True, text=True,
    )  # fmt: skip
    assert "TargetError: targets of kind 'llvm' need the package llvmlite" in run.stderr
