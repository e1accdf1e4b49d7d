"""A second row of a task whose extents a run decides, for where one of them is small.

A register tile for one row of a product is none for a hundred. Where two rows serve the points
better than one, the kernel holds the code of both, and a run takes that of its extent:
`tilework.model.choice.HandOver`. Both read the same arguments, so constants lie as the row for
large extents packs them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from tilework.index.extents import Extent, size
from tilework.index.symbols import Point, value_at
from tilework.model.asked import BESIDE_S, Asked, Floats, Found
from tilework.model.asked import SLACK as LEAST_SLACK
from tilework.model.base import Rows
from tilework.model.choice import Choice, HandOver
from tilework.model.family import FamilySketch
from tilework.space.decision import alone
from tilework.space.distinct import ascending
from tilework.space.views import views_at
from tilework.te.dag import ComputeDAG
from tilework.te.expr import Axis, reads, walk
from tilework.te.tensor import Placeholder

PAYS = 1.05
"""How many times as fast as one row two have to be, in the mean of the points, which is what their
code is worth: it is twice as much, and takes twice as long to make."""
SLACK = 1.1
"""Of rows for small extents that take at most so many times the seconds of the best, that with the
least code is taken, unless weights are read: kernels of none, such as softmax, are a small part of
a run where extents are small, and code that is expanded for few rows takes as long to make as any
other, in each version of the last tile."""
PAYS_MEASURED = 1.03
"""The same by records: who has searched for minutes has time for the code. Of many single
latencies the least on each side of a border are lucky ones, by a percent or so together."""

PACKINGS, NEAR = 12, 1.15
"""Of how many ways to pack constants rows for small extents are looked for: those of rows for
large ones that take at most so many times the seconds of the best."""
_ALL = 20.0
"""A logarithm of seconds beyond any other: of what failed."""
Program = tuple[int, tuple[int, ...]]
"""A sketch's id and a row."""


class Border(NamedTuple):
    """Where one row may hand over to another.

    Attributes:
        first, points: how many points come before, and how many there are.
        grows: an extent that is larger at all points behind than at those before.
        ends: its values on both sides.
    """

    first: int
    points: int
    grows: Extent
    ends: tuple[int, int]

    def mean(self, before: float, behind: float) -> float:
        """The mean over all points, of the means on both sides."""
        return (self.first * before + (self.points - self.first) * behind) / self.points

    def most(self, before: float, behind: float) -> int:
        """Up to where the row for small extents serves.

        Args:
            before, behind: the logarithms of how many times as long as the other row it takes at
                the ends; both are taken to be equally fast where the line through them is 0.
        """
        low, high = map(math.log, self.ends)
        before, behind = max(before, -_ALL), min(behind, _ALL)  # what failed is never as fast
        share = 1.0 if behind <= before else min(max(-before / (behind - before), 0.0), 1.0)
        return min(max(int(math.exp(low + share * (high - low))), self.ends[0]), self.ends[1] - 1)


def borders(extents: Iterable[Extent], points: Sequence[Point]) -> list[Border]:
    """Between which of some points rows may change, by one of some extents.

    By the axis that grows there and grows most from the first point to the last: where lengths and
    batches grow in step, the length says more of a run than the batch does.
    """
    out = []
    for first in range(1, len(points)):
        possible = []
        for extent in extents:
            values = [value_at(extent, at) for at in points]
            ends = max(values[:first]), min(values[first:])
            if 0 < ends[0] < ends[1]:
                growth = values[-1] / values[0], ends[1] / ends[0]
                possible.append((growth, Border(first, len(points), extent, ends)))
        if possible:
            out.append(max(possible, key=lambda one: one[0])[1])
    return out


class Fixed:
    """What rows of a sketch have to have in common to be halves of one kernel.

    Attributes:
        columns: the decisions by which constants are packed.
    """

    def __init__(self, sketch: FamilySketch) -> None:
        self._sketch = sketch

    @cached_property
    def columns(self) -> list[int]:
        """Of the tiles of axes along which constants lie."""
        whole, out = self._sketch.whole, set[int]()
        for block, decisions in zip(whole.blocks, whole.by_block, strict=True):
            free = block.op.attrs.get("layout_free", ())
            axes = {
                part
                for read in reads(block.source)
                if isinstance(read.tensor.op, Placeholder) and read.tensor.op.name in free
                for index in read.indices
                for part in walk(index)
                if isinstance(part, Axis)
            }
            out |= {c for d in decisions if d.axis in axes for c in d.columns}
        return sorted(out)

    def like(self, rows: Rows, row: Rows) -> Rows:
        """Rows as they would be with the constants of ``row``, those that are valid."""
        moved = ascending(self._with(rows, row))
        return moved[self._sketch.valid(moved)]

    def _with(self, rows: Rows, row: Rows) -> Rows:
        out = rows.copy()
        out[:, self.columns] = row[self.columns]
        return out

    def neighbours(self, rows: Rows) -> list[Rows]:
        """Those of each row that pack constants alike."""
        around = self._sketch.neighbours(rows)
        pairs = zip(around, rows, strict=True)
        return [near[(self._with(near, row) == near).all(axis=1)] for near, row in pairs]


