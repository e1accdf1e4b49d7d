"""A GPU, real or emulated, as what kernels are measured on: `tilework.measure.device.Device`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from tilework.errors import TargetError
from tilework.kinds.cuda.devices.buffer import CudaBuffer, footprint
from tilework.kinds.cuda.devices.calibration import Calibration
from tilework.kinds.cuda.devices.loaded import LoadedLaunches
from tilework.kinds.cuda.drivers.driver import Driver
from tilework.kinds.cuda.drivers.memory import Memory
from tilework.kinds.cuda.drivers.stream import GraphStopwatch, Stream
from tilework.kinds.cuda.probe import FoundDevice, look
from tilework.kinds.cuda.source import nvrtc
from tilework.kinds.cuda.target import CudaTarget
from tilework.lower.kernel import Kernel
from tilework.measure.device import Device
from tilework.measure.settings import Settings
from tilework.overriding import override
from tilework.target.identity import DeviceIdentity

_POOL_STEP = 64 << 20


class CudaDevice(Device):
    """The device of a target.

    Nothing of CUDA is loaded before the first buffer, kernel or calibration: only a process that
    measures opens the device.

    Args:
        target: whose architecture the device has.
        open_driver: opens it.
    """

    environment: Mapping[str, str] = {"CUDA_MODULE_LOADING": "EAGER"}
    """Code is on the device when a kernel is loaded, not when it is first launched."""

    def __init__(self, target: CudaTarget, open_driver: Callable[[], Driver]) -> None:
        self._target, self._open = target, open_driver
        self._pool: Memory | None = None

    @cached_property
    def driver(self) -> Driver:
        """The device, opened when it is first asked for."""
        return self._open()

    @cached_property
    def stream(self) -> Stream:
        """What kernels and copies are given to."""
        return Stream(self.driver)

    @override
    def require(self, target: CudaTarget) -> None:
        if target.missing_on_host():
            why = look().why_none or "the devices here are others"
            raise TargetError(
                f"target '{target}' cannot be measured here: there is no CUDA device of "
                f"{target.arch} ({why}); add -run=emulated or -run=simulated to try it out"
            )
        nvrtc.require(target.arch)

    def name(self, target: CudaTarget) -> str:
        """What the driver calls it; without a device, what its model is called."""
        here = _here(target)
        return described(target) if here is None else here.name

    def identity(self, target: CudaTarget) -> DeviceIdentity:
        """What the driver says of it; its clocks tell boards of one name apart."""
        here = _here(target)
        return DeviceIdentity(self.name(target), () if here is None else here.facts())

    def settings(self) -> Settings:
        """Weights come from memory: their copies fill twice the second-level cache."""
        return Settings(
            run_timeout_s=30.0, min_repeat_ms=2.0, repeats=10, time_budget_ms=60.0,
            rotate_bytes=2 * self._target.device.l2_bytes, build_factor=2,
        )  # fmt: skip

    @override
    def allocate(self, shape: Sequence[int], dtype: str) -> CudaBuffer:
        return CudaBuffer(self.driver, self.stream.number, shape, dtype)

    def copies(self, buffers: Sequence[CudaBuffer], count: int) -> list[list[CudaBuffer]]:
        """Copies in one block of memory, the same for all kernels that fit into it."""
        sizes = [footprint(b.nbytes) for b in buffers]
        starts = [0, *itertools.accumulate(sizes)]
        pool = self._at_least(count * starts[-1])
        out = []
        for turn in range(count):
            copy = []
            for buffer, start in zip(buffers, starts, strict=False):
                at = turn * starts[-1] + start
                copied = CudaBuffer(
                    self.driver, self.stream.number, buffer.shape, buffer.dtype, (pool, at)
                )
                self.driver.memory.copy(
                    copied.address, buffer.address, buffer.nbytes, self.stream.number
                )
                copy.append(copied)
            out.append(copy)
        return out

    def load(self, kernel: Kernel) -> LoadedLaunches:
        """See `tilework.measure.device.Device`.

        Raises:
            LaunchError: the kernel is damaged, or nothing for this device.
        """
        return LoadedLaunches(self.driver, self.stream, kernel)

    def stopwatch(self) -> GraphStopwatch:
        """The device's own time."""
        return GraphStopwatch(self.stream)

    def calibration_s(self) -> float:
        """See `tilework.kinds.cuda.devices.calibration`."""
        return self._calibration.seconds()

    def flush(self, target: CudaTarget) -> Callable[[], object]:
        """Writes to a quarter more memory than the second-level cache holds."""
        size = self.driver.facts().l2_bytes * 5 // 4
        memory, stream = self._at_least(size), self.stream.number
        return lambda: self.driver.memory.fill(memory.address, 0, size, stream)

    @cached_property
    def _calibration(self) -> Calibration:
        return Calibration(self.driver, self.stream, self._target.arch)

    def _at_least(self, size: int) -> Memory:
        if self._pool is None or self._pool.nbytes < size:
            self._pool = None  # first, so that both need not fit
            self._pool = Memory(self.driver, -(-size // _POOL_STEP) * _POOL_STEP)
        return self._pool


def _here(target: CudaTarget) -> FoundDevice | None:
    """The first device of the target's architecture, if there is one."""
    return next((device for device in look().devices if device.arch == target.arch), None)


def described(target: CudaTarget) -> str:
    """The device that a target's text describes."""
    return f"NVIDIA {target.device.board}" if target.model else f"NVIDIA GPU of {target.arch}"
