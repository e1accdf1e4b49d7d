"""Real searches that can be stopped at any time and go on: all that they know is in stores."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansor.search import BATCH, AnsorPolicy, ansor_task

from storage import RecordStore
from tilework.measure import Measurer
from tilework.measure.records import to_records
from tilework.record import Purpose, Record
from tilework.search import TuningOptions, TuningRun, TuningSession
from tilework.search.tune import run_round
from tilework.target.identity import identity_of
from tilework.task import SearchTask

OURS_BATCH = 16
"""Candidates of a round of our search."""


@dataclass(frozen=True, eq=False)
class Search:
    """One arm's search of a task with one seed.

    Attributes:
        arm, layer, seed: what it is.
        task: what is searched; the arm's own space.
        store: its records, and no other search's.
        run_id: of its records; the store may hold others to begin with.
        limit: most trials.
        round: measures one round and keeps it; False where nothing is left to measure.
    """

    arm: str
    layer: str
    seed: int
    task: SearchTask
    store: RecordStore
    run_id: str
    limit: int
    round: Callable[[Measurer], bool]

    def trials(self) -> list[Record]:
        """Its records in the order of measurement."""
        records = self.store.of(self.task.workload_key, str(self.task.target))
        own = [r for r in records if r.run_id == self.run_id and r.purpose == Purpose.search]
        return sorted(own, key=lambda r: (r.round, r.record_id))

    def course(self) -> list[float]:
        """Seconds found by each trial, in order; inf for failures."""
        return [_seconds(r) for r in self.trials()]


def _seconds(record: Record) -> float:
    return record.latency_s if record.usable and record.latency_s is not None else math.inf


def trials_to(course: Sequence[float], limit_s: float) -> int | None:
    """Trials until one took ``limit_s`` or less; None if none did."""
    return next((n for n, seconds in enumerate(course, 1) if seconds <= limit_s), None)


def ours(arm: str, layer: str, task: SearchTask, seed: int, limit: int, work: Path) -> Search:
    """A session as users have it, of one task; what its store holds already is what it knows."""
    store, run_id = _store(work, arm, layer, seed)
    options = TuningOptions(
        num_measure_trials=limit, num_measures_per_round=OURS_BATCH, finalists=0
    )
    sessions: list[TuningSession] = []

    def one_round(measurer: Measurer) -> bool:
        if not sessions:  # made late: it drafts the task, and reads the store
            sessions.append(TuningSession(TuningRun([task], options, run_id, seed=seed), store))
        index = sessions[0].next_task()
        return index is not None and run_round(sessions[0], index, measurer) is not None

    return Search(arm, layer, seed, task, store, run_id, limit, one_round)


def ansor(arm: str, layer: str, task: SearchTask, seed: int, limit: int, work: Path) -> Search:
    """The original's search in its own space."""
    task = ansor_task(task)
    store, run_id = _store(work, arm, layer, seed)
    device = identity_of(task.target)
    policies: list[AnsorPolicy] = []

    def one_round(measurer: Measurer) -> bool:
        if not policies:
            policies.append(AnsorPolicy(task, seed=seed, device=device))
        known = policies[0].known(store)
        candidates = policies[0].propose(store, min(BATCH, limit - len(known)))
        if not candidates:
            return False
        best = known.best_s if math.isfinite(known.best_s) else None
        measured = measurer.measure(task, candidates, best)
        number = max((r.round for r in known.records), default=-1) + 1
        store.append(to_records(task, measured, run_id=run_id, round=number, device=device))
        return True

    return Search(arm, layer, seed, task, store, run_id, limit, one_round)


def _store(work: Path, arm: str, layer: str, seed: int) -> tuple[RecordStore, str]:
    name = f"{file_name(layer)}-{seed}"
    return RecordStore(work / arm / name), f"{arm}-{name}"


def file_name(layer: str) -> str:
    """A layer's name as files have it."""
    return re.sub("[^a-z0-9]+", "-", layer.lower())


def take_turns(
    searches: Sequence[Search],
    measurer: Measurer,
    goal: Callable[[Search], float],
    until: float = math.inf,
) -> bool:
    """A round each, in turn, until each has reached its goal or its limit.

    Turns let the drift of a machine meet all alike. A goal may move while others search: who had
    reached it goes on.

    Args:
        searches: of one target.
        measurer: of that target. One for all: where a process keeps its arrays makes a program
            that waits for memory 30 % faster or slower. It measures the same code once.
        goal: seconds that a search is to find.
        until: `time.monotonic` at which to stop after the present round.

    Returns:
        whether all came to their end.
    """
    ended: set[int] = set()
    while True:
        waiting = [s for s in searches if id(s) not in ended and not _reached(s, goal(s))]
        if not waiting:
            return True
        for search in waiting:
            if time.monotonic() > until:
                return False
            if len(search.course()) >= search.limit or not search.round(measurer):
                ended.add(id(search))


def _reached(search: Search, seconds: float) -> bool:
    return trials_to(search.course(), seconds) is not None
