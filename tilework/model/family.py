"""Tasks whose extents a run decides, as the draft sees them: at each of their typical points.

One row serves all points of the ranges. The draft looks at it at the typical ones and at the upper
ends, where the same computation has other spaces: rows are drawn from all of them, and are good
where they are valid in all. Rows are compared by the geometric mean of their seconds, so that each
point counts alike: the sum would hear the longest alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.index.symbols import Point, Symbol
from tilework.model.base import Rows
from tilework.model.draft import Draft
from tilework.space import SearchSpace, Sketch
from tilework.space.decision import around
from tilework.space.distinct import ascending
from tilework.space.protocol import space_of
from tilework.space.slabs import on_one_core
from tilework.space.twins import Twin, twin_of
from tilework.space.views import views_at
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.points import at_point, typical_points

_FAR = 2
"""How many times the greatest typical value an upper end has to be to be looked at, too."""


@frozen
class FamilySketch:
    """A sketch of a task, and what it is at each of the task's typical points.

    Attributes:
        id: position of the sketch in the task's space.
        views: the sketch where the task is looked at elsewhere: `looked_at`.
        whole: the sketch.
    """

    id: int
    views: Sequence[Sketch]
    whole: Sketch

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` random rows that are valid at all points, as many drawn at each."""
        each = -(-n // len(self.views))
        drawn = [view.sample(rng, each) for view in self.views]
        for i, own in enumerate(drawn):
            drawn[i] = own[self._elsewhere(own, (*self.views[:i], *self.views[i + 1 :]))]
        return ascending(np.concatenate(drawn))

    def neighbours(self, rows: Rows) -> list[Rows]:
        """Of each row, those that differ from it in one decision, by the choices of any point."""
        near = around(rows, self._choices)
        of, which = (near != rows[:, None]).any(axis=2).nonzero()
        near = np.column_stack([of.astype(near.dtype), near[of, which]])
        near = near[self.views[0].valid(near[:, 1:])]
        near = ascending(near[self._elsewhere(near[:, 1:], self.views[1:])])
        ends = np.searchsorted(near[:, 0], np.arange(1, len(rows)))
        return np.split(near[:, 1:], ends)

    def _elsewhere(self, rows: Rows, others: Sequence[Sketch]) -> NDArray[np.bool_]:
        """Which rows that are valid at one point are so at others."""
        ok = np.ones(len(rows), bool)
        left = np.flatnonzero(~self.settled(rows))
        for view in others if len(left) else ():
            good = view.valid(rows[left])
            ok[left[~good]] = False
            left = left[good]
        return ok

    def canonical(self, rows: Rows) -> Rows:
        """The rows without what has no effect at any point."""
        out: Rows | None = None
        for view in self.views:
            plain = view.canonical(rows)
            if (plain == rows).all():
                return rows
            out = plain if out is None else np.where(out == plain, out, rows)
        assert out is not None
        return out

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are programs within the limits at all points."""
        ok: NDArray[np.bool_] = np.logical_and.reduce([view.valid(rows) for view in self.views])
        return ok

    @cached_property
    def steady(self) -> bool:
        """Whether rows of the sketch's tables are valid at all points or at none."""
        most = (len(block.parallel_loops) for block in self.views[0].blocks)
        return all(n >= loops for n, loops in zip(self._steady, most, strict=True))

    @cached_property
    def _steady(self) -> list[int]:
        """By block, up to how many loops a row may fuse that is valid everywhere or nowhere."""
        first = self.views[0]
        on, space = on_one_core(first.target, first.slabs), space_of(first.target)
        return [space.steady(block, on) for block in first.blocks]

    def settled(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows of the sketch's tables are valid at all points or at none."""
        if min(self._steady) < 0:
            return np.zeros(len(rows), bool)
        fused = [d.columns[0] for d in self.views[0].decisions if d.kind == "parallel"]
        return np.asarray((rows[:, fused] <= self._steady).all(axis=1))

    @property
    def at_ends(self) -> FamilySketch:
        """The same where it is looked at first and last alone."""
        ends = tuple(dict.fromkeys((self.views[0], self.views[-1])))
        return FamilySketch(self.id, ends, self.whole)

    @property
    def at_end(self) -> FamilySketch:
        """The same where it is looked at last alone."""
        return FamilySketch(self.id, (self.views[-1],), self.whole)

    @cached_property
    def _choices(self) -> list[tuple[tuple[int, ...], Rows]]:
        """Of each decision its columns, and its choices at any point."""
        out = []
        for alike_ones in zip(*(view.decisions for view in self.views), strict=True):
            tables = {id(d.choices): d.choices for d in alike_ones}  # most are one and the same
            first, *others = tables.values()
            own = ascending(np.concatenate([first, *others])) if others else first
            out.append((alike_ones[0].columns, own))
        return out


@frozen
class FamilyDraft:
    """The draft of a kind of machine, of rows that are to serve several points."""

    draft: Draft

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns."""
        return self.draft.names

    def features(self, sketch: FamilySketch, rows: Rows) -> NDArray[np.float32]:
        """Features of P rows where the family is greatest."""
        return self.draft.features(sketch.views[-1], rows)

    def seconds(self, sketch: FamilySketch, rows: Rows) -> NDArray[np.float64]:
        """The geometric mean of what P rows take where the family is looked at, in seconds."""
        return np.asarray(np.exp(np.mean(self.logs(sketch, rows), axis=0)))

    def logs(self, sketch: FamilySketch, rows: Rows) -> NDArray[np.float64]:
        """Logarithms of the seconds of P rows at each point, a line for each."""
        return np.array([self.log_seconds(view, rows) for view in sketch.views])

    def log_seconds(self, view: Sketch, rows: Rows) -> NDArray[np.float64]:
        """Logarithms of the seconds of P rows at one point."""
        return np.asarray(np.log(self.draft.seconds(view, rows)))

    def block_seconds(self, sketch: FamilySketch, rows: Rows) -> NDArray[np.float64]:
        """The same of each block, in the proportions that they have where it is greatest."""
        each = self.draft.block_seconds(sketch.views[-1], rows)
        total = self.seconds(sketch, rows) / np.maximum(each.sum(axis=1), 1e-30)
        return np.asarray(each * total[:, None])

    def least(self, sketch: FamilySketch, closely: bool = False, alone: bool = False) -> float:
        """The geometric mean of what no row takes less than at the points, in seconds."""
        each = [self.draft.least(view, closely, alone) for view in sketch.views]
        return math.prod(each) ** (1 / len(each))

    def lengths(self, sketch: FamilySketch, rows: Rows) -> NDArray[np.float64]:
        """How much code P rows are: a version for each rest that the longest extents may leave."""
        return self.draft.lengths(sketch.views[-1], rows)

    def machine(self, target: Target) -> dict[str, float]:
        """What describes the machine."""
        return self.draft.machine(target)


@frozen(eq=False)
class Member:
    """A family at one of its typical points, as the static workload that its records are of.

    Attributes:
        number: of the point, among the typical ones.
        at: the point.
        task: the static task.
        twins: by id of a sketch of the family, that and the static one; not all have one.
    """

    number: int
    at: Point
    task: SearchTask
    twins: Mapping[int, Twin]

    @property
    def usual(self) -> bool:
        """Whether it is the one point that stands for all where one is enough."""
        return all(symbol.typical == n for symbol, n in self.at.items())


def looked_at(symbols: Sequence[Symbol], most: int | None = None) -> list[Point]:
    """Where the draft looks at symbols: at the typical points, and at far upper ends.

    A row that serves a range has to be good at its end: typical lengths of 1 and 16, of up to 128,
    say nothing of how many rows may share a load of the weights.

    Args:
        symbols: the symbols.
        most: of how many typical points, at most, evenly among them; at least 2, by default all.
    """
    points, ends = typical_points(symbols), {s: s.high for s in symbols}
    far = any(s.high > _FAR * s.typicals[-1] for s in ends)
    if most is not None and most < len(points):
        points = [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]
    return [*points, ends] if far else points


def family_of(task: SearchTask) -> Sequence[FamilySketch]:
    """The sketches of a task, seen where it is looked at."""
    return family_at(SearchSpace.of(task).sketches, looked_at(task.compute_dag.symbols))


def family_at(sketches: Sequence[Sketch], points: Sequence[Point]) -> Sequence[FamilySketch]:
    """Sketches of a task, seen at some points."""
    pairs = zip(sketches, views_at(sketches, points), strict=True)
    return [FamilySketch(sketch.id, seen, sketch) for sketch, seen in pairs]


def members_of(task: SearchTask, family: Sequence[FamilySketch]) -> tuple[Member, ...]:
    """The static workloads of a task at its typical points, in their order.

    Args:
        task: of symbolic extents.
        family: its sketches.
    """
    members = []
    for number, at in enumerate(typical_points(task.compute_dag.symbols)):
        dag = at_point(task.compute_dag, at)
        where = ", ".join(f"{symbol.name} = {n}" for symbol, n in at.items())
        desc = f"{task.desc}, {where}"
        static = replace(task, compute_dag=dag, desc=desc)
        statics = SearchSpace.of(static).sketches
        twin_by_sketch = {sketch.id: twin_of(sketch.views, statics) for sketch in family}
        twins = {name: twin for name, twin in twin_by_sketch.items() if twin is not None}
        members.append(Member(number, at, static, twins))
    return tuple(members)
