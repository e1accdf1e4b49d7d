"""Searching without hardware: a dataset of records answers instead of a machine.

A `Replay` takes a measurer's place. The search moves in the real space of a task; a candidate is
answered with the record of its own program or, where that was never measured, of the nearest one
of its sketch, by what was decided: the extents of tiles at every level and the other decisions, as
logarithms, each scaled to unit spread over the dataset. No model has a part in what is near, so
that none is favoured (by the draft's features a neighbour's time is closer to the truth, but what
ranks by them would see the very map that it is judged on). So what chance finds, and how far a
mutation leads, is as in the real space, however many of the dataset's programs a search has found.
Strategies are compared offline, deterministically, and with no noise but the recorded one. What a
replay cannot show is what lies between the dataset's programs: nothing is ever better than the
best of them, and what is learnt of a neighbour is learnt with its error. Sketches without a record
are no part of the space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilework.errors import StoreError
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.record import MemoryHistory, Record, Status, WorkloadLog
from tilework.search.known import observations
from tilework.search.policy import SketchPolicy
from tilework.search.pool import PoolSpace
from tilework.search.protocol import Rows, Task
from tilework.space import space_of
from tilework.space.sketch import Sketch
from tilework.target import Target
from tilework.task import SearchTask, rules_of
from tilework.te.serial import dag_from_json


def decided(sketch: Sketch, rows: Rows) -> NDArray[np.float64]:
    """Where rows lie: a point for each, whose coordinates are logarithms of what was decided.

    Of a tiled axis, how many elements the tile of each level spans (the product of its own and of
    all inner factors); of anything else, the value, where it has an effect.
    """
    plain = np.log2(1.0 + np.maximum(sketch.canonical(rows), 0))
    factors = np.log2(np.maximum(rows, 1))
    points = np.empty((len(rows), sketch.num_decisions))
    for decision in sketch.decisions:
        columns = list(decision.columns)
        if decision.kind == "tile":
            inner_first = factors[:, columns[::-1]]
            points[:, columns[::-1]] = np.cumsum(inner_first, axis=1)
        else:
            points[:, columns] = plain[:, columns]
    return points


class _Table:
    """The records of one sketch, found by the nearest row."""

    def __init__(self, sketch: Sketch, records: Sequence[Record]) -> None:
        self._sketch = sketch
        self.records = tuple(records)
        rows = np.array([r.decisions for r in records], np.int32).reshape(len(records), -1)
        points = decided(sketch, rows)
        spread = points.std(axis=0)
        self._scale = np.where(spread > 1e-6, 1.0 / np.maximum(spread, 1e-6), 0.0)
        self._points = points * self._scale
        self._lengths = (self._points**2).sum(axis=1)
        self._exact = {key: i for i, key in reversed(list(enumerate(self._names(rows))))}

    def find(self, rows: Sequence[tuple[int, ...]]) -> list[Record | None]:
        """The record of each row, or of the nearest one; None for a row that is not valid."""
        found: list[Record | None] = [None] * len(rows)
        fitting = [i for i, row in enumerate(rows) if len(row) == self._sketch.num_decisions]
        if not fitting:
            return found
        table = np.array([rows[i] for i in fitting], np.int32).reshape(len(fitting), -1)
        valid = np.flatnonzero(self._sketch.valid(table))
        if len(valid):
            points = decided(self._sketch, table[valid]) * self._scale
            near = np.argmin(self._lengths - 2.0 * points @ self._points.T, axis=1)
            names = self._names(table[valid])
            for at, name, nearest in zip(valid, names, near, strict=True):
                found[fitting[at]] = self.records[self._exact.get(name, int(nearest))]
        return found

    def _names(self, rows: Rows) -> list[int]:
        """Identities of the rows' programs: columns without effect do not count."""
        return [int(name) for name in self._sketch.row_hash(rows)]