class Over(NamedTuple):
    """Two programs of a family, and where the one hands over to the other."""

    small: Program
    large: Program
    points: int
    grows: Extent
    most: int


def handed_over(
    logs: Mapping[Program, Floats],
    best: Program,
    family: Sequence[FamilySketch],
    borders: Iterable[Border],
) -> Over | None:
    """The two of some programs that serve together, where that pays (`PAYS_MEASURED`).

    Args:
        logs: of each program, the logarithms of its seconds at the points.
        best: the one that serves all points best.
        family: the sketches.
        borders: where one may hand over to another.
    """
    fixed = {sketch.id: Fixed(sketch) for sketch in family}
    packs = any(one.columns for one in fixed.values())
    alike: dict[object, list[Program]] = {}
    for program in logs:
        number, row = program
        same = (number, *(row[c] for c in fixed[number].columns)) if packs else ()
        alike.setdefault(same, []).append(program)
    out, goal = None, float(logs[best].mean()) - math.log(PAYS_MEASURED)
    for border, programs in product(borders, alike.values()):
        at = border.first
        small = min(programs, key=lambda p: (float(logs[p][:at].mean()), p))
        large = min(programs, key=lambda p: (float(logs[p][at:].mean()), p))
        mean = border.mean(float(logs[small][:at].mean()), float(logs[large][at:].mean()))
        if mean < goal:
            before, behind = (float(logs[small][i] - logs[large][i]) for i in (at - 1, at))
            most = border.most(before, behind)
            out, goal = Over(small, large, at, border.grows, most), mean
    return out


def with_second(
    choice: Choice,
    family: Sequence[FamilySketch],
    dag: ComputeDAG,
    points: Sequence[Point],
    asked: Asked,
) -> Choice:
    """A choice for a family, or two rows in its place where that pays (`PAYS`), by the draft.

    Args:
        choice: the best row for all points.
        family: the sketches.
        dag: what they compute.
        points: those of the sketches' views.
        asked: what found the choice.
    """
    best = math.log((choice.predicted_s or math.inf) + BESIDE_S) - math.log(PAYS)
    packs = any(Fixed(sketch).columns for sketch in family)
    slack = LEAST_SLACK if packs else SLACK
    for border in borders(dag.open_extents, points):
        few, many = slice(border.first), slice(border.first, None)
        if border.mean(asked.least_log(family, few), asked.least_log(family, many)) >= best:
            continue
        large, least = asked.best(family, many), asked.best(family, few, slack)
        if border.mean(least.log, large.log) >= best:
            continue
        between = _between(points[border.first - 1], points[border.first]) if packs else None
        pair = _packed_alike(large, border, many, few, asked) if packs else (least, large)
        if pair is None or border.mean(pair[0].log, pair[1].log) >= best:
            continue
        small, large = pair
        if between is not None:
            small = _also(between, small, asked, few, Fixed(small.sketch))
        best = border.mean(small.log, large.log)
        choice = _with_small(choice, small, large, border, between, asked, best)
    return choice


def with_alone(
    choice: Choice,
    family: Sequence[FamilySketch],
    dag: ComputeDAG,
    points: Sequence[Point],
    asked: Asked,
    slack: float = LEAST_SLACK,
) -> Choice:
    """A choice, or a row that small runs take without its parallel loops, where that is faster.

    It is one kernel, whose code is as much as of a row: `PAYS` is not asked for. How small a run
    is says the size of its output, with which the seconds of either way grow.

    Args:
        choice, family, dag, points, asked: as `with_second` has them.
        slack: of rows that take at most so many times the seconds of the best where runs are not
            small, that with the least code is taken.
    """
    best = math.log((choice.predicted_s or math.inf) + BESIDE_S)
    for border in borders([size(dag.outputs[0].shape)], points):
        few, many = slice(border.first), slice(border.first, None)
        large = asked.best(family, many)
        shared = large.sketch.canonical(large.row[None])
        row = alone(shared, large.sketch.whole.decisions)[0]
        small = Found(large.sketch, row, 0.0)
        if (row == shared[0]).all():
            continue
        at = border.first - 1
        here = 0.0 if asked.shared(large, at) else asked.gain(small, large, at)
        if here <= 0 or not large.sketch.valid(row[None])[0]:
            break
        mean = border.mean(asked.log(small, few), asked.log(large, many))
        if mean < best:
            best, (low, high) = mean, border.ends
            there = asked.gain(small, large, at + 1)
            share = here / (here - min(there, 0.0))
            most = min(low + int(share * (high - low)), high - 1)
            choice = choice._replace(
                sketch_id=large.sketch.id,
                row=_plain(large),
                predicted_s=math.exp(mean) - BESIDE_S,
                small=HandOver(large.sketch.id, _numbers(row), border.grows, most),
            )
    return choice


