"""Searching without hardware: a dataset of records answers instead of a machine.

A `Replay` is a finite world. Of each task, only the programs that the dataset holds exist; a
`ReplaySpace` offers the same operators as a search space and moves among them:

    sample      draws from the rows that were sampled at random when the dataset was recorded
                (`SAMPLED`), all of them if none are marked: what chance finds is as good as it is
                in the whole space, however many rows of the dataset a search has found
    mutate      a row of the dataset among the `NEAREST` that differ in the fewest decisions
    crossover   the row of the dataset nearest to the mixture of the parents' decisions
    neighbours  the rows that differ in one decision; the nearest ones if there are none

Features and draft scores come from the real sketches, latencies from the records, both exactly. So
strategies are compared offline, deterministically, and with no noise but the recorded one. What a
replay cannot show is how a strategy fares outside the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.errors import StoreError
from tilework.measure.types import Candidate, Measured
from tilework.record import MemoryHistory, Record, Status, WorkloadLog

SAMPLED = "sample"
"""Model id of records whose rows were drawn at random."""
NEAREST = 8
"""Rows of the dataset that a mutation may move to."""
_CHUNK = 256

Rows = NDArray[np.int32]


class ReplaySketch:
    """A sketch whose valid rows are those of a dataset; see the module's text.

    Args:
        sketch: the sketch of the task's space.
        rows: int32, R x D, the distinct rows that exist.
        sampled: which of them `sample` may draw.
    """

    def __init__(self, sketch: Any, rows: Rows, sampled: NDArray[np.bool_]) -> None:
        self._sketch = sketch
        self.id: int = sketch.id
        self.num_decisions: int = sketch.num_decisions
        self.feature_names: Sequence[str] = sketch.feature_names
        self.rows = rows
        self._start = np.flatnonzero(sampled) if sampled.any() else np.arange(len(rows))
        columns = [list(d.columns) for d in sketch.decisions]
        self._codes = np.stack([_codes(rows[:, c]) for c in columns], axis=1)
        gaps = np.concatenate([self._gap(self._codes[i : i + _CHUNK])
                               for i in range(0, len(rows), _CHUNK)])  # fmt: skip
        np.fill_diagonal(gaps, gaps.max(initial=0) + 1)
        self._near = np.argsort(gaps, axis=1, kind="stable")[:, :NEAREST]
        self._single = gaps == 1
        keys = _keys(rows)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` of the rows drawn at random in the recording."""
        return self.rows[rng.permutation(self._start)[:n]]

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        """Each row's successor among its nearest in the dataset."""
        at = self._find(rows)
        width = self._near.shape[1]
        if width == 0 or len(self.rows) < 2:
            return rows
        return self.rows[self._near[at, rng.integers(width, size=len(at))]]

    def crossover(self, rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
        """The rows of the dataset that are nearest to mixtures of ``a`` and ``b``."""
        first, second = self._codes[self._find(a)], self._codes[self._find(b)]
        mixed = np.where(rng.random(first.shape) < 0.5, first, second)
        picks = [self._gap(mixed[i : i + _CHUNK]).argmin(axis=1)
                 for i in range(0, len(mixed), _CHUNK)]  # fmt: skip
        return self.rows[np.concatenate(picks)] if picks else a

    def neighbours(self, row: Rows) -> Rows:
        """Rows that differ in one decision, or else the nearest ones."""
        (at,) = self._find(np.asarray(row, np.int32).reshape(1, -1))
        single = np.flatnonzero(self._single[at])
        return self.rows[single if len(single) else self._near[at]]

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows the dataset holds."""
        found = np.searchsorted(self._keys, keys := _keys(rows)).clip(0, len(self._keys) - 1)
        return np.asarray(self._keys[found] == keys)

    def row_hash(self, rows: Rows) -> NDArray[np.uint64]:
        """See `tilework.space.Sketch.row_hash`."""
        return np.asarray(self._sketch.row_hash(rows), np.uint64)

    def features(self, rows: Rows) -> NDArray[np.float32]:
        """See `tilework.space.Sketch.features`."""
        return np.asarray(self._sketch.features(rows), np.float32)

    def draft(self, rows: Rows) -> NDArray[np.float64]:
        """See `tilework.space.Sketch.draft`."""
        return np.asarray(self._sketch.draft(rows), np.float64)

    def _find(self, rows: Rows) -> NDArray[np.intp]:
        return self._order[np.searchsorted(self._keys, _keys(rows))]

    def _gap(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of decisions in which each of ``codes`` differs from each row: n x R."""
        return (codes[:, None, :] != self._codes[None, :, :]).sum(axis=2)


def _codes(columns: Rows) -> NDArray[np.int64]:
    """A number for each distinct row of ``columns``."""
    return np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)


