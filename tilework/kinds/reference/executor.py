"""Compiled networks on the interpreter: the room ``executor``.

Unlike that of a real machine it needs part of the compiler: what a loop program means is defined
there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.errors import ModuleError
from tilework.index.extents import known, shape_at
from tilework.index.symbols import Point
from tilework.kinds.reference.clock import REGION_S, seconds
from tilework.locks import Lock
from tilework.lower.interpret import Meter, interpret
from tilework.lower.interpret_places import ProgramError
from tilework.lower.ir import Buffer, Program
from tilework.lower.serial import FORMAT, ProgramFormatError, program_from_json
from tilework.overriding import override
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.executor import (
    Addresses,
    Context,
    Executor,
    HostLoaded,
    Loaded,
    Roofline,
)
from tilework.runtime.image import Image, Step
from tilework.runtime.layout import behind_in
from tilework.runtime.sites import Site

Array = NDArray[Any]


def piece(symbol: str) -> str:
    """The name under which an image holds a program."""
    return f"{symbol}.json"


class ReferenceExecutor(Executor):
    """Interprets the programs of an image, one after another."""

    def check(self, image: Image, what: str) -> None:
        """Programs run everywhere; only their format must be this one."""
        unknown = sorted(set(image.needs) - {FORMAT})
        if unknown:
            raise ModuleError(
                f"{what} was compiled for '{image.target}' and needs {', '.join(unknown)}, which "
                f"this interpreter does not read (it reads {FORMAT}): compile the network again"
            )

    def check_threads(self, image: Image, threads: int) -> None:
        """Any number will do."""

    def check_code(self, image: Image) -> None:
        """Read all programs."""
        _programs(image)

    @override
    def load(self, image: Image) -> LoadedPrograms:
        return LoadedPrograms(image)


def _programs(image: Image) -> dict[str, Program]:
    """The programs that the image's steps name, by symbol.

    Raises:
        ModuleError: one is missing, or is none.
    """
    out = {}
    for symbol in dict.fromkeys(step.symbol for step in image.steps):
        try:
            out[symbol] = program_from_json(image.code[piece(symbol)])
        except KeyError as e:
            raise ModuleError(f"module {image.name} has no program {symbol}") from e
        except ProgramFormatError as e:
            raise ModuleError(f"program {symbol} of module {image.name} is damaged: {e}") from e
    for step in image.steps:
        program = out[step.symbol]
        wanted = len(program.inputs) + len(program.outputs) + len(program.symbols)
        if len(step.args) != wanted:
            raise ModuleError(
                f"module {image.name} calls {step.symbol} with {len(step.args)} arguments; it "
                f"takes {wanted}"
            )
    return out


class LoadedPrograms(HostLoaded, Loaded):
    """The programs and constants of a network.

    Calls of one step take wall time: what they count is not kept.
    """

    def __init__(self, image: Image) -> None:
        self.image = image
        self.programs = _programs(image)

    @override
    def context(self) -> ReferenceContext:
        return ReferenceContext(self)

    @override
    def roofline(self, threads: int) -> ReferenceRoofline:
        return ReferenceRoofline()


class ReferenceRoofline(Roofline):
    """The only bound there is: a kernel runs one region at least. Seconds are counted steps."""

    wall_clock: bool = False

    @override
    def seconds(self, step: Step, image: Image) -> float:
        return REGION_S

    def flops(self, step: Step) -> float:
        """There is no peak."""
        return math.inf

    def read_s(self, nbytes: float, footprint: float) -> float:
        """Reading costs nothing."""
        return 0.0

    def level(self, nbytes: float) -> str:
        """There is one memory."""
        return "memory"


class ReferenceContext(Context):
    """The arena of a run: `tilework.runtime.executor.Context`."""

    def __init__(self, loaded: LoadedPrograms) -> None:
        self._programs, self._image = loaded.programs, loaded.image
        self._arena = aligned_empty((loaded.image.arena_bytes,), "uint8")
        self._values: tuple[int, ...] = ()
        self._lock = Lock()

    def place(self, site: Site) -> None:
        """See `tilework.runtime.executor.Context`: the largest arena so far is kept."""
        if self._arena.nbytes < site.arena_bytes:
            self._arena = aligned_empty((site.arena_bytes,), "uint8")
        self._image, self._values = site.image, site.values

    @override
    def run(
        self, buffers: Sequence[Array], threads: int, addresses: Addresses | None = None
    ) -> None:
        self.profile(buffers, threads)

    def profile(self, buffers: Sequence[Array], threads: int) -> NDArray[np.float64]:
        """Run once and return the seconds that each step counted."""
        spent = np.zeros(len(self._image.steps))
        for number, away in self._in_order():
            spent[number] += self._call(self._image.steps[number], buffers, threads, away=away)
        return spent

    def _in_order(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Numbers of steps as they are taken, and how many bytes the arguments have moved on."""
        steps, end = self._image.steps, 0
        for repeat in self._image.repeats:
            for number in range(end, repeat.first):
                yield number, [0] * len(steps[number].args)
            end = repeat.first + repeat.count
            for trip in range(known(repeat.trips)):
                away = iter([trip * known(each) for each in repeat.advances])
                for number in range(repeat.first, end):
                    yield number, [next(away) for _ in steps[number].args]
        for number in range(end, len(steps)):
            yield number, [0] * len(steps[number].args)

    @override
    def bind(self, buffers: Sequence[Array], threads: int) -> Callable[[], None]:

        def call() -> None:
            with self._lock:
                self.run(buffers, threads)

        return call

    def bind_step(self, step: int, buffers: Sequence[Array], threads: int) -> Callable[[], None]:
        """See `tilework.runtime.executor.Context`; what it computes is not kept."""
        one = self._image.steps[step]

        def call() -> None:
            with self._lock:
                self._call(one, buffers, threads, keep=False)

        return call

    def _call(
        self,
        step: Step,
        buffers: Sequence[Array],
        threads: int,
        keep: bool = True,
        away: Sequence[int] | None = None,
    ) -> float:
        """Interpret one step; returns the seconds that it counted."""
        program = self._programs[step.symbol]
        expected = (*program.inputs, *program.outputs)
        numbers = [self._values[ref.at] for ref in step.args[len(expected) :]]
        at = dict(zip(program.symbols, numbers, strict=True))
        try:
            arrays = [
                _view(self._block(ref.space, ref.at, buffers, further), buffer, at)
                for ref, buffer, further in zip(
                    step.args, expected, away or [0] * len(step.args), strict=False
                )
            ]
            first, meter = len(program.inputs), Meter()
            results = interpret(program, arrays[:first], at=at, threads=threads, meter=meter)
        except (ProgramError, ValueError, TypeError) as e:
            raise ModuleError(f"module {self._image.name}, step {step.name}: {e}") from e
        if keep:
            for output, result in zip(arrays[first:], results, strict=True):
                output[...] = result
        return seconds(meter)

    def _block(self, space: str, at: int, buffers: Sequence[Array], away: int = 0) -> Array:
        """The bytes from an argument's first element on, which has moved on so far."""
        if space in ("io", "behind"):
            start = known(behind_in(self._image.ends, at)) if space == "behind" else 0
            return buffers[at].reshape(-1).view(np.uint8)[start + away :]
        return (self._arena if space == "arena" else self._image.constants)[at + away :]


def _view(block: Array, buffer: Buffer, at: Point) -> Array:
    """The array that a buffer of a program is, in a block of bytes.

    Raises:
        ValueError, TypeError: it reaches beyond the block.
    """
    kind, shape = numpy_dtype(buffer.dtype), shape_at(buffer.shape, at)
    strides = tuple(kind.itemsize * s for s in shape_at(buffer.strides, at))
    if 0 in shape:
        return np.empty(shape, kind)
    return np.ndarray(shape, kind, block.data, 0, strides)


EXECUTOR = ReferenceExecutor()
