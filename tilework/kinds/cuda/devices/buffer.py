"""Arrays in a GPU's memory, between red zones: `tilework.measure.device.Buffer`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import is_float, numpy_dtype
from tilework.errors import DeviceError
from tilework.kinds.cuda.drivers.driver import Driver
from tilework.kinds.cuda.drivers.memory import Memory

ZONE = 4096
"""Bytes before and behind an array that no kernel may write to."""

_ZONE_BYTE = 0xA5
_ALIGN = 256


class CudaBuffer:
    """An array on a device.

    Args:
        driver, stream: what does the copying.
        shape, dtype: of the array.
        memory: where, and from which byte on there are `footprint` ones to use; by default new
            memory.
    """

    def __init__(
        self,
        driver: Driver,
        stream: int,
        shape: Sequence[int],
        dtype: str,
        memory: tuple[Memory, int] | None = None,
    ) -> None:
        self._driver, self._stream = driver, stream
        self.shape, self.dtype = tuple(shape), dtype
        self.nbytes = math.prod(self.shape) * numpy_dtype(dtype).itemsize
        self._memory, at = memory or (Memory(driver, footprint(self.nbytes)), 0)
        first = self._memory.address + at
        self.address = first + ZONE
        behind = footprint(self.nbytes) - ZONE - self.nbytes
        self._zones = ((first, ZONE), (self.address + self.nbytes, behind))
        for zone, size in self._zones:
            driver.memory.fill(zone, _ZONE_BYTE, size, stream)

    @property
    def intact(self) -> bool:
        """Whether nothing was written beyond the array."""
        for zone, size in self._zones:
            content = np.empty(size, np.uint8)
            self._driver.memory.read(content, zone, self._stream)
            if not bool((content == _ZONE_BYTE).all()):
                return False
        return True

    def poison(self) -> None:
        """Fill floats with NaN, and anything else with bytes 0x7F.

        A workspace is bytes. Read as floats these are 3.4e38, which maxima do not leave out as
        they do with NaN.
        """
        byte = 0xFF if is_float(self.dtype) else 0x7F
        self._driver.memory.fill(self.address, byte, self.nbytes, self._stream)

    def write(self, array: NDArray[Any]) -> None:
        """Copy an array of the same shape and type.

        Raises:
            DeviceError: it has others.
        """
        if array.shape != self.shape or array.dtype != numpy_dtype(self.dtype):
            raise DeviceError(
                f"an array {array.dtype}{list(array.shape)} cannot be copied to one of "
                f"{self.dtype}{list(self.shape)}"
            )
        self._driver.memory.write(self.address, np.ascontiguousarray(array), self._stream)

    def read(self) -> NDArray[Any]:
        """A copy on the host."""
        out = np.empty(self.shape, numpy_dtype(self.dtype))
        self._driver.memory.read(out, self.address, self._stream)
        return out


def footprint(nbytes: int) -> int:
    """Bytes that a buffer for an array of ``nbytes`` bytes takes, red zones and all."""
    return -(-(nbytes + 2 * ZONE) // _ALIGN) * _ALIGN