class Replay:
    """A dataset of records as a world to search in; see the module's text.

    Args:
        history: records and the DAGs of their workloads.
        target: canonical target text whose records are replayed.
        search_in: search space of a task.

    Attributes:
        tasks: the workloads of that target, by key.

    Raises:
        StoreError: the history holds no record of the target that the present rules understand.
    """

    def __init__(
        self,
        history: WorkloadLog,
        target: str,
        search_in: Callable[[Task], PoolSpace] = PoolSpace.of,
    ) -> None:
        self._tables: dict[str, dict[int, _Table]] = {}
        self._spaces: dict[str, PoolSpace] = {}
        self.tasks: list[SearchTask] = []
        where = Target(target)
        version = space_of(where).version
        for key in history.workload_keys(target):
            document = history.workload(key)
            records = [r for r in history.of(key, target) if r.rules_version == version]
            if document is None or not records:
                continue
            dag, rules = dag_from_json(document), rules_of(key)
            task = SearchTask(dag, where, records[0].workload, rules=rules)
            space = search_in(task)
            tables = _tables(space, records)
            if tables:
                self.tasks.append(task)
                known = [sketch for sketch in space.sketches if sketch.id in tables]
                self._tables[key] = tables
                self._spaces[key] = PoolSpace(known, space.draft, space.rules_version)
        if not self.tasks:
            raise StoreError(
                f"nothing to replay for {target}: no record of rules version {version} with "
                "its workload's DAG; record a dataset with `python benchmarks/record_replay.py`"
            )

    def space_of(self, task: Task) -> PoolSpace:
        """The space to search: the task's own, without sketches of which nothing is recorded."""
        return self._spaces[task.workload_key]

    def records(self, task: Task) -> list[Record]:
        """The task's records."""
        return [r for table in self._tables[task.workload_key].values() for r in table.records]

    def best_s(self, task: Task) -> float:
        """Lowest recorded latency of a task, in seconds."""
        return min(r.latency_s for r in self.records(task) if r.usable and r.latency_s is not None)

    def measure(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        best_latency_s: float | None = None,
        progress: Callable[[Measured], None] | None = None,
    ) -> list[Measured]:
        """What the dataset knows of the candidates; `rejected` where no program is near."""
        found: list[Record | None] = [None] * len(candidates)
        for sketch_id, table in self._tables[task.workload_key].items():
            where = [i for i, c in enumerate(candidates) if c.sketch_id == sketch_id]
            for i, record in zip(
                where, table.find([candidates[i].row for i in where]), strict=True
            ):
                found[i] = record
        measured = [_answer(c, r) for c, r in zip(candidates, found, strict=True)]
        for one in measured:
            if progress:
                progress(one)
        return measured


def _tables(space: PoolSpace, records: Sequence[Record]) -> dict[int, _Table]:
    """The records by sketch; those whose rows are none of the space are left out."""
    found = {}
    for sketch in space.sketches:
        own = {
            r.decisions: r
            for r in records
            if r.sketch_id == sketch.id and len(r.decisions) == sketch.num_decisions
        }
        if own and isinstance(sketch, Sketch):
            found[sketch.id] = _Table(sketch, list(own.values()))
    return found


def _answer(candidate: Candidate, record: Record | None) -> Measured:
    if record is None:
        return Measured(
            candidate, Status.rejected, "replay: the dataset has no program of this kind"
        )
    return Measured(
        candidate,
        record.status,
        record.error,
        record.latency_s,
        record.latency_samples,
        record.latency_spread,
        record.calibration_s,
        record.build_s,
        record.max_rel_error,
        record.code_hash,
    )


@dataclass(frozen=True)
class Course:
    """The course of one replayed search: latency after each trial, inf for failures."""

    latency_s: tuple[float, ...]

    def trials_to(self, limit_s: float) -> int | None:
        """Trials until one took ``limit_s`` or less; None if none did."""
        for number, latency in enumerate(self.latency_s, 1):
            if latency <= limit_s:
                return number
        return None


def replay_search(
    replay: Replay,
    task: Task,
    policy: SketchPolicy,
    *,
    trials: int,
    batch: int = 16,
    until_s: float = 0.0,
) -> Course:
    """Search one task in a replay, round by round, from an empty history.

    Args:
        replay: the world.
        task: one of its tasks.
        policy: a `SketchPolicy` over ``replay.space_of(task)``; its model learns after each round.
        trials: most candidates measured.
        batch: candidates of a round.
        until_s: end after the round that found a latency of this or less.
    """
    history, found = MemoryHistory(), list[float]()
    number, learnt = 0, set[str]()
    while len(found) < trials and min(found, default=np.inf) > until_s:
        candidates = policy.propose(history, min(batch, trials - len(found)))
        if not candidates:
            break
        measured = replay.measure(task, candidates)
        history.append(to_records(task, measured, run_id="replay", round=number))
        found += [np.inf if m.latency_s is None else m.latency_s for m in measured]
        number += 1
        known = policy.known(history)
        policy.model.update(observations(known, task.workload_key, task.flops, learnt))
        learnt.update(record.record_id for record in known.records)
    return Course(tuple(found))
