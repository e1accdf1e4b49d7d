"""Ctrl-C ends a command, whatever code it meets.

It is a KeyboardInterrupt in whatever Python code is running. Where C code has called that, as
pyarrow does while it converts a table, or where an object ends, the exception may be dropped, and
the run would go on to its end. So it is raised again until somebody handles it.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

REPEAT_S = 0.5


def _interrupt(number: int, frame: Any) -> NoReturn:
    """What a user's Ctrl-C does: it is raised here, and once more if nobody gets to see it."""
    signal.setitimer(signal.ITIMER_REAL, REPEAT_S, REPEAT_S)
    raise KeyboardInterrupt


def _repeat(number: int, frame: Any) -> None:
    """Raise it again, except where it is being handled: what cleans up takes its time."""
    handled = sys.exc_info()[1]
    while handled is not None:
        if isinstance(handled, KeyboardInterrupt):
            return
        handled = handled.__context__
    raise KeyboardInterrupt


@contextmanager
def insistent() -> Iterator[None]:
    """Let no Ctrl-C of the block be lost.

    Changes nothing outside of the main thread, nor where SIGINT is ignored, as by background jobs,
    or handled by somebody else.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    with _handler(signal.SIGALRM, _repeat), _handler(signal.SIGINT, _interrupt), _untold():
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def usual() -> Iterator[None]:
    """Python's own Ctrl-C again, for code inside `insistent` that has ways of its own."""
    if signal.getsignal(signal.SIGINT) is not _interrupt:
        yield
        return
    with _handler(signal.SIGINT, signal.default_int_handler):
        yield


@contextmanager
def _untold() -> Iterator[None]:
    """No traceback of a Ctrl-C that was dropped, for it comes again."""
    before = sys.unraisablehook

    def tell(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            before(dropped)

    sys.unraisablehook = tell
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _handler(number: signal.Signals, handler: Callable[[int, Any], Any]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
