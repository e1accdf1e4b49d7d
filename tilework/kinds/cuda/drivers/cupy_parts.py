"""Memory, streams and marks of a real GPU."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tilework.errors import DeviceError
from tilework.kinds.cuda.drivers.cupy_calls import CupyCalls
from tilework.kinds.cuda.drivers.driver import DeviceMemory, Events, Streams
from tilework.kinds.cuda.drivers.errors import OUT_OF_MEMORY, no_memory_text
from tilework.overriding import override


class CupyStreams(Streams):
    """CUDA's streams and graphs."""

    def __init__(self, cuda: CupyCalls) -> None:
        self._call, self._runtime = cuda.call, cuda.runtime

    @override
    def make(self) -> int:
        flag = self._runtime.streamNonBlocking  # others cannot be captured beside the default one
        return int(self._call("making a stream", self._runtime.streamCreateWithFlags, flag))

    @override
    def drop(self, stream: int) -> None:
        self._call("dropping a stream", self._runtime.streamDestroy, stream)

    @override
    def after_others(self, stream: int) -> None:
        mark = self._call("marking the default stream", self._event_without_time)
        try:
            legacy = self._runtime.streamLegacy
            self._call("marking the default stream", self._runtime.eventRecord, mark, legacy)
            self._call("joining streams", self._runtime.streamWaitEvent, stream, mark)
        finally:
            self._call("dropping an event", self._runtime.eventDestroy, mark)

    @override
    def synchronize(self, stream: int) -> None:
        self._call("running", self._runtime.streamSynchronize, stream)

    @override
    def begin_capture(self, stream: int) -> None:
        mode = self._runtime.streamCaptureModeThreadLocal
        self._call("beginning a graph", self._runtime.streamBeginCapture, stream, mode)

    @override
    def end_capture(self, stream: int) -> int:
        graph = self._call("ending a graph", self._runtime.streamEndCapture, stream)
        try:
            ready = self._call("making a graph ready", self._runtime.graphInstantiate, graph)
        finally:
            self._call("dropping a graph", self._runtime.graphDestroy, graph)
        self._call("bringing a graph", self._runtime.graphUpload, ready, stream)
        return int(ready)

    @override
    def replay(self, graph: int, stream: int) -> None:
        self._call("launching a graph", self._runtime.graphLaunch, graph, stream)

    @override
    def drop_graph(self, graph: int) -> None:
        self._call("dropping a graph", self._runtime.graphExecDestroy, graph)

    def _event_without_time(self) -> int:
        event = self._runtime.eventCreateWithFlags(self._runtime.eventDisableTiming)
        return int(event)


class CupyMemory(DeviceMemory):
    """The device's own memory.

    Args:
        cuda: calls of CUDA.
        streams: what copies are given to.
    """

    def __init__(self, cuda: CupyCalls, streams: Streams) -> None:
        self._call, self._runtime, self._streams = cuda.call, cuda.runtime, streams

    @override
    def available(self) -> tuple[int, int]:
        free, total = self._call("asking for memory", self._runtime.memGetInfo)
        return int(free), int(total)

    @override
    def allocate(self, nbytes: int) -> int:
        try:
            return int(self._call("allocating", self._runtime.malloc, max(nbytes, 1)))
        except DeviceError as e:
            if getattr(e.__cause__, "status", 0) != OUT_OF_MEMORY:
                raise
            free, total = self.available()
            raise DeviceError(no_memory_text(nbytes, free, total)) from e

    @override
    def free(self, address: int) -> None:
        self._call("freeing memory", self._runtime.free, address)

    @override
    def write(self, address: int, array: NDArray[Any], stream: int) -> None:
        kind = self._runtime.memcpyHostToDevice
        self._copy(address, array.ctypes.data, array.nbytes, kind, stream)
        # From memory that may be moved CUDA copies before it returns; of other memory, wait.
        self._streams.synchronize(stream)

    @override
    def read(self, array: NDArray[Any], address: int, stream: int) -> None:
        kind = self._runtime.memcpyDeviceToHost
        self._copy(array.ctypes.data, address, array.nbytes, kind, stream)
        self._streams.synchronize(stream)

    @override
    def copy(self, to: int, start: int, nbytes: int, stream: int) -> None:
        self._copy(to, start, nbytes, self._runtime.memcpyDeviceToDevice, stream)

    @override
    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        if nbytes:
            self._call("filling", self._runtime.memsetAsync, address, byte, nbytes, stream)

    def _copy(self, to: int, start: int, nbytes: int, kind: int, stream: int) -> None:
        if nbytes:
            self._call("copying", self._runtime.memcpyAsync, to, start, nbytes, kind, stream)


class CupyEvents(Events):
    """CUDA's events."""

    def __init__(self, cuda: CupyCalls) -> None:
        self._call, self._runtime = cuda.call, cuda.runtime

    @override
    def make(self) -> int:
        return int(self._call("making an event", self._runtime.eventCreate))

    @override
    def record(self, event: int, stream: int) -> None:
        self._call("recording an event", self._runtime.eventRecord, event, stream)

    @override
    def elapsed_s(self, first: int, last: int) -> float:
        return 1e-3 * float(
            self._call("reading the time", self._runtime.eventElapsedTime, first, last)
        )

    @override
    def drop(self, event: int) -> None:
        self._call("dropping an event", self._runtime.eventDestroy, event)
