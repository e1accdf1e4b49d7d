"""Memory that was freed, back to the system.

C's allocator keeps what lies below something that is still in use: after a compile of a decoder of
a billion weights of 4 bits that is half as much again as the weights.
"""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Hand free memory of this process back, where its C library can (glibc)."""
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
