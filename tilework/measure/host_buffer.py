"""Buffers of devices whose memory is this process's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.runtime.arrays import ALIGN

_CANARY = 4096
_CANARY_BYTE = 0xA5


class HostBuffer:
    """`tilework.measure.device.Buffer` as an aligned NumPy array, `array`.

    Args:
        shape, dtype: of the array.
        memory: `footprint` bytes to use; by default new ones.
    """

    def __init__(
        self, shape: Sequence[int], dtype: str, memory: NDArray[np.uint8] | None = None
    ) -> None:
        kind = numpy_dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        self._raw = np.empty(footprint(size), np.uint8) if memory is None else memory
        start = _CANARY + -(self._raw.ctypes.data + _CANARY) % ALIGN
        self._canaries = (self._raw[:start], self._raw[start + size :])
        for canary in self._canaries:
            canary.fill(_CANARY_BYTE)
        self._bytes = self._raw[start : start + size]
        self.array: NDArray[Any] = self._bytes.view(kind).reshape(tuple(shape))

    @property
    def nbytes(self) -> int:
        """Bytes of the array, without its canaries."""
        return self._bytes.nbytes

    @property
    def intact(self) -> bool:
        """Whether both canaries are as they were."""
        return all(bool((canary == _CANARY_BYTE).all()) for canary in self._canaries)

    def poison(self) -> None:
        """Fill the array with bytes 0xFF: NaN for floats, -1 for integers."""
        self._bytes.fill(0xFF)

    def write(self, array: NDArray[Any]) -> None:
        """Copy an array of the same shape and type."""
        np.copyto(self.array, array)

    def read(self) -> NDArray[Any]:
        """The array itself."""
        return self.array


def footprint(nbytes: int) -> int:
    """Bytes that a buffer for an array of ``nbytes`` bytes takes, canaries and all."""
    return nbytes + 2 * _CANARY + ALIGN
