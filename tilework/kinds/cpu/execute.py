"""A compiled network loaded into this process: its memory, its code, and the call."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.object_code import ObjectCode
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.image import PROFILE_SYMBOL, RUN_SYMBOL, Image

_TEAM = threading.Lock()
"""Held by a run with several threads: runs of all modules of the process use the cores in turn.

The OpenMP runtime keeps a team of threads per calling thread. Two Python threads that ran modules
at the same time would have twice as many threads as cores, which then wait for each other at
every barrier while the system runs the others.
"""

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
_PROFILE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p
)
Array = NDArray[Any]


class Executable:
    """Runs an image. Runs of one executable take turns: they share memory."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._code = ObjectCode(*image.code.values())
        self._run = _RUN(self._code.address(RUN_SYMBOL))
        self._profile = _PROFILE(self._code.address(PROFILE_SYMBOL))
        self._arena = aligned_empty((image.arena_bytes,), "uint8")
        self._workspace = aligned_empty((0,), "uint8")
        self._lock = threading.Lock()
        bases = {"arena": self._arena.ctypes.data, "constant": image.constants.ctypes.data}
        refs = [r for step in image.steps for r in step.args]
        self._table = np.array([bases.get(r.space, 0) + r.at for r in refs], np.uint64)
        self._slots: dict[int, list[int]] = {}
        for i, r in enumerate(refs):
            if r.space == "io":
                self._slots.setdefault(r.at, []).append(i)

    def run(self, buffers: Sequence[Array], threads: int) -> None:
        """Run once on io buffers: aligned, contiguous arrays, in the order of their numbers."""
        with self._lock:
            self._bind(buffers, threads)
            with _turn(threads):
                self._run(self._table.ctypes.data, self._workspace.ctypes.data, threads)

    def bind(self, buffers: Sequence[Array], threads: int) -> Callable[[], None]:
        """The run on these io buffers, ready to be repeated: a call costs under a microsecond."""
        return self._bound(self._run, 0, buffers, threads)

    def bind_step(self, step: int, buffers: Sequence[Array], threads: int) -> Callable[[], None]:
        """One kernel call of the run by itself, on what the last run left in its buffers.

        An output that takes an input's place in the network has memory of its own here, so that
        the values stay what they are.
        """
        steps = self._image.steps
        first = sum(len(s.args) for s in steps[:step])
        kernel = _RUN(self._code.address(steps[step].symbol))
        *inputs, output = steps[step].args
        spare = aligned_empty((self._image.arena_bytes,), "uint8") if output in inputs else None
        changed = {} if spare is None else {first + len(inputs): spare}
        return self._bound(kernel, first, buffers, threads, changed)

    def _bound(
        self,
        run: Any,
        first: int,
        buffers: Sequence[Array],
        threads: int,
        changed: Mapping[int, Array] | None = None,
    ) -> Callable[[], None]:
        """A function with the argument table from entry ``first`` on, some entries replaced."""
        with self._lock:
            self._bind(buffers, threads)
            table, workspace = self._table.copy(), self._workspace
        for entry, array in (changed or {}).items():
            table[entry] = array.ctypes.data
        lock, keep = self._lock, (*buffers, *(changed or {}).values())
        a = ctypes.c_void_p(table.ctypes.data + first * table.itemsize)
        b = ctypes.c_void_p(workspace.ctypes.data)
        n = ctypes.c_int32(threads)

        def alone() -> None:
            with lock:
                run(a, b, n)

        def together() -> None:
            with lock, _TEAM:
                run(a, b, n)

        call = alone if threads == 1 else together
        # what the pointers point to lives as long as the call
        call.keep = (self, table, workspace, keep)  # type: ignore[attr-defined]
        return call

    def profile(self, buffers: Sequence[Array], threads: int) -> NDArray[np.float64]:
        """Run once and return the seconds that each step took."""
        stamps = np.zeros((len(self._image.steps) + 1, 2), np.int64)
        with self._lock:
            self._bind(buffers, threads)
            with _turn(threads):
                self._profile(
                    self._table.ctypes.data,
                    self._workspace.ctypes.data,
                    threads,
                    time.CLOCK_MONOTONIC,
                    stamps.ctypes.data,
                )
        passed = np.diff(stamps, axis=0)
        return np.asarray(passed[:, 0] + passed[:, 1] * 1e-9, np.float64)

    def _bind(self, buffers: Sequence[Array], threads: int) -> None:
        for number, places in self._slots.items():
            self._table[places] = buffers[number].ctypes.data
        need = self._image.workspace_bytes(threads)
        if self._workspace.nbytes < need:
            self._workspace = aligned_empty((need,), "uint8")


def _turn(threads: int) -> AbstractContextManager[object]:
    """What a run with so many threads holds besides its module's own lock."""
    return _TEAM if threads > 1 else nullcontext()
