"""Arrays as kernels take them: aligned, and on huge pages where they are large."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import numpy_dtype

ALIGN = 64
"""Bytes at whose multiples every buffer begins: a cache line, and the widest vector."""

_HUGE_PAGE = _HUGE_FROM = 1 << 21


def aligned_empty(shape: Sequence[int], dtype: str) -> NDArray[Any]:
    """An uninitialised array whose data is 64-byte aligned; a large one lies on huge pages."""
    kind = numpy_dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size >= _HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        raw, start = _huge(size)
    else:
        raw = np.empty(size + ALIGN, np.uint8)
        start = -raw.ctypes.data % ALIGN
    return raw[start : start + size].view(kind).reshape(tuple(shape))


def _huge(size: int) -> tuple[NDArray[np.uint8], int]:
    """Fresh memory for ``size`` bytes, and where its first huge page begins.

    NumPy asks for huge pages as well, but may get memory whose small pages were there before.
    With those, kernels that stream weights take up to a quarter longer.
    """
    whole = -(-size // _HUGE_PAGE) * _HUGE_PAGE + _HUGE_PAGE
    memory = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages: small ones do
        memory.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(memory, np.uint8)
    return raw, -raw.ctypes.data % _HUGE_PAGE


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A 64-byte aligned, contiguous copy."""
    out = aligned_empty(array.shape, str(array.dtype))
    out[...] = array
    return out
