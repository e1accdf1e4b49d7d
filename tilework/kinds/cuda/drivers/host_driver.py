"""A GPU that is this machine's memory and processor: what all of these have in common.

Work is done when it is given to a stream, unless it becomes part of a graph. Launches are held to
the limits of the architecture, as a device would hold them.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilework.errors import DeviceError, LaunchError
from tilework.kinds.cuda.architectures import STATIC_SHARED
from tilework.kinds.cuda.drivers.driver import Code, DeviceFacts, Driver
from tilework.kinds.cuda.drivers.errors import no_memory_text
from tilework.kinds.cuda.target import CudaTarget
from tilework.overriding import override

_ALIGN = 256
_CAPACITY = 16 << 30
"""Bytes of memory that the device claims to have."""


class HostFunction(Protocol):
    """A kernel of this process."""

    @property
    def entry(self) -> str:
        """Its name."""

    def run(self, grid: int, block: int, shared: int, pointers: Sequence[int]) -> None:
        """Run it to its end.

        Raises:
            DeviceError: it does what no device allows.
        """


class HostDriver(Driver):
    """`tilework.kinds.cuda.drivers.driver.Driver` but for loading code: `functions_of` does that.

    Args:
        target: the device that is described here.
    """

    def __init__(self, target: CudaTarget) -> None:
        model, self._limits = target.device, target.limits
        self._facts = DeviceFacts(
            name=f"NVIDIA {model.board}",
            arch=target.arch,
            sms=model.sms,
            ghz=model.ghz,
            dram_bytes_per_s=model.dram_bytes_per_s,
            l2_bytes=model.l2_bytes,
            memory_bytes=_CAPACITY,
            shared_per_block=self._limits.shared_per_block,
        )
        self._numbers = itertools.count(1)
        self._memory: dict[int, NDArray[np.uint8]] = {}
        self._used = 0
        self._functions: dict[int, HostFunction] = {}
        self._allowed: dict[int, int] = {}
        self._captures: dict[int, list[Callable[[], object]]] = {}
        self._graphs: dict[int, list[Callable[[], object]]] = {}
        self._marks: dict[int, float] = {}

    def functions_of(self, code: Mapping[str, bytes]) -> Mapping[str, HostFunction]:
        """Functions by name.

        Raises:
            LaunchError: the code is none.
        """
        raise NotImplementedError

    @override
    def facts(self) -> DeviceFacts:
        return self._facts

    @override
    def memory(self) -> tuple[int, int]:
        return self._facts.memory_bytes - self._used, self._facts.memory_bytes

    @override
    def allocate(self, nbytes: int) -> int:
        free, total = self.memory()
        if nbytes > free:
            raise DeviceError(no_memory_text(nbytes, free, total))
        try:
            block = np.empty(nbytes + _ALIGN, np.uint8)
        except MemoryError as e:
            raise DeviceError(no_memory_text(nbytes, 0, total)) from e
        address = int(-(-block.ctypes.data // _ALIGN) * _ALIGN)
        self._memory[address] = block
        self._used += block.nbytes
        return address

    @override
    def free(self, address: int) -> None:
        self._used -= self._memory.pop(address).nbytes

    @override
    def write(self, address: int, array: NDArray[Any], stream: int) -> None:
        self._do(stream, partial(ctypes.memmove, address, array.ctypes.data, array.nbytes))

    @override
    def read(self, array: NDArray[Any], address: int, stream: int) -> None:
        self._do(stream, partial(ctypes.memmove, array.ctypes.data, address, array.nbytes))

    @override
    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        self._do(stream, partial(ctypes.memset, address, byte, nbytes))

    @override
    def copy(self, to: int, start: int, nbytes: int, stream: int) -> None:
        self._do(stream, partial(ctypes.memmove, to, start, nbytes))

    @override
    def load(self, code: Mapping[str, bytes]) -> HostCode:
        numbers = {}
        for entry, function in self.functions_of(code).items():
            numbers[entry] = next(self._numbers)
            self._functions[numbers[entry]] = function
        return HostCode(self._functions, numbers)

    @override
    def allow_shared(self, function: int, nbytes: int) -> None:
        if nbytes > self._limits.shared_per_block:
            raise LaunchError(
                f"{nbytes} bytes of shared memory are more than the "
                f"{self._limits.shared_per_block} of a block of {self._limits.name}"
            )
        self._allowed[function] = nbytes

    @override
    def launch(
        self,
        function: int,
        grid: int,
        block: int,
        shared: int,
        pointers: Sequence[int],
        stream: int,
    ) -> None:
        found = self._functions[function]
        if shared > self._allowed.get(function, STATIC_SHARED):
            raise LaunchError(f"{found.entry} may not have {shared} bytes of shared memory")
        if not 1 <= block <= self._limits.max_threads or grid < 1:
            raise LaunchError(f"{grid} blocks of {block} threads cannot be launched")
        self._do(stream, partial(found.run, grid, block, shared, tuple(pointers)))

    @override
    def stream(self) -> int:
        return next(self._numbers)

    @override
    def drop_stream(self, stream: int) -> None:
        """Nothing is to be done."""

    def after_others(self, stream: int) -> None:
        """See `tilework.kinds.cuda.drivers.driver.Driver`; nothing is ever under way."""

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

    @override
    def event(self) -> int:
        return next(self._numbers)

    @override
    def record(self, event: int, stream: int) -> None:
        self._marks[event] = time.perf_counter()

    @override
    def elapsed_s(self, first: int, last: int) -> float:
        return self._marks[last] - self._marks[first]

    @override
    def drop_event(self, event: int) -> None:
        self._marks.pop(event, None)

    def _do(self, stream: int, work: Callable[[], object]) -> None:
        if stream in self._captures:
            self._captures[stream].append(work)
        else:
            work()


class HostCode(Code):
    """Kernels of this process: `tilework.kinds.cuda.drivers.driver.Code`."""

    def __init__(self, functions: dict[int, HostFunction], numbers: Mapping[str, int]) -> None:
        self._functions, self._numbers = functions, numbers

    @override
    def function(self, entry: str) -> int:
        if entry not in self._numbers:
            raise LaunchError(f"there is no function {entry}")
        return self._numbers[entry]

    def __del__(self) -> None:
        for number in self._numbers.values():
            self._functions.pop(number, None)
