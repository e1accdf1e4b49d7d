"""Memory, streams and marks of a GPU that is this machine's memory and processor."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import DeviceError
from tilework.kinds.cuda.drivers.driver import DeviceMemory, Events, Streams
from tilework.kinds.cuda.drivers.errors import no_memory_text
from tilework.overriding import override

_ALIGN = 256
CAPACITY = 16 << 30
"""Bytes of memory that the device claims to have."""


class HostStreams(Streams):
    """Work is done when it is given to a stream, unless it becomes part of a graph."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._captures: dict[int, list[Callable[[], object]]] = {}
        self._graphs: dict[int, list[Callable[[], object]]] = {}

    def do(self, stream: int, work: Callable[[], object]) -> None:
        """Give a stream work."""
        if stream in self._captures:
            self._captures[stream].append(work)
        else:
            work()

    @override
    def make(self) -> int:
        return next(self._numbers)

    @override
    def drop(self, stream: int) -> None:
        """Nothing is to be done."""

    @override
    def after_others(self, stream: int) -> None:
        """Nothing is ever under way."""

    @override
    def synchronize(self, stream: int) -> None:
        """Nothing is to be done."""

    @override
    def begin_capture(self, stream: int) -> None:
        self._captures[stream] = []

    @override
    def end_capture(self, stream: int) -> int:
        graph = next(self._numbers)
        self._graphs[graph] = self._captures.pop(stream)
        return graph

    @override
    def replay(self, graph: int, stream: int) -> None:
        for step in self._graphs[graph]:
            step()

    @override
    def drop_graph(self, graph: int) -> None:
        self._graphs.pop(graph, None)


class HostMemory(DeviceMemory):
    """Blocks of this process's memory.

    Args:
        streams: what copies are given to.
    """

    def __init__(self, streams: HostStreams) -> None:
        self._streams = streams
        self._blocks: dict[int, NDArray[np.uint8]] = {}
        self._used = 0

    @override
    def available(self) -> tuple[int, int]:
        return CAPACITY - self._used, CAPACITY

    @override
    def allocate(self, nbytes: int) -> int:
        free, total = self.available()
        if nbytes > free:
            raise DeviceError(no_memory_text(nbytes, free, total))
        try:
            block = np.empty(nbytes + _ALIGN, np.uint8)
        except MemoryError as e:
            raise DeviceError(no_memory_text(nbytes, 0, total)) from e
        address = int(-(-block.ctypes.data // _ALIGN) * _ALIGN)
        self._blocks[address] = block
        self._used += block.nbytes
        return address

    @override
    def free(self, address: int) -> None:
        self._used -= self._blocks.pop(address).nbytes

    @override
    def write(self, address: int, array: NDArray[Any], stream: int) -> None:
        self._streams.do(stream, partial(ctypes.memmove, address, array.ctypes.data, array.nbytes))

    @override
    def read(self, array: NDArray[Any], address: int, stream: int) -> None:
        self._streams.do(stream, partial(ctypes.memmove, array.ctypes.data, address, array.nbytes))

    @override
    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        self._streams.do(stream, partial(ctypes.memset, address, byte, nbytes))

    @override
    def copy(self, to: int, start: int, nbytes: int, stream: int) -> None:
        self._streams.do(stream, partial(ctypes.memmove, to, start, nbytes))


class HostEvents(Events):
    """This machine's clock."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._marks: dict[int, float] = {}

    @override
    def make(self) -> int:
        return next(self._numbers)

    @override
    def record(self, event: int, stream: int) -> None:
        self._marks[event] = time.perf_counter()

    @override
    def elapsed_s(self, first: int, last: int) -> float:
        return self._marks[last] - self._marks[first]

    @override
    def drop(self, event: int) -> None:
        self._marks.pop(event, None)
