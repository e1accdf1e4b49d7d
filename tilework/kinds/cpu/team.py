"""The threads that a process has for kernels: one team at a time, and none in a forked child.

The OpenMP runtime keeps a team of threads per calling thread. Two Python threads that ran modules
at the same time would have twice as many threads as cores, which then wait for each other at
every barrier while the system runs the others: so runs with several threads take turns.

A forked child has none of its parent's threads, but the runtime's memory of them, and would wait
for them for ever. There kernels run on one thread.
"""

from __future__ import annotations

import os
import warnings
from contextlib import AbstractContextManager, nullcontext

from tilework.errors import ModuleError
from tilework.locks import Lock


class Team:
    """The one team of this process; `TEAM` is the only object of this class.

    Attributes:
        lock: held by a run with several threads.
        used: to be set by whoever is about to run a kernel with several threads.
        lost: whether a parent had used its team, so that this forked child has none.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.used = False
        self.lost = False
        self._warned = False

    def threads(self, wanted: int) -> int:
        """How many threads to run with: the number wanted, or 1 in a forked child.

        The first run that gets fewer than it wanted warns.
        """
        if wanted <= 1 or not self.lost:
            return wanted
        if not self._warned:
            self._warned = True
            warnings.warn(f"{_LOST}; kernels run on one thread here", RuntimeWarning, stacklevel=3)
        return 1

    def require(self, wanted: int) -> None:
        """Refuse a number of threads that cannot be had, where fewer would mislead.

        Raises:
            ModuleError: this is a forked child whose parent had a team.
        """
        if wanted > 1 and self.lost:
            raise ModuleError(f"{_LOST}; or run on one thread here")

    def turn(self, threads: int) -> AbstractContextManager[object]:
        """What a run with so many threads holds while it lasts."""
        return self.lock.now if threads > 1 else nullcontext()

    def after_fork(self) -> None:
        """In a child: its parent's threads are gone."""
        self.lost = self.lost or self.used


_LOST = (
    "this process was forked from one that had run kernels on several threads, which a child does "
    "not inherit: fork before the first such run, or start processes with 'spawn'"
)
TEAM = Team()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TEAM.after_fork)
