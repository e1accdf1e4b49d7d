"""Arrays as devices have them."""

from __future__ import annotations

import numpy as np


def aligned(shape, dtype="float32", fill=None):
    """An array that begins at a multiple of 256 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 256, np.uint8)
    start = -raw.ctypes.data % 256
    out = raw[start : start + size].view(dtype).reshape(shape)
    if fill is not None:
        out[...] = fill
    return out


def pointers(*arrays):
    """Their addresses."""
    return [a.ctypes.data for a in arrays]
