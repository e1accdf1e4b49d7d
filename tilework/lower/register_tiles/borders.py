"""Which tiles of an axis touch the border, and which taps are computed there.

Before, every load of every tile asks whether it falls on padding::

    for x.0: for rx: for rc:  acc[0:8] += (inside ? data[...] : 0) * w

After, position decides which version of the tile runs, and taps on the border are left out::

    for x.0:
      if 0 < x.0 < last:  for rx: for rc:  acc[0:8] += data[...] * w
      elif x.0 == 0:      for rc:  acc[1:8] += ...       (rx = 0)
                          for rx in 1..2: for rc:  acc[0:8] += ...
      else:               ...

A tile of one row needs no versions: the loop over its taps is clipped,
``for ry in max(0, 1 - y) .. min(3, H + 1 - y)``. Where a run decides how many points an axis has,
the first tile has its version, and other points near the ends are computed as single rows, one
after another (`tilework.lower.register_tiles.tails`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tilework.frozen import frozen
from tilework.index.bounds import solved
from tilework.index.extents import Extent, ceil_div, known
from tilework.index.symbols import certain, is_static, range_of
from tilework.lower.common import const, weighted_sum
from tilework.space.capabilities import Bound
from tilework.te.expr import Axis, Expr, binary, compare

_MOST_FIXED = 6
FEW = 0.4
FEWEST_SUMS = 6
MOST_BODIES = 25


@frozen
class Span:
    """Tiles ``first <= i < stop`` of one axis, which one version of the code serves.

    Attributes:
        size: points of the axis that each of them has.
        share: their part of all tiles of the axis.
        kind: ``inside`` (no bound can fail), ``fixed`` (one tile, whose position is known when the
            code is generated), ``clip`` (one point; loops over taps are clipped), ``points`` (as
            ``clip``, in a loop over the tile's points), or ``checked`` (bounds are tested where
            the loads are).
        off: how far behind the tile's begin its points are; None if they are there.
        active: how many of its points count, of an axis of vectors; None if all do.
        near: of points at one end, far from the other, the bounds that may fail there, as they
            are where positions count from the first of these points. None where all of the axis
            may.
    """

    first: int
    stop: int
    size: int
    share: float
    kind: str = "inside"
    off: Expr | None = None
    active: Expr | None = None
    near: tuple[Bound, ...] | None = None

    def at(self, base: Expr, point: Expr) -> Expr:
        """Where a point of a tile at ``base`` lies."""
        begin = base if self.off is None else binary("+", base, self.off)
        return binary("+", begin, point)


def tile_spans(
    extent: int, tile: int, bounds: Sequence[Bound] = (), clip: str = "no"
) -> list[Span]:
    """Spans of an axis in the order in which they are tested: the first that fits serves a tile.

    Args:
        extent: points of the axis: where code is made the exact ones.
        tile: points of its innermost tile; the last one may be shorter.
        bounds: the axis's bounds.
        clip: for tiles of one point: whether loops over taps are clipped in all tiles (``all``),
            in those on the border (``border``), or cannot be (``no``).
    """
    count = ceil_div(extent, tile)
    if bounds and clip == "all":
        return [Span(0, count, tile, 1.0, "clip")]
    rest = extent - (count - 1) * tile
    low, high = _inside(extent, tile, bounds)
    full = min(high, count - (rest < tile))
    spans: list[Span] = []
    if low < full:
        spans.append(Span(low, full, tile, (full - low) / count))
    if low < high and full < high:
        spans.append(Span(count - 1, count, rest, 1 / count))
    edge = [*range(low), *range(high, count)]
    if not edge:
        return spans
    if clip == "border":
        return [*spans, Span(0, count, tile, len(edge) / count, "clip")]
    if len(edge) > _MOST_FIXED:
        return checked(spans, extent, tile)
    for i in edge:
        spans.append(Span(i, i + 1, rest if i == count - 1 else tile, 1 / count, "fixed"))
    return spans


def checked(spans: Sequence[Span], extent: int, tile: int) -> list[Span]:
    """The spans with one that tests its bounds in place of all tiles of known position."""
    count = ceil_div(extent, tile)
    rest = extent - (count - 1) * tile
    out = [s for s in spans if s.kind == "inside"]
    covered = sum(s.stop - s.first for s in out)
    if rest < tile and not any(s.stop == count for s in out):
        out.append(Span(count - 1, count, rest, 1 / count, "checked"))
        covered += 1
    if covered < count:
        out.append(Span(0, count - (rest < tile), tile, 1 - covered / count, "checked"))
    return out


def _inside(extent: int, tile: int, bounds: Sequence[Bound]) -> tuple[int, int]:
    """The range of tiles in which every bound holds for every point and every tap."""
    count = ceil_div(extent, tile)
    low, high = 0, count
    for b in bounds:
        taps = b.tap.points - 1 if b.tap is not None else 0
        first, stop = solved(min(0, b.step * taps) + known(b.const), b.slope)
        if first is not None:
            low = max(low, ceil_div(first, tile))
        if stop is not None and stop < extent:  # the last tile ends where the axis does
            high = min(high, stop // tile)
    return (low, high) if low < high else (count, count)


def inner_points(extent: Extent, bounds: Sequence[Bound]) -> tuple[Expr, Expr]:
    """The range ``first <= i < stop`` of points of an axis at which bounds hold for all taps."""
    firsts: list[Extent] = [0]
    stops = [extent]
    for b in bounds:
        taps = b.tap.points - 1 if b.tap is not None else 0
        rest = min(0, b.step * taps) + b.const
        if b.slope > 0:
            firsts.append(-(rest // b.slope))
        else:
            stops.append(rest // -b.slope + 1)
    return _most("max", firsts), _most("min", stops)


def near_begin(bounds: Sequence[Bound]) -> tuple[Bound, ...] | None:
    """Those that may fail in the first tile, if no others do; None where a run decides it."""
    low = [b for b in bounds if b.slope > 0]
    return tuple(low) if is_static(b.const for b in low) else None


def near_end(
    extent: Extent, size: int, bounds: Sequence[Bound]
) -> tuple[tuple[Bound, ...], list[Expr]]:
    """Those that may fail at the last ``size`` points of an axis, as `Span.near` has them.

    How far windows of a stride reach over the end, differs from run to run. They are as where they
    reach furthest; with what holds in these runs.
    """
    own, runs = [], []
    for b in (b for b in bounds if b.slope < 0):
        rest = b.const + b.slope * (extent - size)
        furthest = range_of(rest)[0]
        own.append(replace(b, const=furthest))
        if not is_static([rest]):
            runs.append(compare("==", const(rest), const(furthest)))
    return tuple(own), runs


def end_points(axis: Axis, bounds: Sequence[Bound]) -> int:
    """At how many points at the end of an axis a bound may fail, if as many in every run.

    Or in every run in which it may fail; else 0.
    """
    out = 0
    for b in (b for b in bounds if b.slope < 0):
        taps, rest = b.tap.points - 1 if b.tap is not None else 0, b.const + b.slope * axis.extent
        low, high = range_of(rest)
        fail, fewest = (-(-(-min(0, b.step * taps) - n) // -b.slope) - 1 for n in (low, high))
        if low < high and fewest > 0:
            return 0
        out = max(out, fail)
    return out


def _most(op: str, numbers: Sequence[Extent]) -> Expr:
    """The greatest or the least of some extents, of which those are asked that it may be."""
    kept: list[Extent] = []
    for n in numbers:
        if not any(certain(partial(_before, op, m, n)) for m in kept):
            kept = [m for m in kept if not certain(partial(_before, op, n, m))] + [n]
    greatest, *others = map(const, kept)
    out: Expr = greatest
    for other in others:
        out = binary(op, out, other)
    return out


def _before(op: str, a: Extent, b: Extent) -> bool:
    return a >= b if op == "max" else a <= b


def clippable(bounds: Sequence[Bound]) -> bool:
    """Whether clipped loops over taps leave out what these bounds exclude."""
    return bool(bounds) and all(b.skips and b.tap is not None for b in bounds)


def fewer(
    spans: dict[Axis, list[Span]], tile: dict[Axis, int], bounds: Sequence[Bound], vectors: int
) -> dict[Axis, list[Span]]:
    """The spans with less code for tiles of two axes, whose borders multiply.

    Where few tiles of one axis touch the border, these are computed point by point, if one still
    has enough independent sums. If there is too much code all the same, axes take turns, outermost
    first, in testing their bounds at the loads.

    Args:
        spans: what `tile_spans` found.
        tile: points of the register tile on each axis.
        bounds: all bounds of the block.
        vectors: vectors of the register tile; 0 where points must stay together, because they
            share what they read.
    """
    out = dict(spans)
    fixed = [a for a, own_spans in out.items() if any(s.kind == "fixed" for s in own_spans)]
    shares: dict[Axis, float] = {}
    for axis in fixed:
        share = sum(s.share for s in out[axis] if s.kind == "fixed")
        own = [b for b in bounds if b.axis is axis]
        enough = tile[axis] > 1 and vectors // tile[axis] >= FEWEST_SUMS
        if len(fixed) > 1 and share <= FEW and enough and clippable(own):
            shares[axis] = share
    if shares:
        axis = min(shares, key=lambda a: shares[a])
        whole = Span(0, ceil_div(axis.points, tile[axis]), tile[axis], shares[axis], "points")
        out[axis] = [*(s for s in out[axis] if s.kind == "inside"), whole]
    for axis in fixed:
        bodies = 1
        for a, own_spans in out.items():
            own = [b for b in bounds if b.axis is a]
            bodies *= sum(len(segments(s, own, tile[a])[1]) for s in own_spans)
        if bodies > MOST_BODIES:
            out[axis] = checked(out[axis], axis.points, tile[axis])
    return out


def holds(b: Bound, span: Span, tile: int, point: int, tap: int) -> bool:
    """Whether a bound holds at a point of a fixed tile."""
    return b.slope * (span.first * tile + point) + b.step * tap + known(b.const) >= 0


def segments(
    span: Span, bounds: Sequence[Bound], tile: int
) -> tuple[Axis | None, list[tuple[int, int]]]:
    """The tap axis of a fixed tile, and its ranges of taps that use the same points.

    Taps that no point of the tile uses are in none. Without a tap axis there is one range.
    """
    taps = {b.tap for b in bounds if b.tap is not None}
    if span.kind != "fixed" or len(taps) != 1:
        return None, [(0, 1)]
    (axis,) = taps
    assert axis is not None
    out: list[tuple[int, int]] = []
    before = None
    for tap in range(axis.points):
        used = _points_used(bounds, span, tile, tap)
        if used and used == before:
            out[-1] = (out[-1][0], tap + 1)
        elif used:
            out.append((tap, tap + 1))
        before = used
    return axis, out


def _points_used(bounds: Sequence[Bound], span: Span, tile: int, tap: int) -> range:
    """The points of a fixed tile at which a tap is used: what `holds` says of all that skip."""
    low, high = 0, span.size
    for b in bounds:
        if b.skips:
            first, stop = solved(b.step * tap + known(b.const), b.slope)
            low = low if first is None else max(low, first - span.first * tile)
            high = high if stop is None else min(high, stop - span.first * tile)
    return range(low, high)


def clipped(bounds: Sequence[Bound], base: Expr, offset: Expr, extent: int) -> tuple[Expr, Expr]:
    """The range ``start <= i < stop`` of a tap's innermost loop in which its bounds hold.

    Args:
        bounds: bounds on this tap of tiles of one point.
        base: the tile's position.
        offset: where the loops above stand.
        extent: iterations of the loop.
    """
    start: Expr = const(0)
    stop: Expr = const(extent)
    for b in bounds:
        # slope * base + step * (offset + i) + const >= 0, solved for i
        rest = weighted_sum([(base, b.slope), (offset, b.step), (const(1), b.const)])
        first, end = solved(rest, b.step)
        start = start if first is None else binary("max", start, first)
        stop = stop if end is None else binary("min", stop, end)
    return start, stop