def _packed_alike(
    large: Found, border: Border, many: slice, few: slice, asked: Asked
) -> tuple[Found, Found] | None:
    """A row for small extents and one for large ones that read the same constants.

    Args:
        large: a good row for large extents, in whose sketch to look.
        border: where one hands over to the other.
        many, few: points behind the border and before it.
        asked: what has been said of rows.
    """
    fixed, sketch = Fixed(large.sketch), large.sketch
    rows, logs = asked.heard(sketch)
    own = logs[many].mean(axis=0)
    order = np.argsort(own, kind="stable")
    packings = {tuple(large.row[fixed.columns]): large}
    for i in order[own[order] <= own[order[0]] + math.log(NEAR)]:
        one = Found(sketch, rows[i], float(own[i]))
        packings.setdefault(tuple(one.row[fixed.columns]), one)
    pairs: list[tuple[float, Found, Found]] = []
    for one in [*packings.values()][:PACKINGS]:
        alike = fixed.like(rows, one.row)
        if len(alike):
            means = asked.mean(sketch, alike, few)
            i = int(np.argmin(means))
            small = Found(sketch, alike[i], float(means[i]))
            pairs.append((border.mean(small.log, one.log), small, one))
    if not pairs:
        return None
    _, small, large = min(pairs, key=lambda pair: pair[0])
    return asked.improved(small, few, fixed), large


def _between(small: Point, large: Point) -> Point:
    """The point in the middle of two, by ratios."""
    return {symbol: math.isqrt(n * large[symbol]) for symbol, n in small.items()}


def _also(between: Point, small: Found, asked: Asked, points: slice, fixed: Fixed) -> Found:
    """A row for small extents, or a neighbour as fast that is faster between them and large ones.

    It serves there as well, where nobody has looked. A register tile of one row is good at one
    row, but reads the weights anew for each of several.
    """
    (near,) = fixed.neighbours(small.row[None])
    rows = np.concatenate([small.row[None], near])
    logs = asked.mean(small.sketch, rows, points)
    there = _there(between, small.sketch, rows, asked)
    good = logs <= small.log + math.log(LEAST_SLACK)
    i = int(np.argmin(np.where(good, there, math.inf)))
    better = there[i] < there[0] - math.log(PAYS)
    return Found(small.sketch, rows[i], float(logs[i])) if better else small


def _with_small(
    choice: Choice,
    small: Found,
    large: Found,
    border: Border,
    between: Point | None,
    asked: Asked,
    mean: float,
) -> Choice:
    at = border.first - 1
    ends = slice(at, at + 1), slice(at + 1, at + 2)
    before, behind = (asked.log(small, end) - asked.log(large, end) for end in ends)
    most = _most(border, (before, behind), small, large, asked, between)
    over = HandOver(small.sketch.id, _plain(small), border.grows, most)
    return choice._replace(
        sketch_id=large.sketch.id,
        row=_plain(large),
        predicted_s=math.exp(mean) - BESIDE_S,
        small=over,
    )


def _most(
    border: Border,
    logs: tuple[float, float],
    small: Found,
    large: Found,
    asked: Asked,
    between: Point | None,
) -> int:
    """As `Border.most`, of the half of it in which both rows of a sketch are as fast.

    Args:
        border: the border.
        logs: of the ends, as there.
        small, large: the rows.
        asked: what compares them.
        between: the point in the middle.
    """
    if between is None:
        return border.most(*logs)
    here, (low, high) = value_at(border.grows, between), border.ends
    if not low < here < high:
        return border.most(*logs)
    middle = _there(between, small.sketch, np.array([small.row, large.row]), asked)
    log = float(middle[0] - middle[1])
    if log > 0:
        return border._replace(ends=(low, here)).most(logs[0], log)
    return border._replace(ends=(here, high)).most(log, logs[1])


def _there(at: Point, sketch: FamilySketch, rows: Rows, asked: Asked) -> Floats:
    """Logarithms of the seconds of rows at a point where the family is not looked at."""
    ((seen,),) = views_at([sketch.whole], [at])
    return asked.log_seconds(seen, rows)


def _plain(one: Found) -> tuple[int, ...]:
    return _numbers(one.sketch.canonical(one.row[None])[0])


def _numbers(row: Rows) -> tuple[int, ...]:
    return tuple(int(n) for n in row)
