"""The system's leave to use tiles: Linux wants to be asked once a process.

The state of a thread that uses them is 8 KiB larger. Threads made later and forked children have
the leave, too; a program that a process turns into asks again.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from tilework.target.host import HOST_PLATFORM

_ARCH_PRCTL, _ASK_FOR, _TILE_DATA = 158, 0x1023, 18


@lru_cache(maxsize=1)
def tiles_permitted() -> bool:
    """Whether this process may use AMX's tiles from now on; false where there are none."""
    if HOST_PLATFORM != "linux x86_64":
        return False
    status: int = ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ASK_FOR, _TILE_DATA)
    return status == 0
