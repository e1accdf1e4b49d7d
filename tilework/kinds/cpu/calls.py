"""How generated code is called: the part of a module's ABI that belongs to CPUs.

A kernel and the function ``tilework_run`` that calls all kernels of a network have the signature

    void f(void **table, void *workspace, int32_t threads)

For a kernel, ``table`` holds its arguments: inputs, outputs, then its symbols, each a pointer to a
64-bit integer. For a network it holds those of all calls, one after another. Behind them are, of
calls that are repeated, 64-bit integers: how often, and by how many bytes each argument moves on
from one trip to the next. Where shapes are symbolic, the last one is a pointer to `SITE_WORDS`
64-bit integers, zeros at first, in which the runtime of threads keeps what it has seen of runs at
these shapes. ``tilework_profile`` also stores the time of ``clock`` before the first call and
after each. Behind one that is repeated that is the time before it and what all trips took, with
any number of nanoseconds; its stamp held zeros:

    void f(void **table, void *workspace, int32_t threads, int32_t clock, struct timespec *stamps)

Pointers are 64-byte aligned, but for arguments that lie within larger arrays. A change here is a
change of `tilework.runtime.image.ABI_VERSION`.
"""

from __future__ import annotations

import ctypes

RUN_SYMBOL = "tilework_run"
PROFILE_SYMBOL = "tilework_profile"
SITE_WORDS = 8

RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
PROFILE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p
)
