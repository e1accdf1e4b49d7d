"""What measuring asks of a kind of machine: memory, kernels, time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from numpy.typing import NDArray

from tilework import kinds
from tilework.measure.settings import Settings
from tilework.runtime.samples import Stopwatch
from tilework.target import Target
from tilework.target.identity import DeviceIdentity


class Buffer(Protocol):
    """An array in a device's memory, between two canaries that no kernel may write to."""

    @property
    def nbytes(self) -> int:
        """Bytes of the array, without its canaries."""

    @property
    def intact(self) -> bool:
        """Whether both canaries are as they were."""

    def poison(self) -> None:
        """Fill the array with values that spoil every result they reach."""

    def write(self, array: NDArray[Any]) -> None:
        """Copy an array of the host, of the same shape and type, to the device."""

    def read(self) -> NDArray[Any]:
        """The array on the host; it may be the device's own memory."""


class Loaded(Protocol):
    """A kernel in the device's memory."""

    def bind(self, arguments: Sequence[Any], workspace: Any, threads: int) -> Callable[[], object]:
        """The call on these buffers; it is finished when it returns.

        Args:
            arguments: buffers of the device, in the order of the kernel's arguments: inputs
                (packed where the kernel says so), then outputs.
            workspace: a buffer of at least the bytes that the kernel needs.
            threads: of parallel loops.

        Raises:
            ModuleError: a buffer has another shape or type than the kernel expects.
        """


class Device(Protocol):
    """A kind's room ``device``: where kernels are verified and timed. Lives in the runner.

    What goes wrong on it is told by `tilework.errors.DeviceError` and its like where more is known
    than that a candidate failed: whether the runner must be replaced, whose fault it was.
    """

    environment: Mapping[str, str] = {}
    """Variables that the runner's process starts with, unless the user has set them."""

    def for_target(self, target: Any) -> Device:
        """The device for programs of this target: most kinds have one for all of theirs."""
        return self

    def require(self, target: Any) -> None:
        """Refuse to measure where it is plain that there is no such device.

        Raises:
            TargetError: what is missing, and what to do.
        """
        return

    def name(self, target: Any) -> str:
        """What the latencies of records were measured on, for people."""

    def identity(self, target: Any) -> DeviceIdentity:
        """What they were measured on, for telling whose records count; costly at most once."""

    def settings(self) -> Settings:
        """How to measure, where the caller does not say."""

    def host_cores(self, target: Any) -> int:
        """Cores of this machine that a running kernel keeps busy: by default the runner's."""
        return 1

    def allocate(self, shape: Sequence[int], dtype: str) -> Buffer:
        """New memory for an array, its values undefined."""

    def copies(self, buffers: Sequence[Any], count: int) -> Sequence[Sequence[Buffer]]:
        """``count`` copies of each of some buffers, in memory that later calls use again."""

    def load(self, kernel: Any) -> Loaded:
        """A kernel as `tilework.lower.protocol.Builder` built it, ready to call."""

    def stopwatch(self) -> AbstractContextManager[Stopwatch]:
        """Times calls of kernels that were called before."""

    def calibration_s(self) -> float:
        """Seconds of a fixed piece of work: it moves with the device's speed alone."""

    def flush(self, target: Any) -> Callable[[], object]:
        """A function that leaves nothing of a kernel's data in its caches, by default none."""
        return lambda: None


def device_of(target: Target) -> Device:
    """The room ``device`` of a target's kind, for this target."""
    device: Device = kinds.room(target.kind, "device")
    return device.for_target(target)
