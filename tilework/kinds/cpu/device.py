"""This machine's CPU, as what kernels are measured on: `tilework.measure.device.Device`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.identity import identity
from tilework.kinds.cpu.kernel_call import BoundKernel, LoadedKernel, load_kernel
from tilework.kinds.cpu.target import CpuTarget
from tilework.lower.kernel import Kernel
from tilework.measure.device import Device, Loaded
from tilework.measure.host_buffer import HostBuffer, footprint
from tilework.measure.host_speed import host_calibration_s
from tilework.measure.settings import Settings
from tilework.overriding import override
from tilework.runtime.samples import HostStopwatch
from tilework.target.host import processor_name
from tilework.target.identity import DeviceIdentity

_PAGE = 4096
_POOL_STEP = 128 << 20


class CpuDevice(Device):
    """Kernels run in the process that measures them; its memory is theirs."""

    environment: Mapping[str, str] = {"OMP_PROC_BIND": "true"}
    """The threads keep to their cores. On a busy machine two of them can otherwise share one for
    seconds while the other core does something else: a kernel then takes ten times as long."""

    def __init__(self) -> None:
        self._pool = np.empty(0, np.uint8)

    def name(self, target: CpuTarget) -> str:
        """The processor, as its maker writes it."""
        return processor_name()

    def identity(self, target: CpuTarget) -> DeviceIdentity:
        """This machine, whatever code it runs; see `tilework.kinds.cpu.identity`."""
        return identity()

    def settings(self) -> Settings:
        """As `Settings` stands."""
        return Settings()

    def host_cores(self, target: CpuTarget) -> int:
        """All that the target has."""
        return target.num_cores

    @override
    def allocate(self, shape: Sequence[int], dtype: str) -> HostBuffer:
        return HostBuffer(shape, dtype)

    def copies(self, buffers: Sequence[HostBuffer], count: int) -> list[list[HostBuffer]]:
        """Copies in one block of memory, so that none is timed on fresh pages."""
        sizes = [-(-footprint(b.nbytes) // _PAGE) * _PAGE for b in buffers]
        pool = self._at_least(count * sum(sizes))
        out, at = [], 0
        for _ in range(count):
            copy = []
            for buffer, size in zip(buffers, sizes, strict=True):
                array = buffer.array
                copy.append(HostBuffer(array.shape, str(array.dtype), pool[at : at + size]))
                copy[-1].write(array)
                at += size
            out.append(copy)
        return out

    def _at_least(self, size: int) -> NDArray[np.uint8]:
        if self._pool.nbytes < size:
            self._pool = np.zeros(-(-size // _POOL_STEP) * _POOL_STEP, np.uint8)
        return self._pool

    def load(self, kernel: Kernel) -> LoadedOnCpu:
        """The kernel's object code in this process."""
        return LoadedOnCpu(load_kernel(kernel))

    def stopwatch(self) -> HostStopwatch:
        """Wall time."""
        return HostStopwatch()

    def calibration_s(self) -> float:
        """See `tilework.measure.host_speed`."""
        return host_calibration_s()

    def flush(self, target: CpuTarget) -> Callable[[], object]:
        """Reads a quarter more bytes than the largest cache holds."""
        cache = max(target.l3_bytes, target.l2_bytes, 8 << 20)
        return _reader(cache + cache // 4)


class LoadedOnCpu(Loaded):
    """`tilework.measure.device.Loaded` of object code."""

    def __init__(self, loaded: LoadedKernel) -> None:
        self._loaded = loaded

    @override
    def bind(
        self, arguments: Sequence[HostBuffer], workspace: HostBuffer, threads: int
    ) -> BoundKernel:
        return self._loaded.bind([b.array for b in arguments], workspace.array, threads)


@lru_cache(maxsize=1)
def _reader(size: int) -> Callable[[], object]:
    """A function that reads a buffer of `size` bytes."""
    buffer = np.ones(size // 8, np.int64)
    return partial(np.bitwise_and.reduce, buffer)


DEVICE = CpuDevice()
