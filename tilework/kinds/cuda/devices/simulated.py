"""A device that runs nothing: latencies are invented by `tilework.kinds.cuda.simulate`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from numpy.typing import NDArray

from tilework.errors import DeviceError
from tilework.frozen import frozen
from tilework.index.extents import known, nbytes
from tilework.kinds.cuda.devices.gpu import described
from tilework.kinds.cuda.simulate import jitter, latency_s
from tilework.kinds.cuda.source import nvrtc
from tilework.kinds.cuda.target import CudaTarget
from tilework.lower.kernel import Kernel
from tilework.measure.device import Device
from tilework.measure.settings import Settings
from tilework.runtime.samples import ReportedStopwatch
from tilework.target.identity import DeviceIdentity

_SAMPLES = 3
_CALIBRATION_S = 1e-4


class SimulatedDevice(Device):
    """`tilework.measure.device.Device` without a device.

    Args:
        target: which one is simulated.
    """

    def __init__(self, target: CudaTarget) -> None:
        self._target = target

    def require(self, target: CudaTarget) -> None:
        """Code is compiled as for a device."""
        nvrtc.require(target.arch)

    def name(self, target: CudaTarget) -> str:
        """What is simulated, and that it is."""
        return f"{described(target)} (simulated)"

    def identity(self, target: CudaTarget) -> DeviceIdentity:
        """The model: its latencies are the same wherever they are invented."""
        return DeviceIdentity(self.name(target), timed=False)

    def settings(self) -> Settings:
        """A few samples; there are no outputs to verify."""
        return Settings(
            min_repeat_ms=0.0, repeats=_SAMPLES, short_look=_SAMPLES, final_rounds=_SAMPLES,
            time_budget_ms=1e3, rotate_bytes=0, verify=False, build_factor=2,
        )  # fmt: skip

    def allocate(self, shape: Sequence[int], dtype: str) -> NoBuffer:
        """See `NoBuffer`."""
        return NoBuffer(tuple(shape), dtype)

    def copies(self, buffers: Sequence[NoBuffer], count: int) -> list[list[NoBuffer]]:
        """The same again."""
        return [list(buffers) for _ in range(count)]

    def load(self, kernel: Kernel) -> Simulated:
        """What the kernel takes, by its facts.

        Raises:
            DeviceError: it has none.
        """
        model = self._target.device.name
        try:
            seconds = latency_s(kernel.facts, model, kernel.code_hash)
        except ValueError as e:
            raise DeviceError(f"kernel {kernel.symbol} cannot be simulated: {e}") from e
        return Simulated(seconds, kernel.code_hash)

    def stopwatch(self) -> AbstractContextManager[ReportedStopwatch]:
        """Adds up what calls say."""
        return nullcontext(ReportedStopwatch())

    def calibration_s(self) -> float:
        """It never runs slower."""
        return _CALIBRATION_S


@frozen
class NoBuffer:
    """An array that takes no memory: `tilework.measure.device.Buffer`."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """What it would take."""
        return known(nbytes(self.shape, self.dtype))

    @property
    def intact(self) -> bool:
        """Nothing writes anywhere."""
        return True

    def poison(self) -> None:
        """Nothing to do."""

    def write(self, array: NDArray[Any]) -> None:
        """Nothing is kept."""

    def read(self) -> NDArray[Any]:
        """There is nothing to read.

        Raises:
            DeviceError: always.
        """
        raise DeviceError("a simulated device computes nothing: there are no outputs to look at")


class Simulated:
    """A kernel's time: `tilework.measure.device.Loaded`."""

    def __init__(self, seconds: float, code_hash: str) -> None:
        self._seconds, self._hash = seconds, code_hash

    def bind(
        self, arguments: Sequence[NoBuffer], workspace: NoBuffer, threads: int
    ) -> Callable[[], float]:
        """A function that returns seconds: the same ones, call by call, in every process."""
        numbers = itertools.count()
        return lambda: self._seconds * jitter(self._hash, next(numbers))
