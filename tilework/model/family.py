"""Tasks whose extents a run decides, as the draft sees them: at each of their typical points.

One row serves all points of the ranges. The draft looks at it at the typical ones, where the same
computation has other spaces: rows are drawn from all of them, and are good where they are valid in
all. Rows are compared by the geometric mean of their seconds, so that each point counts alike: the
sum would hear the longest alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilework.index.symbols import typical_points
from tilework.model.base import Rows
from tilework.model.draft import Draft
from tilework.space import SearchSpace, Sketch
from tilework.task import SearchTask
from tilework.te.points import seen_at


@dataclass(frozen=True)
class FamilySketch:
    """A sketch of a task, and what it is at each of the task's typical points.

    Attributes:
        id: position of the sketch in the task's space.
        views: the sketch where the task is looked at elsewhere.
    """

    id: int
    views: tuple[Sketch, ...]

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` random rows that are valid at all points, as many drawn at each."""
        each = -(-n // len(self.views))
        return self._valid(np.concatenate([view.sample(rng, each) for view in self.views]))

    def neighbours(self, rows: Rows) -> list[Rows]:
        """Of each row, those that differ from it in one decision, by the choices of any point."""
        around = [view.neighbours(rows) for view in self.views]
        return [self._valid(np.concatenate(near)) for near in zip(*around, strict=True)]

    def canonical(self, rows: Rows) -> Rows:
        """The rows without what has no effect at any point."""
        first, *more = (view.canonical(rows) for view in self.views)
        for found in more:
            first = np.where(first == found, first, rows)
        return first

    def _valid(self, rows: Rows) -> Rows:
        rows = np.unique(rows, axis=0)
        return rows[np.logical_and.reduce([view.valid(rows) for view in self.views])]


@dataclass(frozen=True)
class FamilyDraft:
    """The draft of a kind of machine, of rows that are to serve several points."""

    draft: Draft

    def seconds(self, sketch: FamilySketch, rows: Rows) -> NDArray[np.float64]:
        """The geometric mean of what P rows take at the typical points, in seconds."""
        logs = [np.log(self.draft.seconds(view, rows)) for view in sketch.views]
        return np.asarray(np.exp(np.mean(logs, axis=0)))

    def lengths(self, sketch: FamilySketch, rows: Rows) -> NDArray[np.float64]:
        """How much code P rows are, in the mean of the typical points."""
        each = [self.draft.lengths(view, rows) for view in sketch.views]
        return np.asarray(np.mean(each, axis=0))


def family_of(task: SearchTask) -> Sequence[FamilySketch]:
    """The sketches of a task that all of its typical points have."""
    spaces = [
        SearchSpace.of(SearchTask(seen_at(task.compute_dag, at), task.target, rules=task.rules))
        for at in typical_points(task.compute_dag.symbols)
    ]
    out = []
    for sketch in SearchSpace.of(task).sketches:
        alike = [[s for s in space.sketches if _alike(s, sketch)] for space in spaces]
        if all(alike):
            out.append(FamilySketch(sketch.id, tuple(found[0] for found in alike)))
    return out


def _alike(one: Sketch, other: Sketch) -> bool:
    return (
        one.steps == other.steps
        and one.form == other.form
        and one.num_decisions == other.num_decisions
    )
