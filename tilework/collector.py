"""The collector of cycles, which stands still while much is made that is no garbage.

It looks at all that lives each time when a quarter more does: a tenth of what a first compile of a
network takes, for nothing, since what a compile drops is free at once. Nor does it look at what
was made meanwhile the moment that it may again: that counts as old, as if it had been looked at.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tilework.locks import Lock


class _Pause:
    """Counts who is inside: the first one stops the collector of the process, the last starts it.

    A collector that stood still before stays so. In a forked child nobody is inside.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._ran = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_all)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._ran = gc.isenabled()
                gc.disable()
        try:
            yield
        finally:
            with self._lock:
                if self._inside == 1:
                    self._leave_all()
                self._inside = max(0, self._inside - 1)

    def _leave_all(self) -> None:
        if self._inside and self._ran:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
        self._inside = 0


paused = _Pause()
"""``with paused():`` no cycles are looked for, in the whole process."""
