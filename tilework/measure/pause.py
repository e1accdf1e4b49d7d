"""Builders stand still while the runner times a kernel.

On a machine without cores to spare, candidates are built while others are loaded and verified. The
runner stops the builders (SIGSTOP) just for the milliseconds in which it takes samples, and lets
them go on after. A stopped process cannot notice that its parent is gone: whoever ends the runner
has to `resume` its builders, and the runner does it itself when its own parent ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator

_held: list[int] = []


@contextlib.contextmanager
def holding(pids: Iterable[int]) -> Iterator[None]:
    """Within the block, the processes are stopped."""
    _held[:] = pids
    try:
        _send(_held, signal.SIGSTOP)
        yield
    finally:
        release()


def release() -> None:
    """Let the processes go on that a `holding` block has stopped."""
    resume(_held)
    _held.clear()


def resume(pids: Iterable[int]) -> None:
    """Let processes go on, whoever stopped them."""
    _send(pids, signal.SIGCONT)


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):  # it ended meanwhile
            os.kill(pid, number)
