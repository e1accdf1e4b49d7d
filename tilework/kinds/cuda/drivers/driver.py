"""What is asked of a GPU: memory, code, launches, time. The GPU may be real, or made up.

Addresses, streams, events and graphs are whole numbers, as CUDA has them. Work that is given to a
stream is done in order, and later: an error of a kernel shows at the next `Streams.synchronize`,
or anywhere after it. Every error is a `tilework.errors.DeviceError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from tilework.frozen import frozen


@frozen
class DeviceFacts:
    """A device that is there.

    Attributes:
        name: what the driver calls it.
        arch: its architecture, such as ``sm_80``.
        sms: multiprocessors.
        ghz: highest clock of these, 1e9 cycles a second.
        dram_bytes_per_s: bandwidth of its memory on paper.
        l2_bytes: size of the second-level cache.
        memory_bytes: of its own memory.
        shared_per_block: bytes of shared memory that a block may use.
    """

    name: str
    arch: str
    sms: int
    ghz: float
    dram_bytes_per_s: float
    l2_bytes: int
    memory_bytes: int
    shared_per_block: int


class Code(Protocol):
    """Loaded functions. They stay as long as this object does."""

    def function(self, entry: str) -> int:
        """A function by its name.

        Raises:
            LaunchError: there is none.
        """


class DeviceMemory(Protocol):
    """The device's own memory."""

    def available(self) -> tuple[int, int]:
        """Bytes that are free, and bytes in all."""

    def allocate(self, nbytes: int) -> int:
        """The address of new memory, a multiple of 256.

        Raises:
            DeviceError: there is not so much left.
        """

    def free(self, address: int) -> None:
        """Give memory back; nothing that uses it may be under way."""

    def write(self, address: int, array: NDArray[Any], stream: int) -> None:
        """Copy a contiguous array of the host to the device; the array may be used again at once.

        It comes after what the stream has been given before.
        """

    def read(self, array: NDArray[Any], address: int, stream: int) -> None:
        """Copy from the device to a contiguous array of the host, and wait for it."""

    def fill(self, address: int, byte: int, nbytes: int, stream: int) -> None:
        """Set bytes of the device's memory."""

    def copy(self, to: int, start: int, nbytes: int, stream: int) -> None:
        """Copy within the device's memory."""


class Streams(Protocol):
    """Where the device is given work; graphs are work that was remembered."""

    def make(self) -> int:
        """A new stream; different ones run side by side."""

    def drop(self, stream: int) -> None:
        """Give it back."""

    def after_others(self, stream: int) -> None:
        """What the stream is given from now on waits for what the default stream has now."""

    def synchronize(self, stream: int) -> None:
        """Wait until the stream has nothing to do.

        Raises:
            DeviceError: something that it did went wrong.
        """

    def begin_capture(self, stream: int) -> None:
        """From now on what the stream is given is not done, but remembered as a graph."""

    def end_capture(self, stream: int) -> int:
        """The graph since `begin_capture`, ready to run."""

    def replay(self, graph: int, stream: int) -> None:
        """Do once more what a graph holds."""

    def drop_graph(self, graph: int) -> None:
        """Give it back."""


class Events(Protocol):
    """Marks in time."""

    def make(self) -> int:
        """A new mark in time."""

    def record(self, event: int, stream: int) -> None:
        """Set the mark when the stream comes here."""

    def elapsed_s(self, first: int, last: int) -> float:
        """Seconds between two marks that have been set."""

    def drop(self, event: int) -> None:
        """Give it back."""


class Driver(Protocol):
    """One device, as one process uses it."""

    memory: DeviceMemory
    streams: Streams
    events: Events

    def facts(self) -> DeviceFacts:
        """What it is."""

    def load(self, code: Mapping[str, bytes]) -> Code:
        """Bring functions to the device.

        Args:
            code: of each function, by its name: what `tilework.kinds.cuda.build` made for it.

        Raises:
            LaunchError: the device does not take it.
        """

    def allow_shared(self, function: int, nbytes: int) -> None:
        """Let a function be launched with so much dynamic shared memory.

        Raises:
            LaunchError: the device does not have it.
        """

    def launch(
        self,
        function: int,
        grid: int,
        block: int,
        shared: int,
        pointers: Sequence[int],
        stream: int,
    ) -> None:
        """Start a function.

        Args:
            function: from `Code.function`.
            grid, block: number of blocks, and of threads in each.
            shared: bytes of dynamic shared memory.
            pointers: its parameters, all of them addresses.
            stream: from `Streams.make`.

        Raises:
            LaunchError: the device cannot start it like this.
        """