def _keys(rows: Rows) -> NDArray[np.void]:
    rows = np.ascontiguousarray(rows, np.int32)
    return rows.view(np.dtype((np.void, 4 * max(1, rows.shape[1])))).reshape(-1)


@dataclass(frozen=True, eq=False)
class ReplaySpace:
    """The programs of one task that exist in a replay."""

    sketches: tuple[ReplaySketch, ...]


class Replay:
    """A dataset of records as a world to search in; see the module's text.

    Args:
        history: records and the DAGs of their workloads.
        target: canonical target text whose records are replayed.
        space_of: search space of a task; the engine's if None.

    Attributes:
        tasks: the workloads of that target, by key.

    Raises:
        StoreError: the history holds no record of the target that the present rules understand.
    """

    def __init__(
        self, history: WorkloadLog, target: str, space_of: Callable[[Any], Any] | None = None
    ) -> None:
        from tilework.space import RULES_VERSION, SearchSpace
        from tilework.target import Target
        from tilework.task import SearchTask
        from tilework.te.serial import dag_from_json

        self._records: dict[str, dict[tuple[int, tuple[int, ...]], Record]] = {}
        self._spaces: dict[str, ReplaySpace] = {}
        self.tasks: list[SearchTask] = []
        where = Target(target)
        for key in history.workload_keys(target):
            document = history.workload(key)
            records = [r for r in history.of(key, target) if r.rules_version == RULES_VERSION]
            if document is None or not records:
                continue
            task = SearchTask(dag_from_json(document), where, records[0].workload)
            space = (space_of or SearchSpace.of)(task)
            table = {(r.sketch_id, r.decisions): r for r in _valid(records, space)}
            if table:
                self.tasks.append(task)
                self._records[key] = table
                self._spaces[key] = _replay_space(space, list(table.values()))
        if not self.tasks:
            raise StoreError(
                f"nothing to replay for {target}: no record of rules version {RULES_VERSION} with "
                "its workload's DAG; record a dataset with `python benchmarks/record_replay.py`"
            )

    def space_of(self, task: Any) -> ReplaySpace:
        """The space to search: of the programs in the dataset."""
        return self._spaces[task.workload_key]

    def records(self, task: Any) -> list[Record]:
        """The task's records."""
        return list(self._records[task.workload_key].values())

    def best_s(self, task: Any) -> float:
        """Lowest recorded latency of a task, in seconds."""
        return min(r.latency_s for r in self.records(task) if r.usable and r.latency_s is not None)

    def measure(
        self,
        task: Any,
        candidates: Sequence[Candidate],
        best_latency_s: float | None = None,
        progress: Callable[[Measured], None] | None = None,
    ) -> list[Measured]:
        """What the dataset knows of the candidates; `rejected` for one that it does not hold."""
        table = self._records[task.workload_key]
        measured = [_answer(c, table.get((c.sketch_id, tuple(c.row)))) for c in candidates]
        for one in measured:
            if progress:
                progress(one)
        return measured


def _valid(records: Sequence[Record], space: Any) -> list[Record]:
    """The records whose rows are rows of the space."""
    widths = {sketch.id: sketch.num_decisions for sketch in space.sketches}
    return [r for r in records if widths.get(r.sketch_id) == len(r.decisions)]


def _replay_space(space: Any, records: Sequence[Record]) -> ReplaySpace:
    sketches = []
    for sketch in space.sketches:
        own = [r for r in records if r.sketch_id == sketch.id]
        if own:
            rows = np.array([r.decisions for r in own], np.int32).reshape(len(own), -1)
            sampled = np.array([r.model_id == SAMPLED for r in own])
            sketches.append(ReplaySketch(sketch, rows, sampled))
    return ReplaySpace(tuple(sketches))


def _answer(candidate: Candidate, record: Record | None) -> Measured:
    if record is None:
        return Measured(candidate, Status.rejected, "replay: the dataset has no such program")
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
class Progress:
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
    task: Any,
    policy: Any,
    *,
    trials: int,
    batch: int = 16,
    until_s: float = 0.0,
) -> Progress:
    """Search one task in a replay, round by round, from an empty history.

    Args:
        replay: the world.
        task: one of its tasks.
        policy: a `SketchPolicy` over ``replay.space_of(task)``; its model learns after each round.
        trials: most candidates measured.
        batch: candidates of a round.
        until_s: end after the round that found a latency of this or less.
    """
    from tilework.measure.records import to_records
    from tilework.search.known import observations

    history, found = MemoryHistory(), list[float]()
    number = learnt = 0
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
        learnt = len(known)
    return Progress(tuple(found))
