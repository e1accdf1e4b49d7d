"""The border of one axis: which versions of a tile it makes, and what it leaves to compute.

In numbers, a tile size at a time; `borders` looks them up for many candidates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    own = border.bounds
    taps = max([b.tap.typical for b in own if b.tap is not None], default=1)
    count = -(-border.axis.typical // size)
    tap = np.arange(taps)
    low, high = np.zeros_like(tap), np.full_like(tap, border.axis.typical - 1)
    for b in own:  # slope * position + step * tap + const >= 0
        rest = b.step * tap + known(b.const)
        if b.slope > 0:
            low = np.maximum(low, -(rest // b.slope))
        else:
            high = np.minimum(high, rest // -b.slope)
    first = size * np.arange(count)[:, None]
    inside = np.minimum(high, first + size - 1) - np.maximum(low, first) + 1
    points = np.maximum(inside, 0)
    if border.axis.open:
        edge = border.edge if others >= 0 else 0
        if edge and versions(border, size, False, False).bodies * 2**others > MOST_BORDERED:
            edge = 0
        return _open_points(low, high, border.axis.typical, size, edge)
    out: list[tuple[float, float]] = []
    many = 2 * points >= size
    for part in (points == size, many & (points < size), ~many & (points > 0)):
        number = int(part.sum())
        out.append((number / taps, float(points[part].mean()) if number else 0.0))
    return out


def _open_points(
    low: NDArray[np.int64], high: NDArray[np.int64], extent: int, size: int, edge: int
) -> list[tuple[float, float]]:
    """The same of an axis whose extent a run decides: points on its border go one by one.

    As `tilework.lower.register_tiles.tails.Tail` computes them: the first tile in one where it
    reaches over no other end, of others the points inside in halves.

    Args:
        low, high: of each tap, the first point that uses it, and the last one.
        extent: points of the axis.
        size: of a tile.
        edge: points at the end that have code of their own, as the last tile has where it is
            whole; 0 if there is none.
    """
    taps, starts = len(low), np.arange(0, extent, size)
    stops = np.minimum(starts + size, extent)

    def used(first: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
        begin, end = np.maximum(low, first[:, None]), np.minimum(high, stop[:, None] - 1)
        return np.asarray(np.maximum(end - begin + 1, 0))

    begin, end = int(low.max()), int(high.min()) + 1
    before = np.clip(begin - starts, 0, stops - starts)
    inner = np.maximum(np.minimum(stops, end) - starts - before, 0)
    whole = inner == size
    known = ~whole & (starts == 0) & (1 < size <= end)  # code says which points a tap uses
    if edge and size > 1:
        known |= ~whole & (starts >= begin) & (starts + size == extent)
    single = ~whole & ~known
    behind = single & (1 < edge < size) & (stops - starts - before - inner == edge)
    points = used(starts, stops)
    some = [points[known], used(stops - edge, stops)[behind]]
    halves = inner[single] // 2 * 2 if size > 2 else np.zeros(0, np.int64)
    shorter = np.concatenate([one[(one > 0) & (one < size)] for one in some])
    number = len(shorter) / taps + sum(int(n).bit_count() for n in halves)
    mean = (float(shorter.sum()) / taps + float(halves.sum())) / number if number else 0.0
    full = float(whole.sum()) + float((points[known] == size).sum()) / taps
    rest = (float(points[single].sum()) - float(some[1].sum())) / taps - float(halves.sum())
    return [(full, size), (number, mean), (rest, 1.0)]
