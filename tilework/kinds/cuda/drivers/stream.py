"""What a device is given, in order, and the time that it takes."""

from __future__ import annotations

import contextlib

from tilework.errors import DeviceError
from tilework.kinds.cuda.drivers.driver import Driver
from tilework.runtime.samples import Call, Lap

_NODES = 256
"""Calls that one graph holds at most: longer samples replay it."""


class Stream:
    """A stream of a device.

    Attributes:
        number: the driver's.
        waits: whether a call is finished when it returns; not while calls are put into a graph.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.number = driver.streams.make()
        self.waits = True

    def captured(self, call: Call, number: int = 1) -> int:
        """A graph of calls that give work to this stream; they are not run.

        Raises:
            DeviceError: from a call.
        """
        self.driver.streams.begin_capture(self.number)
        self.waits = False
        try:
            for _ in range(number):
                call()
        except BaseException:
            with contextlib.suppress(DeviceError):
                self.driver.streams.drop_graph(self.driver.streams.end_capture(self.number))
            raise
        finally:
            self.waits = True
        return self.driver.streams.end_capture(self.number)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the device is broken, or the process ends
            self.driver.streams.drop(self.number)


class GraphStopwatch:
    """`tilework.runtime.samples.Stopwatch` of a stream. A context manager.

    Launched one by one, short kernels would wait for the host, which takes microseconds for each.
    A graph is made anew for each sample: calls that take turns with copies of their weights go on
    with the next one.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream, self._driver = stream, stream.driver

    def __enter__(self) -> GraphStopwatch:
        self._events = (self._driver.events.make(), self._driver.events.make())
        return self

    def __exit__(self, *_: object) -> None:
        for event in self._events:
            self._driver.events.drop(event)

    def time(self, call: Call, number: int) -> Lap:
        """See `tilework.runtime.samples.Stopwatch.time`."""
        nodes = min(number, _NODES)
        replays = -(-number // nodes)
        driver, stream = self._driver, self._stream.number
        first, last = self._events
        graph = self._stream.captured(call, nodes)
        try:
            driver.events.record(first, stream)
            for _ in range(replays):
                driver.streams.replay(graph, stream)
            driver.events.record(last, stream)
            driver.streams.synchronize(stream)
            seconds = driver.events.elapsed_s(first, last)
        finally:
            driver.streams.drop_graph(graph)
        return Lap(seconds * number / (nodes * replays))
