"""Memory of results that nobody has any more, for later ones.

A fresh array of a megabyte costs up to a millisecond: the system has to find and clear 256 pages
at their first touch. Of results, which every run has new, that can be more than the run. So their
memory is lent, and comes back when the last array that lies in it is gone.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from ctypes import Array, c_char
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype
from tilework.runtime.arrays import aligned_empty, kept_memory

_FROM = 1 << 17
"""Bytes from which on an array's pages are new each time otherwise."""

_MOST = 1 << 26
"""Bytes at most that wait for a use."""


class Recycled:
    """Arrays whose memory is used again. Threads may share one.

    Args:
        most: bytes that wait for a use, at most.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        self._lent: dict[int, tuple[weakref.ref[Array[c_char]], NDArray[np.uint8]]] = {}

    def empty(self, shape: Sequence[int], dtype: str) -> NDArray[Any]:
        """An array as `aligned_empty` makes it, in memory that another had where there is some.

        Raises:
            MemoryError: there is not enough.
        """
        kind = numpy_dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        if size < _FROM:
            return aligned_empty(shape, dtype)
        size = _rounded(size)
        try:
            block = self._free[size].pop()
        except (
            KeyError,
            IndexError,
        ):  # no lock: garbage may be collected, and come back, anywhere
            block = kept_memory(size, grows=False)
        lease = (c_char * size).from_buffer(block.data)  # all views of an array refer to it
        ref = weakref.ref(lease, self._back)
        self._lent[id(ref)] = ref, block
        return np.ndarray(tuple(shape), kind, memoryview(lease))

    @property
    def waiting(self) -> int:
        """Bytes that wait for a use."""
        return sum(size * len(blocks) for size, blocks in tuple(self._free.items()))

    def _back(self, ref: weakref.ref[Array[c_char]]) -> None:
        _, block = self._lent.pop(id(ref))
        size = block.nbytes
        if self.waiting + size > self._most:
            for other in [n for n in tuple(self._free) if n != size]:
                self._free.pop(other, None)
            if self.waiting + size > self._most:
                return
        self._free.setdefault(size, []).append(block)


def _rounded(size: int) -> int:
    """As many bytes or up to an eighth more: lengths that grow by one share memory."""
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step
