"""The search of a task whose extents a run decides: one row for all points of the ranges.

Candidates are rows of the family. Each is measured as the static program that it is at each of
the typical points, and is as fast as the geometric mean of these, so that every measurement is an
ordinary record of a static workload, which a static search might have made. A program of symbolic
extents takes 4 to 40 times as long to build, and is built once, at the end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import zip_longest

import numpy as np

from tilework.model import Batch, CostModel, Observation
from tilework.model.base import Floats
from tilework.model.draft import draft_of
from tilework.model.family import FamilyDraft, Member, family_of, members_of
from tilework.record import History, Purpose, Record
from tilework.search.points import AtPoints, MeasuredSketch
from tilework.search.pool import Pool, PoolSpace, concatenate
from tilework.search.protocol import Task
from tilework.space import space_of
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask

FASTEST = 3
"""Programs of a point by its records that are tried at all of them."""
POINTS = 4
"""Where candidates are measured, at most: more points cost as many trials, and tell little of a
row that these do not."""
LEAST_SCORE = 1e-3
"""Of a program at a point, by a learned model: its logarithm counts."""


class FamilySpace(PoolSpace):
    """The space of a family: its sketches that can be measured at half of its points or more.

    Points are left out at which one of these is none of a static space, such as a length that
    no cut of a sum divides: one such point would else leave out all sketches but the plainest.

    Attributes:
        task: the family's.
        members: the points at which candidates are measured.
        measured: the sketches.
    """

    def __init__(self, task: SearchTask) -> None:
        family = family_of(task)
        left, members = _measurable(members_of(task, family))
        members = _spread(members, POINTS)
        self.task, self.members = task, members
        sketches = [
            MeasuredSketch(s.id, s.views, s.whole, tuple(m.twins[s.id] for m in members))
            for s in family
            if members and s.id in left
        ]
        draft, version = draft_of(task.target), space_of(task.target).version
        super().__init__(sketches, FamilyDraft(draft), version)
        self.measured = sketches

    def subject(self, task: Task) -> AtPoints:
        """Its candidates are measured at each of the points."""
        tasks = [member.task for member in self.members]
        return AtPoints(task, tasks, self.measured, self.rules_version)

    @cached_property
    def each(self) -> Sequence[PoolSpace]:
        """Those of the static tasks at the points."""
        return [PoolSpace.of(member.task) for member in self.members]

    def asked(self, model: CostModel, drafted: Callable[[], Pool]) -> CostModel:
        """A model that knows static programs, asked about rows of the family."""
        return FamilyModel(model, self.members, lambda: self._seconds(drafted()))

    def _seconds(self, pool: Pool) -> list[float]:
        """What the first candidate of a pool takes at each point, by the draft."""
        if not len(pool):
            return [math.inf for _ in self.members]
        sketch = self.measured[pool.sketch[0]]
        row = pool.rows[:1, : sketch.num_decisions]
        return [
            float(draft_of(sketch.target).seconds(twin.static, twin.placed(row)[0])[0])
            for twin in sketch.twins
        ]

    def at_points(self, histories: Sequence[History], device: DeviceIdentity | None) -> Pool:
        """What is fastest at a point by some histories, as rows of the family.

        Of each point a few, the fastest of all points first.
        """
        ranked: list[list[Pool]] = []
        for number, member in enumerate(self.members):
            key, target = member.task.workload_key, str(member.task.target)
            records: list[Record] = []
            for history in histories:
                here = [r for r in history.of(key, target, device) if r.usable]
                here = [r for r in here if r.purpose != Purpose.canary]
                here.sort(key=lambda r: (r.latency_s or 0.0, r.record_id))
                records += here[:FASTEST] + history.hints(key, target, device)[:1]
            ranked.append([self._lifted(number, record) for record in records])
        ranks = zip_longest(*ranked, fillvalue=self.empty())
        return concatenate([self.empty(), *(pool for rank in ranks for pool in rank)]).unique()

    def _lifted(self, number: int, record: Record) -> Pool:
        """A record of a point as a candidate, or none."""
        place = record.sketch_id, len(record.decisions), record.rules_version
        for index, sketch in enumerate(self.measured):
            static = sketch.twins[number].static
            if place == (static.id, static.num_decisions, self.rules_version):
                rows, known = sketch.twins[number].lifted(np.array([record.decisions], np.int32))
                return self.pool(index, rows[known])
        return self.empty()


def _measurable(members: Sequence[Member]) -> tuple[set[int], tuple[Member, ...]]:
    """The sketches that half of the points have, and the points that have them all.

    Where no point has them all: what can be measured at the greatest point and, going down, at
    each that shares a sketch with all above it.
    """
    counts = Counter(number for member in members for number in member.twins)
    most = {number for number, count in counts.items() if 2 * count >= len(members)}
    whole = tuple(member for member in members if most <= member.twins.keys())
    if most and whole and whole[-1] is members[-1]:
        return most, whole
    left, kept = set(counts), list[Member]()
    for member in reversed(members):
        if left & member.twins.keys():
            left &= member.twins.keys()
            kept.insert(0, member)
    return left, tuple(kept)


def _spread(members: Sequence[Member], count: int) -> tuple[Member, ...]:
    """Some of the points, the least and the greatest among them, the others as far apart."""
    if len(members) <= count:
        return tuple(members)
    return tuple(members[i * (len(members) - 1) // (count - 1)] for i in range(count))


def space_for(task: Task) -> PoolSpace:
    """The space that a task is searched in, of a family or its own.

    Raises:
        TuningError: the task has no space of its own.
    """
    if isinstance(task, SearchTask) and task.compute_dag.symbols:
        return FamilySpace(task)
    return PoolSpace.of(task)


class FamilyModel:
    """A cost model that has learnt from static programs, asked about rows of a family.

    Args:
        model: what is asked, of each point; it learns, too.
        members: the points at which candidates are measured.
        references: gives of each point the drafted seconds that count as relative throughput 1
            where the model has seen nothing of it.
    """

    def __init__(
        self,
        model: CostModel,
        members: Sequence[Member],
        references: Callable[[], Sequence[float]],
    ) -> None:
        self._model, self._members, self._find = model, members, references

    @cached_property
    def _references(self) -> Sequence[float]:
        return self._find()

    @property
    def model_id(self) -> str:
        """That of the model."""
        return self._model.model_id

    @property
    def trained(self) -> bool:
        """Whether the model is."""
        return self._model.trained

    def predict(self, batch: Batch) -> Floats:
        """The geometric mean of relative throughputs at the points."""
        sketch = batch.sketch
        assert isinstance(sketch, MeasuredSketch)
        logs = []
        each = zip(self._members, sketch.twins, self._references, strict=True)
        for member, twin, reference_s in each:
            task, draft = member.task, draft_of(member.task.target)
            rows = twin.placed(batch.rows)[0]
            here = Batch(task.workload_key, task.flops, twin.static, rows, draft, reference_s)
            logs.append(np.log(np.maximum(self._model.predict(here), LEAST_SCORE)))
        return np.asarray(np.exp(np.mean(logs, axis=0)))

    def update(self, observations: Sequence[Observation]) -> None:
        """Observations of static programs are the model's own."""
        self._model.update(observations)
