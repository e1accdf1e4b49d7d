"""Locks that are free in a forked child, whoever held them in its parent.

A child has only the thread that forked. A lock that another thread held at that moment would never
be released in it.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class Lock:
    """A reentrant lock, used as a context manager.

    Attributes:
        now: the lock itself, another one in a forked child.
    """

    def __init__(self) -> None:
        self.now = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self.now.acquire()

    def __exit__(self, *_: object) -> None:
        self.now.release()


_LOCKS: WeakSet[Lock] = WeakSet()


def _free_all() -> None:
    for lock in list(_LOCKS):
        lock.now = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
