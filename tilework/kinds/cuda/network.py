"""A compiled network on a GPU: `tilework.runtime.executor.Loaded` and its contexts."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import DeviceError, ModuleError
from tilework.index.extents import known
from tilework.kinds.cuda.drivers.driver import Driver
from tilework.kinds.cuda.drivers.memory import Memory
from tilework.kinds.cuda.drivers.program import Launcher, Resolved
from tilework.kinds.cuda.drivers.stream import GraphStopwatch, Stream
from tilework.kinds.cuda.images import kernels_of
from tilework.kinds.cuda.roofline import CudaRoofline
from tilework.kinds.cuda.target import CudaTarget
from tilework.locks import Lock
from tilework.overriding import override
from tilework.runtime.device_array import DeviceArray, device_array
from tilework.runtime.executor import Addresses, Context, Loaded
from tilework.runtime.image import Image, Ref

Array = NDArray[Any]

_ALIGN = 256
_SCRATCH = 1 << 16
_FILLS_PER_LAUNCH = 16
"""Fills of scratch memory, a microsecond or two each, that keep the device busy while the host
gives it the launches of a profile: these then follow each other without waiting for the host."""


class LoadedNetwork(Loaded):
    """Code and constants on a device.

    Raises:
        ModuleError: the code is damaged, or the device does not take it.
    """

    def __init__(self, image: Image, target: CudaTarget, driver: Driver) -> None:
        self.image, self.driver = image, driver
        self._target = target
        with errors_name_module(image):
            kernels = kernels_of(image)
            code = driver.load({e: text for k in kernels.values() for e, text in k.code.items()})
            self.launchers = {s: Launcher(driver, code, k.launches) for s, k in kernels.items()}
            self.stream = Stream(driver)
            self.constants = Memory(driver, image.constants.nbytes)
            driver.memory.write(self.constants.address, image.constants, self.stream.number)

    def context(self) -> CudaContext:
        """See `tilework.runtime.executor.Loaded`.

        Raises:
            ModuleError: the device has not enough memory left.
        """
        with errors_name_module(self.image):
            return CudaContext(self)

    def turn(self, threads: int) -> AbstractContextManager[object]:
        """Runs may meet: each context has memory and a stream of its own."""
        return nullcontext()

    @override
    def device_array(self, what: str, given: Any) -> DeviceArray | None:
        return device_array(what, given)

    def resident(self, buffers: Sequence[Array]) -> Sequence[DeviceArray]:
        """Copies on the device."""
        out = []
        with errors_name_module(self.image):
            for array in buffers:
                memory = Memory(self.driver, array.nbytes)
                self.driver.memory.write(memory.address, array, self.stream.number)
                place = (memory.address, array.shape, str(array.dtype))
                out.append(DeviceArray(*place, writable=True, given=array, keep=memory))
        return out

    def stopwatch(self) -> GraphStopwatch:
        """The device's own time."""
        return GraphStopwatch(self.stream)

    @override
    def roofline(self, threads: int) -> CudaRoofline:
        return CudaRoofline(self._target)


