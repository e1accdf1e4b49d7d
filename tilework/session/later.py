"""What is written after the first answer: by a thread, one thing at a time in a process.

A compiled form is as large as its weights, and whoever made a session waits for an answer, not for
that file. So it is written when the first answer is there, or a second later, beside the runs that
follow: these read weights and code, and write neither.

A process that ends waits for the thread. One that is killed leaves a temporary file, which is
never read. A forked child has no part in it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

from tilework.locks import Lock

_PATIENCE_S = 1.0
"""How long an answer is waited for."""
_STEP_S = 0.05


class _Writing:
    """A piece of work in a thread of its own.

    Args:
        work: it.
        held: what is let go of when it is done.
    """

    def __init__(self, work: Callable[[], object], held: contextlib.ExitStack) -> None:
        self._work, self._held = work, held
        self._now = threading.Event()
        self._thread = threading.Thread(target=self._do, name="tilework later", daemon=False)

    def start(self) -> None:
        """Begin to wait for an answer."""
        try:
            self._thread.start()
        except RuntimeError:  # no more threads
            self._now.set()
            self._do()

    def hasten(self) -> None:
        """Wait for no answer any more."""
        self._now.set()

    def finish(self) -> None:
        """Wait until it is done."""
        self._now.set()
        if self._thread.is_alive():
            self._thread.join()

    def _do(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        try:
            with self._held:
                while time.monotonic() < until and threading.main_thread().is_alive():
                    if self._now.wait(_STEP_S):
                        break
                self._work()
        finally:
            _writing.remove(self)


_writing: list[_Writing] = []
"""What is not done yet: one piece at most, but for a moment."""
_starting = Lock()


def start(work: Callable[[], object], held: contextlib.ExitStack) -> None:
    """Do some work later; that before it, of whatever session, is finished first.

    So what waits to be written is never more than one form.

    Args:
        work: raises nothing.
        held: what to let go of when it is done, such as a lock.
    """
    with _starting:
        finish()
        writing = _Writing(work, held)
        _writing.append(writing)
        writing.start()


def answered() -> None:
    """An answer is there: what waits for it begins."""
    for one in _writing[:]:
        one.hasten()


def finish() -> None:
    """Wait until all is done that was to be done later."""
    for one in _writing[:]:
        one.finish()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_writing.clear)
