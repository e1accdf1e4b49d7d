"""Work that may be done later, by a thread beside the caller or by whoever needs its result first.

Threads help only where the work lets go of Python's lock, as calls into a C library do.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from tilework.locks import Lock
from tilework.target.host import available_cores

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_CORES = "TILEWORK_CORES"
"""The environment variable that says how many cores this process may use at most."""


class Awaited(Protocol[T_co]):
    """Something that is being made."""

    def result(self) -> T_co:
        """It, once it is made; or the error that making it raised."""


class Deferred(Generic[T]):
    """What a function returns, which is called once, by the first thread that comes to it.

    Args:
        make: the function.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._making = Lock()
        self._results: list[T] = []
        self._error: Exception | None = None

    def begin(self) -> None:
        """Make it here and now, unless another thread does, or did."""
        if self._making.now.acquire(blocking=False):
            try:
                self._finish()
            finally:
                self._making.now.release()

    @property
    def over(self) -> bool:
        """Whether the function was called, and has returned or raised."""
        return self._make is None

    def result(self) -> T:
        """What the function returns; made here, if no thread has begun.

        Raises:
            Exception: what the function raised.
        """
        with self._making:
            self._finish()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _finish(self) -> None:
        """Call the function, if nobody did. An interrupted call is made again by the next one."""
        if self._make is None:
            return
        try:
            self._results.append(self._make())
        except Exception as error:
            self._error = error
        self._make = None


class Helpers:
    """Threads that do deferred work beside the caller; a context manager.

    They come with the first work and are gone at the end of the block, at which work that nobody
    has begun is forgotten: the block was left by an error or Ctrl-C, or nobody needs it. There is
    a thread for each core that this process may use but one, which is the caller's, whatever the
    number of blocks; so on one core there is none.
    """

    def __init__(self) -> None:
        self._work: deque[Deferred[Any]] = deque()
        self._there = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._over = False
        _blocks.add(self)

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *_: object) -> None:
        with self._there:
            self._over = True
            self._there.notify_all()
        try:
            for thread in self._threads:
                if thread.is_alive():
                    thread.join()
        finally:
            _turns.last(self)

    def start(self, work: Deferred[Any]) -> None:
        """Have it made by a thread that is free before anybody asks for the result.

        Where there can be no thread it is made at once.
        """
        if _most() < 1:
            work.begin()
            return
        with self._there:
            self._work.append(work)
            self._there.notify()
        self._one_more()

    @property
    def left(self) -> int:
        """How much of the work nobody has begun."""
        return len(self._work)

    def finish(self, each: Callable[[], None] = lambda: None) -> None:
        """Do what nobody has begun, the last first, beside the threads.

        Args:
            each: called after each piece of work that is done here.
        """
        while True:
            with self._there:
                if not self._work:
                    return
                work = self._work.pop()
            work.begin()
            each()

    def _one_more(self) -> None:
        """Start a thread, if there may be another one."""
        with _starting:
            _helping[:] = [thread for thread in _helping if thread.is_alive()]
            if len(_helping) >= _most():
                return
            _turns.first(self)
            thread = threading.Thread(target=self._help, name="tilework helper")
            _helping.append(thread)
            self._threads.append(thread)
            with contextlib.suppress(RuntimeError):  # no more threads: the caller does it all
                thread.start()

    def _help(self) -> None:
        while True:
            with self._there:
                self._there.wait_for(lambda: self._work or self._over)
                if self._over:
                    return
                work = self._work.popleft()
            work.begin()


def _most() -> int:
    """How many threads there may be beside the caller."""
    cores, asked = available_cores(), os.environ.get(_CORES, "")
    return (min(cores, int(asked)) if asked.isdecimal() else cores) - 1


class _Turns:
    """How long a thread that wants Python's lock waits for it, while there are helpers.

    A helper lets go of it twice for each piece of work, and Python gives it back after 5 ms where
    the caller computes all the while: a third to a half of its time. The interval is one of the
    process; the one that it had comes back with the last block that has helpers.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks: set[int] = set()
        self._before = 0.0

    def first(self, block: Helpers) -> None:
        """A block has helpers."""
        with self._lock:
            if not self._blocks:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(_TURN_S, self._before))
            self._blocks.add(id(block))

    def last(self, block: Helpers) -> None:
        """A block has helpers no more, if it had any."""
        with self._lock:
            if id(block) in self._blocks:
                self._blocks.remove(id(block))
                if not self._blocks:
                    sys.setswitchinterval(self._before)


_TURN_S = 0.0005
_turns = _Turns()
_starting = Lock()
_helping: list[threading.Thread] = []
"""Threads of this process that help, of all blocks together."""
_blocks: WeakSet[Helpers] = WeakSet()


def _without_threads() -> None:
    """A forked child has none of its parent's: who forked does all the work that is left."""
    for block in list(_blocks):
        block._there, block._threads = threading.Condition(), []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_without_threads)