class CudaContext(Context):
    """Memory of a run: one allocation for arena, workspace, and copies of the caller's arrays."""

    def __init__(self, loaded: LoadedNetwork) -> None:
        image = loaded.image
        self._loaded, self._image, self._driver = loaded, image, loaded.driver
        sizes = [image.arena_bytes, image.workspace_bytes(1), _SCRATCH]
        sizes += [known(value.nbytes) for value in image.io_values]
        starts = np.cumsum([0, *(-(-size // _ALIGN) * _ALIGN for size in sizes)])
        self._memory = Memory(loaded.driver, int(starts[-1]))
        places = [self._memory.address + int(start) for start in starts]
        self._arena, self._workspace, self._scratch, *self._io = places[:-1]
        self._stream = Stream(loaded.driver)
        self._graph: _Graph | None = None
        self._lock = Lock()

    @override
    def run(
        self, buffers: Sequence[Array], threads: int, addresses: Addresses | None = None
    ) -> None:
        with errors_name_module(self._image):
            if self._graph is None:
                self._graph = self._captured(self._io)
            self._run(self._graph, buffers)

    @override
    def profile(self, buffers: Sequence[Array], threads: int) -> NDArray[np.float64]:
        driver, stream = self._driver, self._stream.number
        calls = self._calls(self._io)
        launches = sum(len(steps) for _, steps in calls)
        with errors_name_module(self._image):
            busy = _Graph(self._stream, self._fills(_FILLS_PER_LAUNCH * (launches + 1)))
            marks = [driver.events.make() for _ in range(len(calls) + 1)]
            self._write(buffers)
            busy.replay()
            driver.events.record(marks[0], stream)
            for (launcher, steps), mark in zip(calls, marks[1:], strict=True):
                launcher.start(steps, stream)
                driver.events.record(mark, stream)
            self._read(buffers)
            pairs = itertools.pairwise(marks)
            seconds = np.array([driver.events.elapsed_s(a, b) for a, b in pairs], np.float64)
            for mark in marks:
                driver.events.drop(mark)
        return seconds

    def bind(self, buffers: Sequence[Any], threads: int) -> Callable[[], None]:
        """See `tilework.runtime.executor.Context`: one graph for these buffers."""
        pairs = list(zip(buffers, self._io, strict=True))
        with errors_name_module(self._image):
            places = [b.address if isinstance(b, DeviceArray) else own for b, own in pairs]
            graph, image, lock = self._captured(places), self._image, self._lock
        foreign = any(isinstance(b, DeviceArray) and not _ours(b) for b in buffers)

        def call() -> None:
            with lock, errors_name_module(image):
                if foreign:
                    self._driver.streams.after_others(self._stream.number)
                self._run(graph, buffers)

        return call

    @override
    def bind_step(self, step: int, buffers: Sequence[Array], threads: int) -> Callable[[], None]:
        one, spare = self._image.steps[step], None
        *inputs, output = one.args
        places = [self._address(ref, self._io) for ref in one.args]
        if (output.space, output.at) in [(ref.space, ref.at) for ref in inputs]:
            spare = Memory(self._driver, known(output.nbytes))
            places[-1] = spare.address
        launcher = self._loaded.launchers[one.symbol]
        steps = launcher.resolved(places, self._workspace)
        image, lock, stream = self._image, self._lock, self._loaded.stream

        def call() -> None:
            with lock, errors_name_module(image):
                launcher.start(steps, stream.number)
                if stream.waits:
                    stream.driver.streams.synchronize(stream.number)

        call.keep = (self, spare)  # type: ignore[attr-defined]
        return call

    def _run(self, graph: _Graph, buffers: Sequence[Any]) -> None:
        self._write(buffers)
        graph.replay()
        self._read(buffers)

    def _write(self, buffers: Sequence[Any]) -> None:
        """Inputs of the host, to the device."""
        for number in range(len(self._image.inputs)):
            if not isinstance(buffers[number], DeviceArray):
                self._driver.memory.write(self._io[number], buffers[number], self._stream.number)

    def _read(self, buffers: Sequence[Any]) -> None:
        """Outputs of the host, from the device, when the run is over."""
        self._driver.streams.synchronize(self._stream.number)
        for number in range(len(self._image.inputs), len(buffers)):
            if not isinstance(buffers[number], DeviceArray):
                self._driver.memory.read(buffers[number], self._io[number], self._stream.number)

    def _captured(self, io: Sequence[int]) -> _Graph:
        """All launches as one graph, with the caller's arrays at these addresses."""
        stream, calls = self._stream, self._calls(io)

        def start() -> None:
            for launcher, steps in calls:
                launcher.start(steps, stream.number)

        return _Graph(stream, start)

    def _calls(self, io: Sequence[int]) -> list[tuple[Launcher, list[Resolved]]]:
        out = []
        for step in self._image.steps:
            launcher = self._loaded.launchers[step.symbol]
            places = [self._address(ref, io) for ref in step.args]
            out.append((launcher, launcher.resolved(places, self._workspace)))
        return out

    def _fills(self, count: int) -> Callable[[], None]:
        def start() -> None:
            for _ in range(count):
                self._driver.memory.fill(self._scratch, 0, _SCRATCH, self._stream.number)

        return start

    def _address(self, ref: Ref, io: Sequence[int]) -> int:
        if ref.space == "io":
            return io[ref.at]
        base = self._arena if ref.space == "arena" else self._loaded.constants.address
        return base + ref.at


def _ours(array: DeviceArray) -> bool:
    """Whether nobody else writes to it: `LoadedNetwork.resident` made it."""
    return isinstance(array.keep, Memory)


class _Graph:
    """Work that is given to a stream in one piece."""

    def __init__(self, stream: Stream, start: Callable[[], None]) -> None:
        self._stream = stream
        self._graph = stream.captured(start)

    def replay(self) -> None:
        self._stream.driver.streams.replay(self._graph, self._stream.number)

    def __del__(self) -> None:
        if hasattr(self, "_graph"):
            with contextlib.suppress(Exception):  # the device is broken, or the process ends
                self._stream.driver.streams.drop_graph(self._graph)


@contextlib.contextmanager
def errors_name_module(image: Image) -> Iterator[None]:
    """Says of errors of the device which module they befell.

    Raises:
        ModuleError: instead of a `DeviceError`.
    """
    try:
        yield
    except DeviceError as e:
        fatal = "; this process can use the device no more, start it again" if e.fatal else ""
        raise ModuleError(f"module {image.name}: {e}{fatal}") from e
