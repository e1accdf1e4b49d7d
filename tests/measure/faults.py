"""A builder and devices whose kernels misbehave as told by the decision row.

`row[0]` is a `Fault`. The kernels compute ``C = A + B`` in Python, rightly unless told otherwise.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilework.errors import ScheduleError
from tilework.kinds.cpu.device import CpuDevice
from tilework.lower.protocol import Builder
from tilework.runtime.samples import ReportedStopwatch


class Fault(IntEnum):
    none = 0
    slow = auto()  # row[1]: microseconds per call
    packed = auto()  # the second input arrives reversed
    rejected = auto()
    build_error = auto()
    build_segfault = auto()
    build_exit = auto()
    build_hang = auto()
    build_unpicklable = auto()
    build_killed = auto()
    load_error = auto()
    run_error = auto()
    run_segfault = auto()
    run_abort = auto()
    run_exit = auto()
    run_hang = auto()
    run_spin = auto()
    run_killed = auto()
    run_killed_once = auto()  # the marker file is named by the environment variable FAULT_MARKER
    wrong = auto()
    partial = auto()
    scalar_wrong = auto()  # only with one thread
    later_wrong = auto()  # only from the third call on
    overrun = auto()
    report = auto()  # a build error that tells about the process
    unfit = auto()  # refused by its code
    promising = auto()  # row[1]: tenths of what the draft model makes of the code


@dataclass(frozen=True)
class Reverse:
    """A packing that reverses a vector."""

    def apply(self, array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array[::-1])


@dataclass(frozen=True)
class FakeArg:
    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    packing: Reverse | None = None


@dataclass(frozen=True)
class FakeKernel:
    fault: Fault
    row: tuple[int, ...]
    code_hash: str
    args: tuple[FakeArg, ...]
    extra: Any = None
    facts: Mapping[str, float] = field(default_factory=lambda: {"registers": 32.0})
    unfit: str = ""
    outlook: float = 1.0

    def workspace_bytes(self, threads: int) -> int:
        return 64 + 32 * threads


def build(task: Any, sketch_id: int, row: tuple[int, ...]) -> FakeKernel:
    fault = Fault(row[0])
    if fault == Fault.rejected:
        raise ScheduleError("the row has too few decisions")
    if fault == Fault.build_error:
        raise ValueError("no register is left\nfor this tile")
    if fault == Fault.build_segfault:
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == Fault.build_exit:
        sys.stderr.write("LLVM ERROR: out of patience")
        sys.stderr.flush()
        os._exit(3)
    if fault == Fault.build_hang:
        time.sleep(600)
    if fault == Fault.build_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == Fault.report:
        heavy = ("pandas", "pyarrow", "prefect", "onnx", "xgboost", "matplotlib", "pytest")
        loaded = [name for name in heavy if name in sys.modules]
        raise RuntimeError(f"nice={os.nice(0)} heavy={loaded} main={sys.modules['__main__']}")
    a, b = task.compute_dag.inputs
    c = task.compute_dag.outputs[0]
    packing = Reverse() if fault == Fault.packed else None
    args = (
        FakeArg("A", a.shape, a.dtype, "input"),
        FakeArg("B", b.shape, b.dtype, "input", packing),
        FakeArg("C", c.shape, c.dtype, "output"),
    )
    extra = (lambda: None) if fault == Fault.build_unpicklable else None
    unfit = "it spills 8 bytes" if fault == Fault.unfit else ""
    outlook = row[1] / 10 if fault == Fault.promising else 1.0
    code = _code(fault, row)
    return FakeKernel(fault, tuple(row), code, args, extra, unfit=unfit, outlook=outlook)


def _code(fault: Fault, row: tuple[int, ...]) -> str:
    """Kernels that behave alike have equal code; so have those whose row ends in 0."""
    return "-".join(["code", fault.name, *(str(value) for value in row[1:] if value)])


def load(kernel: FakeKernel) -> FakeLoaded:
    if kernel.fault == Fault.load_error:
        raise OSError("symbol not found")
    return FakeLoaded(kernel)


class FakeLoaded:
    def __init__(self, kernel: FakeKernel) -> None:
        self.kernel = kernel
        self.calls = 0

    def bind(self, buffers: list[Any], workspace: Any, threads: int) -> Any:
        return partial(self, [b.array for b in buffers], workspace.array, threads)

    def __call__(self, arrays: list[np.ndarray], workspace: np.ndarray, threads: int) -> None:
        a, b, c = arrays
        assert all(array.ctypes.data % 64 == 0 for array in (*arrays, workspace))
        assert workspace.nbytes == self.kernel.workspace_bytes(2)
        self.calls += 1
        fault = self.kernel.fault
        _misbehave(fault)
        if fault == Fault.slow:
            end = time.perf_counter() + self.kernel.row[1] * 1e-6
            while time.perf_counter() < end:
                pass
        if fault == Fault.partial:
            c[:-1] = a[:-1] + b[:-1]
            return
        np.add(a, b[::-1] if fault == Fault.packed else b, out=c)
        bad = (
            fault == Fault.wrong
            or (fault == Fault.scalar_wrong and threads == 1)
            or (fault == Fault.later_wrong and self.calls >= 3)
        )
        if bad:
            c[7] += 0.5
        if fault == Fault.overrun:
            beyond = np.lib.stride_tricks.as_strided(c, (c.size + 1,))
            beyond[-1] = 1.0


def _misbehave(fault: Fault) -> None:
    if fault == Fault.run_error:
        raise RuntimeError("the runtime has no threads")
    if fault == Fault.run_segfault:
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == Fault.run_abort:
        os.abort()
    if fault == Fault.run_exit:
        os._exit(7)
    if fault == Fault.run_hang:
        time.sleep(600)
    if fault == Fault.run_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == Fault.run_killed_once:
        marker = Path(os.environ["FAULT_MARKER"])
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    while fault == Fault.run_spin:
        pass


class FaultyBuilder(Builder):
    def build(self, task: Any, sketch_id: int, row: tuple[int, ...]) -> FakeKernel:
        return build(task, sketch_id, row)


class FaultyDevice(CpuDevice):
    def load(self, kernel: Any) -> Any:
        return load(kernel)


class Told(FakeLoaded):
    """Says how long it takes, so that nothing that the machine does beside it is seen."""

    def __call__(self, arrays: list[np.ndarray], workspace: np.ndarray, threads: int) -> float:
        a, b, c = arrays
        np.add(a, b, out=c)
        return self.kernel.row[1] * 1e-6


class TellingDevice(CpuDevice):
    def load(self, kernel: Any) -> Any:
        return Told(kernel)

    def stopwatch(self) -> AbstractContextManager[ReportedStopwatch]:
        return nullcontext(ReportedStopwatch())

    def calibration_s(self) -> float:
        return 1e-3  # it never runs slower


BUILDER = FaultyBuilder()
DEVICE = FaultyDevice()
TELLING = TellingDevice()
