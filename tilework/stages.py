"""Where the time of a compile goes, for those who ask: wall and CPU seconds of its stages.

    with watching() as spent:
        compile(...)
    spent["choose"].wall_s

A stage within another one is not counted as part of it. Threads that help are counted where they
work, so that all stages together may take longer than the clock says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tilework.frozen import frozen
from tilework.locks import Lock

STAGES = ("read", "passes", "choose", "lower", "write", "emit", "pack", "link", "keep", "run")
"""Reading the model; simplifying it; schedules; loop programs; their text; machine code, by all
threads; packing weights; the program of the network, loaded; keeping kernels; running it once."""


@dataclass
class Spent:
    """What a stage took so far."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


@frozen
class Watch:
    """The stages that were seen, by name."""

    spent: dict[str, Spent] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def add(self, name: str, wall_s: float, cpu_s: float) -> None:
        """Count seconds as those of a stage."""
        with self.lock:
            spent = self.spent.setdefault(name, Spent())
            spent.wall_s += wall_s
            spent.cpu_s += cpu_s


class Clock:
    """Seconds of the whole process since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def spent(self) -> Spent:
        """What has passed, and what all threads took of it."""
        wall, cpu = self._began
        return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def ordered(spent: Mapping[str, Spent]) -> dict[str, Spent]:
    """Stages that were seen, in the order of `STAGES`."""
    return {name: spent[name] for name in STAGES if name in spent}


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_within: ContextVar[Spent | None] = ContextVar("within", default=None)
"""What stages took within the one that this thread is in."""


@contextmanager
def watching() -> Iterator[dict[str, Spent]]:
    """What stages take that run in the block; those of `STAGES` that were seen, by name."""
    watch = Watch()
    token = _watch.set(watch)
    try:
        yield watch.spent
    finally:
        _watch.reset(token)


def watch_here() -> Watch | None:
    """Who watches this thread: what a thread that helps it hands to `stage`."""
    return _watch.get()


@contextmanager
def stage(name: str, watch: Watch | None = None) -> Iterator[None]:
    """Count what the block takes, if anybody watches this thread, or ``watch`` is given."""
    watch = watch or _watch.get()
    if watch is None:
        yield
        return
    outer, within = _within.get(), Spent()
    token = _within.set(within)
    wall, cpu = time.perf_counter(), time.thread_time()
    try:
        yield
    finally:
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        _within.reset(token)
        watch.add(name, wall - within.wall_s, cpu - within.cpu_s)
        if outer is not None:
            outer.wall_s += wall
            outer.cpu_s += cpu
