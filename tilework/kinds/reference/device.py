"""The interpreter as what kernels are measured on: `tilework.measure.device.Device`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from tilework.index.extents import shape_at
from tilework.kinds.reference.clock import STEP_S, seconds
from tilework.kinds.reference.target import ReferenceTarget
from tilework.lower.interpret import Meter, interpret
from tilework.lower.ir import Program
from tilework.lower.kernel import Kernel
from tilework.lower.serial import program_from_json
from tilework.measure.device import Device
from tilework.measure.host_buffer import HostBuffer
from tilework.measure.settings import Settings
from tilework.overriding import override
from tilework.runtime.arrays import check_ready
from tilework.runtime.samples import ReportedStopwatch
from tilework.target.identity import DeviceIdentity

NAME = "reference interpreter"


class ReferenceDevice(Device):
    """Runs loop programs in this process, and counts what they do."""

    def name(self, target: ReferenceTarget) -> str:
        """The same on every machine."""
        return NAME

    def identity(self, target: ReferenceTarget) -> DeviceIdentity:
        """One for all machines: what is counted is the same everywhere."""
        return DeviceIdentity(NAME, timed=False)

    def settings(self) -> Settings:
        """One sample of one call: another would say the same."""
        return Settings(
            run_timeout_s=60.0, min_repeat_ms=0.0, repeats=1, short_look=1, final_rounds=1,
            time_budget_ms=0.0, rotate_bytes=0,
        )  # fmt: skip

    @override
    def allocate(self, shape: Sequence[int], dtype: str) -> HostBuffer:
        return HostBuffer(shape, dtype)

    def copies(self, buffers: Sequence[HostBuffer], count: int) -> list[list[HostBuffer]]:
        """New memory each time: it makes no difference here."""
        out = []
        for _ in range(count):
            copy = [HostBuffer(b.array.shape, str(b.array.dtype)) for b in buffers]
            for new, old in zip(copy, buffers, strict=True):
                new.write(old.array)
            out.append(copy)
        return out

    def load(self, kernel: Kernel) -> LoadedProgram:
        """Reads the kernel's program.

        Raises:
            ProgramFormatError: its code is none.
        """
        return LoadedProgram(program_from_json(dict(kernel.objects)[kernel.symbol]))

    def stopwatch(self) -> AbstractContextManager[ReportedStopwatch]:
        """Adds up what calls have counted."""
        return nullcontext(ReportedStopwatch())

    def calibration_s(self) -> float:
        """It never runs slower."""
        return STEP_S


class LoadedProgram:
    """A loop program: `tilework.measure.device.Loaded`."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def bind(
        self, arguments: Sequence[HostBuffer], workspace: HostBuffer, threads: int
    ) -> Callable[[], float]:
        """A function that runs the program once and returns the seconds that it counted.

        Args:
            arguments: inputs, outputs, and the values of symbols by name.
            workspace: nothing is kept there.
            threads: that share parallel loops.

        Raises:
            ModuleError: a buffer has another shape or type than the program expects.
        """
        program = self.program
        arrays = [b.array for b in arguments]
        first, last = len(program.inputs), len(arrays) - len(program.symbols)
        numbers = [int(array) for array in arrays[last:]]
        at = dict(zip(program.symbols, numbers, strict=True))
        expected = (*program.inputs, *program.outputs)
        for array, buffer in zip(arrays[:last], expected, strict=True):
            shape = shape_at(buffer.shape, at)
            check_ready(f"argument {buffer.name}", array, shape, buffer.dtype)

        def run() -> float:
            meter = Meter()
            results = interpret(program, arrays[:first], at=at, threads=threads, meter=meter)
            for array, result in zip(arrays[first:last], results, strict=True):
                array[...] = result
            return seconds(meter)

        return run


DEVICE = ReferenceDevice()
