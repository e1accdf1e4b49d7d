"""The builder and the device of any kind, made to misbehave as the last number of a row says.

``builder="tests.conformance.faults:BUILDER"``, ``device="tests.conformance.faults:KIND"``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, auto
from typing import Any

import numpy as np

from tilework import kinds
from tilework.errors import ScheduleError
from tilework.lower.protocol import Builder, builder_of


class Fault(IntEnum):
    none = 0
    rejected = auto()
    short_row = auto()
    compile_error = auto()
    build_crash = auto()
    damaged_code = auto()
    launch_error = auto()
    run_error = auto()
    hang = auto()
    wrong = auto()
    not_written = auto()
    overrun = auto()
    crash = auto()
    killed = auto()


@dataclass(frozen=True)
class FaultyKernel:
    """A kernel of a kind, and what is to go wrong with it."""

    kernel: Any
    fault: Fault

    @property
    def args(self) -> Any:
        return self.kernel.args

    @property
    def facts(self) -> Any:
        return self.kernel.facts

    @property
    def unfit(self) -> Any:
        return self.kernel.unfit

    @property
    def outlook(self) -> Any:
        return self.kernel.outlook

    @property
    def code_hash(self) -> str:
        return f"{self.fault.name}-{self.kernel.code_hash}"

    def workspace_bytes(self, threads: int) -> int:
        return self.kernel.workspace_bytes(threads)


class FaultyBuilder(Builder):
    def build(self, task: Any, sketch_id: int, row: Sequence[int]) -> FaultyKernel:
        *true, last = row
        fault = Fault(last)
        if fault == Fault.rejected:
            raise ScheduleError("this row is not wanted")
        if fault == Fault.short_row:
            true = true[:-1]
        if fault == Fault.compile_error:
            raise ValueError("no code can be made of this")
        if fault == Fault.build_crash:
            os.kill(os.getpid(), signal.SIGSEGV)
        kernel = builder_of(task.target).build(task, sketch_id, tuple(true))
        if fault == Fault.damaged_code:
            kernel = replace(kernel, pieces=tuple((s, b"garbage") for s, _ in kernel.objects))
        return FaultyKernel(kernel, fault)


class FaultyDevice:
    def __init__(self, kind: str) -> None:
        self._device = kinds.room(kind, "device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def for_target(self, target: Any) -> FaultyDevice:
        found = FaultyDevice(target.kind)
        found._device = self._device.for_target(target)
        return found

    def load(self, kernel: FaultyKernel) -> Any:
        if kernel.fault == Fault.launch_error:
            raise OSError("symbol not found")
        return FaultyLoaded(self._device.load(kernel.kernel), kernel.fault)


class FaultyLoaded:
    def __init__(self, loaded: Any, fault: Fault) -> None:
        self._loaded, self._fault = loaded, fault

    def bind(self, arguments: Sequence[Any], workspace: Any, threads: int) -> Callable[[], object]:
        call = self._loaded.bind(arguments, workspace, threads)
        return lambda: self._call(call, arguments[-1])

    def _call(self, call: Callable[[], object], output: Any) -> object:
        match self._fault:
            case Fault.not_written:
                return 0.0
            case Fault.run_error:
                raise RuntimeError("the machine is on fire")
            case Fault.crash:
                os.kill(os.getpid(), signal.SIGSEGV)
            case Fault.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            case Fault.hang:
                time.sleep(600)
        result = call()
        if self._fault == Fault.wrong:
            array = output.read().copy()
            array.flat[0] += 1
            output.write(array)
        if self._fault == Fault.overrun:  # of memory that the host can write to
            flat = output.read().reshape(-1)
            np.lib.stride_tricks.as_strided(flat, (flat.size + 1,))[-1] = 1
        return result


BUILDER = FaultyBuilder()


def __getattr__(name: str) -> FaultyDevice:
    if name not in kinds.KINDS:
        raise AttributeError(name)
    return FaultyDevice(name)
