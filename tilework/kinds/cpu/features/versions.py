"""The border of one axis: which versions of a tile it makes, and what it leaves to compute.

In numbers, a tile size at a time; `borders` looks them up for many candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tilework.frozen import frozen
from tilework.index.extents import known, typical
from tilework.lower.register_tiles.borders import (
    Span,
    checked,
    clippable,
    end_points,
    segments,
    tile_spans,
)
from tilework.lower.register_tiles.tails import MOST_BORDERED
from tilework.space.capabilities import Bound
from tilework.te.expr import Axis


@frozen
class Border:
    """An axis with its bounds; two are equal where tiles of every size meet them alike.

    Attributes:
        likeness: all that decides it, in numbers.
        axis: the axis.
        bounds: its bounds; none where it has no border.
    """

    likeness: tuple[int, int, tuple[tuple[int, ...], ...]]
    axis: Axis = field(compare=False)
    bounds: tuple[Bound, ...] = field(compare=False)

    @staticmethod
    def of(axis: Axis, bounds: Sequence[Bound]) -> Border:
        """The border of an axis by its bounds."""
        known_ends = 0
        if axis.open:
            known_ends = 1 + end_points(axis, bounds)
            bounds = [replace(b, const=typical(b.const)) for b in bounds]
        taps = list(dict.fromkeys(b.tap for b in bounds if b.tap is not None))
        numbers = tuple(
            (b.slope, b.step, known(b.const), int(b.skips))
            + ((taps.index(b.tap), b.tap.typical) if b.tap is not None else ())
            for b in bounds
        )
        return Border((axis.typical, known_ends, numbers), axis, tuple(bounds))

    @property
    def edge(self) -> int:
        """Points at its end at which bounds may not hold, if as many in every run; else 0."""
        return max(self.likeness[1] - 1, 0)

    @property
    def taps(self) -> set[Axis]:
        """The reduce axes that its bounds link it to."""
        return {b.tap for b in self.bounds if b.tap is not None}

    @property
    def splits(self) -> bool:
        """Whether the lowering leaves out the taps that fall on padding."""
        return bool(self.bounds) and all(b.skips for b in self.bounds)

    @property
    def clips(self) -> bool:
        """Whether clipped loops over taps leave out what the bounds exclude."""
        return clippable(self.bounds)


class Versions(NamedTuple):
    """Versions of the tiles of one axis; see `tilework.lower.register_tiles.borders.Span`.

    Attributes:
        bodies: pieces of code.
        fixed: share of the tiles whose position is known where code is generated.
        checked: share of the tiles whose bounds are tested at the loads.
        inside: pieces of code for tiles inside.
        bodies_tested, checked_tested: bodies and checked if all tiles on the border are tested.
    """

    bodies: float
    fixed: float
    checked: float
    inside: float
    bodies_tested: float
    checked_tested: float


@lru_cache(maxsize=4096)
def versions(border: Border, size: int, wide: bool, cut: bool) -> Versions:
    """Versions of tiles of ``size`` points.

    Args:
        border: of their axis.
        size: points of a tile.
        wide: whether loops over taps are expanded.
        cut: whether taps are cut, so that those of one visit are not known.
    """
    extent, own = border.axis.typical, border.bounds
    if border.axis.open:
        ends = 1 + (border.edge > 0) + (1 < border.edge < size)
        bodies = 1.0 + max(1, (size - 1).bit_length()) + (size > 1) * ends
        return Versions(bodies, 0.0, 0.0, bodies - 1.0, bodies, 0.0)
    clip = ("border" if wide else "all") if size == 1 and border.clips else "no"
    spans = tile_spans(extent, size, own, clip)
    tests = checked(spans, extent, size)
    if cut:
        spans = tests
    asks = ("checked",) if all(b.skips for b in own) else ("checked", "fixed")

    def share(among: Sequence[Span], kinds: Collection[str]) -> float:
        return sum(s.share for s in among if s.kind in kinds)

    return Versions(
        sum(len(segments(s, own, size)[1]) for s in spans),
        share(spans, ["fixed"]),
        share(spans, asks),
        sum(s.kind == "inside" for s in spans),
        len(tests),
        share(tests, asks),
    )


@lru_cache(maxsize=4096)
def points_left(border: Border, size: int, others: int = 0) -> list[tuple[float, float]]:
    """Tiles of ``size`` points as (number, points used), by how much of them is used.

    Args:
        border, size: as in `tilework.kinds.cpu.features.borders.parts`.
        others: other such axes of an open one; -1 where their tiles have several points, and code
            is too long for a version of the last tile.
    """
    own, extent = border.bounds, border.axis.typical
    taps = max([b.tap.typical for b in own if b.tap is not None], default=1)
    tap = np.arange(taps)
    low, high = np.zeros_like(tap), np.full_like(tap, extent - 1)
    for b in own:  # slope * position + step * tap + const >= 0
        rest = b.step * tap + known(b.const)
        if b.slope > 0:
            low = np.maximum(low, -(rest // b.slope))
        else:
            high = np.minimum(high, rest // -b.slope)
    if border.axis.open:
        edge = border.edge if others >= 0 else 0
        if edge and versions(border, size, False, False).bodies * 2**others > MOST_BORDERED:
            edge = 0
        return _open_points([*zip(low.tolist(), high.tolist(), strict=True)], extent, size, edge)
    first = size * np.arange(-(-extent // size))[:, None]
    inside = np.minimum(high, first + size - 1) - np.maximum(low, first) + 1
    points = np.maximum(inside, 0)
    out: list[tuple[float, float]] = []
    many = 2 * points >= size
    for part in (points == size, many & (points < size), ~many & (points > 0)):
        number = int(part.sum())
        out.append((number / taps, float(points[part].mean()) if number else 0.0))
    return out


def _open_points(
    used: Sequence[tuple[int, int]], extent: int, size: int, edge: int
) -> list[tuple[float, float]]:
    """The same of an axis whose extent a run decides: points on its border go one by one.

    As `tilework.lower.register_tiles.tails.Tail` computes them: the first tile in one where it
    reaches over no other end, of others the points inside in halves.

    Args:
        used: of each tap, the first point that uses it, and the last one.
        extent: points of the axis.
        size: of a tile.
        edge: points at the end that have code of their own, as the last tile has where it is
            whole; 0 if there is none.
    """
    begin, end = max(low for low, _ in used), min(high for _, high in used) + 1
    count, taps = -(-extent // size), len(used)
    head = min(-(-begin // size), count)
    tail = max(end // size, head)  # tiles between them are whole
    full, shorter, halves, single = 0, [], [], 0
    for start in (size * i for i in (*range(head), *range(tail, count))):
        stop = min(start + size, extent)
        points = _points_of(used, start, stop)
        if (start == 0 and 1 < size <= end) or (  # code says which points a tap uses
            edge and size > 1 and start >= begin and start + size == extent
        ):
            full += points.count(size)
            shorter += points
            continue
        before = min(max(begin - start, 0), stop - start)
        inner = max(min(stop, end) - start - before, 0)
        single += sum(points)
        if size > 2:
            halves.append(inner // 2 * 2)
        if 1 < edge < size and stop - start - before - inner == edge:
            behind = _points_of(used, stop - edge, stop)
            shorter += behind
            single -= sum(behind)
    shorter = [n for n in shorter if 0 < n < size]
    number = len(shorter) / taps + sum(n.bit_count() for n in halves)
    mean = (sum(shorter) / taps + sum(halves)) / number if number else 0.0
    rest = single / taps - sum(halves)
    return [(tail - head + full / taps, size), (number, mean), (rest, 1.0)]


def _points_of(used: Sequence[tuple[int, int]], start: int, stop: int) -> list[int]:
    """How many of some points use each tap."""
    return [max(min(high + 1, stop) - max(low, start), 0) for low, high in used]
