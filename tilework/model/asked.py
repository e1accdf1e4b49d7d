"""What the draft has said of rows of a family, point by point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.model.base import Rows
from tilework.model.climbing import Around, climbed
from tilework.model.family import FamilyDraft, FamilySketch
from tilework.overriding import override
from tilework.space import Sketch
from tilework.space.decision import alone
from tilework.space.distinct import ascending

Floats = NDArray[np.float64]

SLACK = 1.03
"""Of rows that take at most so many times the seconds of the best, that with the least code is
taken: a tile of 22 rows is compiled for each number of rows that may be left."""
NEAR, GOOD = 1.2, 256
"""Rows that take at most so many times the seconds of the best one at an end, or in the mean of
both, are looked at everywhere; so many of a sketch for each."""
ALONE, NEAR_ALONE = 1.02, 1.1
"""Where the row that is best in the mean takes, in that mean, at most so many times the seconds of
the best at each end, a second row hardly pays: sketches are looked at that have a row near in the
mean. What two rows are worth between the ends, only rows of these say."""


LONGEST = 40_000
"""Instructions of a row's code that a family which reads nothing several times has at the most,
where it may: nests of softmax had four times as many, for a tenth of their time by the draft, and
took half a second to make."""

BESIDE_S = 1e-5
"""Seconds that are taken to pass beside a kernel's own, so that rows which differ by less count as
alike. At a length of 1 kernels that read no weights take a microsecond or two, and those that do a
hundred; what the former gain there is lost many times over where they take milliseconds, and a
second kernel for it takes a tenth of a second to make."""


class Found(NamedTuple):
    """A row, and the mean of the logarithms of its seconds, and those beside, at some points."""

    sketch: FamilySketch
    row: Rows
    log: float


@frozen
class Asked(FamilyDraft):
    """The draft of a family, which remembers what it has said.

    Attributes:
        said: by id of a sketch, rows and the logarithms of their seconds, a line for each point.
        longest: instructions of a row's code, beyond which rows count as so many times slower.
    """

    said: dict[int, list[tuple[Rows, Floats]]] = field(default_factory=dict)
    longest: float = math.inf

    @override
    def logs(self, sketch: FamilySketch, rows: Rows) -> Floats:
        spoken = super().logs(sketch, rows)
        self.said.setdefault(sketch.id, []).append((rows, spoken))
        return spoken

    @override
    def log_seconds(self, view: Sketch, rows: Rows) -> Floats:
        logs = np.asarray(np.log(self.draft.seconds(view, rows) + BESIDE_S))
        if math.isinf(self.longest):
            return logs
        longer = self.draft.lengths(view, rows) / self.longest
        return np.asarray(logs + np.log(np.maximum(longer, 1.0)))

    @override
    def least(self, sketch: FamilySketch, closely: bool = False, alone: bool = False) -> float:
        each = [self.draft.least(view, closely, alone) + BESIDE_S for view in sketch.views]
        return math.prod(each) ** (1 / len(each))

    def mean(self, sketch: FamilySketch, rows: Rows, points: slice) -> Floats:
        """The mean of the logarithms of the seconds of P rows at some points."""
        views = sketch.views[points]
        return np.asarray(np.mean([self.log_seconds(v, rows) for v in views], axis=0))

    def log(self, one: Found, points: slice) -> float:
        """As `mean`, of a row that it may have been asked about everywhere."""
        rows, logs = self.heard(one.sketch)
        same = np.flatnonzero((rows == one.row).all(axis=1))
        if len(same) and np.isfinite(logs[points, same[0]]).all():
            return float(logs[points, same[0]].mean())
        return float(self.mean(one.sketch, one.row[None], points)[0])

    def gain(self, one: Found, other: Found, point: int) -> float:
        """By how many seconds a row is faster than another one at a point."""
        logs = (self.log(row, slice(point, point + 1)) for row in (one, other))
        here, there = map(math.exp, logs)
        return there - here

    def shared(self, one: Found, point: int) -> bool:
        """Whether a row is faster at a point than any that has no loop in parallel, for sure."""
        least = self.draft.least(one.sketch.views[point], closely=True, alone=True)
        return math.log(least + BESIDE_S) > self.log(one, slice(point, point + 1))

    def heard(self, sketch: FamilySketch) -> tuple[Rows, Floats]:
        """All rows of a sketch that it was asked about, and what it said."""
        said = self.said[sketch.id]
        if len(said) > 1:
            rows, logs = zip(*said, strict=True)
            said[:] = [(np.concatenate(rows), np.concatenate(logs, axis=1))]
        return said[0]

    def least_log(self, family: Sequence[FamilySketch], points: slice) -> float:
        """As `mean`, of the row of any sketch that it was asked about where that is least."""
        return min(float(mean.min()) for mean in self._means(family, points).values())

    def everywhere(self, family: Sequence[FamilySketch]) -> Asked:
        """What the draft says at all points of rows that are valid there, and good at the ends.

        Of sketches that it was asked about at the last point alone rows run in parallel, which at
        few points does not pay: what each is with no parallel loop is looked at beside it before.

        Args:
            family: the sketches, which it was asked about at their first and last point, or at
                the last one.
        """
        heard = {s.id: self.heard(s) for s in family if s.id in self.said}
        best = np.min([_looks(logs).min(axis=1) for _, logs in heard.values()], axis=0)
        one = best[-1] - best[:-1].mean() <= math.log(ALONE)
        out = Asked(self.draft, longest=self.longest)
        for sketch in (s for s in family if s.id in heard):
            rows, logs = heard[sketch.id]
            looks = _looks(logs)
            near = NEAR_ALONE if len(logs) > 1 else ALONE
            if one and looks[-1].min() > best[-1] + math.log(near):
                continue
            some = _good(looks, best)
            rows, logs = rows[some], logs[:, some]
            if len(logs) == 1:
                serial = ascending(alone(rows, sketch.whole.decisions))
                rows = np.concatenate([rows, serial])
                logs = np.concatenate([logs, np.full((1, len(serial)), np.inf)], axis=1)
            others = sketch.views[len(logs) - 1 : -1]
            for view in others if not sketch.steady else ():
                good = view.valid(rows)
                rows, logs = rows[good], logs[:, good]
            if len(rows):
                between = [self.log_seconds(view, rows) for view in others]
                out.said[sketch.id] = [(rows, np.array([*logs[:-1], *between, logs[-1]]))]
        return out

    def best(self, family: Sequence[FamilySketch], points: slice, slack: float = SLACK) -> Found:
        """The row with the least code of those about as fast as the best at some points."""
        heard, means = [s for s in family if s.id in self.said], self._means(family, points)
        most = min(float(mean.min()) for mean in means.values()) + math.log(slack)
        at = {sketch.id: np.flatnonzero(means[sketch.id] <= most) for sketch in heard}
        alone = sum(map(len, at.values())) == 1
        near: list[tuple[float, Found]] = []
        for sketch in (s for s in heard if len(at[s.id])):
            rows, own = self.heard(sketch)[0][at[sketch.id]], means[sketch.id][at[sketch.id]]
            lengths = np.zeros(1) if alone else self.lengths(sketch, rows)
            shortest = int(np.argmin(lengths))
            one = Found(sketch, rows[shortest], float(own[shortest]))
            near.append((float(lengths[shortest]), one))
        return min(near, key=lambda pair: pair[0])[1]

    def _means(self, family: Sequence[FamilySketch], points: slice) -> dict[int, Floats]:
        """By id of a sketch that it was asked about, means of logarithms of its rows."""
        heard = [sketch for sketch in family if sketch.id in self.said]
        return {s.id: self.heard(s)[1][points].mean(axis=0) for s in heard}

    def improved(self, one: Found, points: slice, within: Around) -> Found:
        """A row, or a better one that a few steps lead to."""
        some = _Some(self, one.sketch, points)
        ((seconds, row),) = climbed(within, [(math.exp(one.log), one.row)], some, [])
        return Found(one.sketch, row, math.log(seconds))


def _looks(logs: Floats) -> Floats:
    """Logarithms at some points, and their mean."""
    return np.vstack([logs, logs.mean(axis=0)])


def _good(looks: Floats, best: Floats) -> NDArray[np.int64]:
    """Which rows are near the best of all sketches, by any of the looks."""
    good = np.zeros(looks.shape[1], bool)
    for look, least in zip(looks, best, strict=True):
        near = np.flatnonzero(look <= least + math.log(NEAR))
        good[near[look[near].argsort(kind="stable")[:GOOD]]] = True
    return np.flatnonzero(good)


class _Some(NamedTuple):
    """A draft at some of the points."""

    asked: Asked
    sketch: FamilySketch
    points: slice

    def seconds(self, sketch: Around, rows: Rows) -> Floats:
        """The geometric mean of what P rows take there."""
        return np.asarray(np.exp(self.asked.mean(self.sketch, rows, self.points)))
