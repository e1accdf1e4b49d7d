"""The parts of a network bound to each other's arrays, for runs that are repeated."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from tilework.index.symbols import Point
from tilework.locks import Lock
from tilework.runtime.arrays import ready_copy
from tilework.runtime.module import Module
from tilework.runtime.other import Binding, OtherPart
from tilework.runtime.parts_image import Part, PartsImage, rooms


class BoundParts:
    """The parts of a network, each bound to the arrays of the one before it.

    Calls take turns: all use the same memory.
    """

    def __init__(
        self, image: PartsImage, given: Mapping[str, Any], threads: int, point: Point
    ) -> None:
        self._point = point
        self._outputs = image.outputs
        self._values: dict[str, Any] = dict(given)
        self._steps: list[Callable[[], None]] = []
        self._turn = Lock()
        for part in image.parts:
            bind = self._ours if isinstance(part.runner, Module) else self._theirs
            self._steps.append(bind(image, part, threads))

    def __call__(self) -> Mapping[str, Any]:
        """Run all parts; the values of the network by name."""
        with self._turn:
            for step in self._steps:
                step()
            return self._values

    def timed(self) -> list[float]:
        """Run all parts; the seconds of each."""
        marks = [time.perf_counter()]
        with self._turn:
            for step in self._steps:
                step()
                marks.append(time.perf_counter())
        return [b - a for a, b in pairwise(marks)]

    def _ours(self, image: PartsImage, part: Part, threads: int) -> Callable[[], None]:
        runner = part.runner
        assert isinstance(runner, Module)
        if any(n not in self._values for n in part.inputs):  # its extents are known in a run

            def unbound() -> None:
                results = runner.run({n: self._values[n] for n in part.inputs})
                self._values.update(zip(part.outputs, results, strict=True))

            return unbound
        ready = {
            n: ready_copy(f"input {n}", a, a.shape, str(a.dtype))
            for n, a in ((n, self._values[n]) for n in part.inputs)
        }
        call = runner.bind(ready, threads=threads)
        copied = [(n, ready[n]) for n in part.inputs if ready[n] is not self._values[n]]
        self._values.update(zip(part.outputs, call.outputs, strict=True))

        def run() -> None:
            for name, own in copied:
                own[...] = self._values[name]
            call()

        return run

    def _theirs(self, image: PartsImage, part: Part, threads: int) -> Callable[[], None]:
        runner = part.runner
        assert isinstance(runner, OtherPart)
        binding, into = Binding(runner, threads), rooms(image, part, self._point)
        self._values.update(into)

        def run() -> None:
            results = binding({n: self._values[n] for n in part.inputs}, into)
            self._values.update(zip(part.outputs, results, strict=True))

        return run
