"""The last tile of an axis whose extent a run decides: what is left behind the whole ones.

Before, where every tile is whole::

    for x.0 in 12:  acc[0:8] += ...

After, where S points are cut into tiles of 8, as a *switch* among versions of every size::

    for x.0 in (S + 7) // 8:
      if S - 8*x.0 >= 8:  acc[0:8] += ...
      else:               rest = S - 8*x.0:  rest < 4 ?  .. 1, 2, 3 points  :  .. 4, 5, 6, 7 points

or in *halves* of 4, 2, and 1 points at an offset, as many of them as the rest has; or point by
point (*points*). An axis of vectors has as many whole *vectors* as its rest needs, of which the
last one counts in part; or one version of the whole tile, of which as many points count as are
left (*masked*). Machines without masked vectors take halves.

No element is computed twice: sums may wait in the output between two visits, and outputs may take
the place of inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from tilework.frozen import frozen
from tilework.index.extents import ceil_div
from tilework.index.symbols import certain
from tilework.lower.common import ZERO, const, loop_var
from tilework.lower.ir import For, If, Let, Stmt, seq
from tilework.lower.register_tiles.borders import (
    MOST_BODIES,
    Span,
    end_points,
    inner_points,
    near_begin,
    near_end,
    tile_spans,
)
from tilework.space.bounds import conjunction
from tilework.space.capabilities import Bound
from tilework.te.affine import linear
from tilework.te.expr import Axis, Expr, Read, Select, binary, compare, walk

How = Literal["ends", "switch", "halves", "points", "vectors", "masked"]
_CHEAPER: dict[How, How] = {
    "ends": "halves",
    "switch": "halves",
    "vectors": "masked",
    "halves": "points",
}
"""What takes fewer versions, in the order in which it is given up."""
MOST_BORDERED = 14
"""Versions where some axes have bounds at positions that a run decides: a border is rarely met."""
_MOST_COLLECTED = 1600
"""Elements that all versions together may read one by one, each of which is an instruction."""


@frozen(eq=False)
class Tail:
    """What computes the tiles of one axis.

    Attributes:
        axis: the axis.
        tile: points of a whole tile.
        how: what computes the last one, if it is shorter.
        lanes: points of a vector, of ``vectors`` and ``masked``.
        bounds: the axis's bounds. Points at which one may not hold are computed one by one, and
            what is left of their tile in halves; of ``halves`` the first tile is one by itself,
            of ``ends`` the last one as well, or several points at its end together.
        beside: how, of tiles that are on the border of an axis before; None: no other way.
    """

    axis: Axis
    tile: int
    how: How
    lanes: int = 1
    bounds: tuple[Bound, ...] = ()
    beside: How | None = None

    @property
    def bodies(self) -> int:
        """Versions of the code, the whole tile's among them."""
        if self.bounds:
            known = {"halves": 1, "ends": 2 + (1 < self.edge < self.tile)}.get(self.how, 0)
            return 1 + max(1, (self.tile - 1).bit_length()) + (known if self.tile > 1 else 0)
        if self.tile == 1:
            return 1
        match self.how:
            case "switch":
                return self.tile
            case "halves":
                return self.tile.bit_length() + bool(self.tile & (self.tile - 1))
            case "vectors":
                return 1 + -(-self.tile // self.lanes)
        return 2

    @property
    def edge(self) -> int:
        """Points at the axis's end at which bounds may not hold, in every run that has any."""
        return end_points(self.axis, self.bounds)

    @property
    def whole(self) -> bool:
        """Whether all tiles are whole and none is on a border."""
        return not self.bounds and (self.tile == 1 or self.axis.extent % self.tile == 0)

    def code(self, base: Expr, inner: Callable[[Span], Stmt], after: Stmt | None = None) -> Stmt:
        """All tiles of the axis.

        Args:
            base: position of a tile.
            inner: the code of a span.
            after: what comes behind all parts of a tile that is not whole.
        """
        extent, tile = self.axis.extent, self.tile
        if self.bounds:
            return self._bordered(base, inner, after)
        if self.whole:
            return inner(Span(0, 1, tile, 1.0))
        rest = loop_var(f"{self.axis.name}.rest", tile)
        left = binary("-", const(extent), base)
        part = seq(Let(rest, left, self._rest(rest, inner)), after)
        if certain(lambda: extent < tile):
            return part
        return If(compare(">=", left, const(tile)), inner(Span(0, 1, tile, 1.0)), part)

    def _rest(self, rest: Axis, inner: Callable[[Span], Stmt]) -> Stmt:
        """The code of ``1 <= rest < tile`` points."""
        tile, lanes = self.tile, self.lanes

        def of(size: int, off: Expr | None = None, active: Expr | None = None) -> Stmt:
            return inner(Span(0, 1, size, 1.0, off=off, active=active))

        match self.how:
            case "masked":
                return of(tile, active=rest)
            case "vectors":
                sizes = [*range(lanes, tile, lanes), tile]
                return _chosen(rest, sizes, lambda n: of(n, active=rest))
            case "switch":
                return _chosen(rest, range(1, tile), of)
            case "points":
                off = loop_var(f"{self.axis.name}.off", tile)
                return For(off, rest, "serial", of(1, off=off))
        return self._halves(ZERO, rest, inner)

    def _halves(self, first: Expr, count: Expr, inner: Callable[[Span], Stmt]) -> Stmt:
        """The code of ``count`` points from one on, fewer than a tile has."""
        parts = []
        sizes = [
            2**n for n in range(bool(self.bounds), self.tile.bit_length()) if 2**n < self.tile
        ]
        for size in reversed(sizes):
            pair = const(2 * size)
            start = binary("+", first, binary("*", binary("//", count, pair), pair))
            has = compare(">=", binary("%", count, pair), const(size))
            off = loop_var(f"{self.axis.name}.off", self.tile)
            parts.append(If(has, Let(off, start, inner(Span(0, 1, size, 1.0, off=off)))))
        return seq(*parts)

    def _bordered(self, base: Expr, inner: Callable[[Span], Stmt], after_all: Stmt | None) -> Stmt:
        """All tiles of an axis with bounds."""
        axis, tile = self.axis, self.tile
        begin, end = inner_points(axis.extent, self.bounds)
        after = binary("+", base, const(tile))
        is_inside = _all([compare(">=", base, begin), compare("<=", after, end)])
        whole = inner(Span(0, 1, tile, 1.0))
        if tile == 1:
            return If(is_inside, whole, seq(inner(Span(0, 1, 1, 1.0, "clip")), after_all))
        others = self._one_by_one(base, begin, end, inner)
        if self.how == "ends":
            near, runs = near_end(axis.extent, tile, self.bounds)
            here = [compare(">=", base, begin), compare("==", after, const(axis.extent)), *runs]
            last = inner(Span(0, 1, tile, 1.0, "fixed", off=ZERO, near=near))
            others = If(_all(here), last, others)
        if self.how in ("halves", "ends"):
            others = self._first(base, end, inner, others)
        return If(is_inside, whole, seq(others, after_all))

    def _first(self, base: Expr, end: Expr, inner: Callable[[Span], Stmt], others: Stmt) -> Stmt:
        """The first tile, where it reaches over no other end; else ``others``."""
        near = near_begin(self.bounds)
        if not near:
            return others
        here = [compare("==", base, ZERO), compare("<=", const(self.tile), end)]
        span = Span(0, 1, self.tile, 1.0, "fixed", near=near)
        return If(_all(here), inner(span), others)

    def _one_by_one(
        self, base: Expr, begin: Expr, end: Expr, inner: Callable[[Span], Stmt]
    ) -> Stmt:
        """Points at which bounds may fail one after another, and others of the tile in halves.

        Of an odd number of others one goes with the former, whose code is good for it.
        """
        axis, tile = self.axis, self.tile
        names = (f"{axis.name}.{what}" for what in ("points", "first", "inside", "edge", "off"))
        points, first, count, edge, off = (loop_var(name, tile + 1) for name in names)
        left = binary("min", const(tile), binary("-", const(axis.extent), base))
        low = binary("min", points, binary("max", ZERO, binary("-", begin, base)))
        high = binary("min", points, binary("-", end, base))
        pairs = binary("*", binary("//", count, const(2)), const(2)) if tile > 2 else ZERO
        skipped = Select("int32", compare("<", edge, first), ZERO, pairs)
        one = Let(off, binary("+", edge, skipped), inner(Span(0, 1, 1, 1.0, "clip", off=off)))
        single = binary("-", points, pairs)
        alone, last = single, None
        if self.how == "ends" and 1 < self.edge < tile:
            size = const(self.edge)
            near, runs = near_end(axis.extent, self.edge, self.bounds)
            behind = compare("==", binary("-", binary("-", points, count), first), size)
            together = _all([behind, *runs])
            alone = Select("int32", together, binary("-", single, size), single)
            at_end = inner(Span(0, 1, self.edge, 1.0, "fixed", off=off, near=near))
            last = If(together, Let(off, binary("-", points, size), at_end))
        part = seq(self._halves(first, count, inner), For(edge, alone, "serial", one), last)
        part = Let(count, binary("max", ZERO, binary("-", high, first)), part)
        return Let(points, left, Let(first, low, part))


def _whole(tile: int) -> Span:
    """What serves whole tiles."""
    return Span(0, 1, tile, 1.0)


def _all(conditions: Sequence[Expr]) -> Expr:
    joined = conjunction(conditions)
    assert joined is not None
    return joined


def _chosen(rest: Expr, sizes: Sequence[int], of: Callable[[int], Stmt]) -> Stmt:
    """The code of the first of rising sizes that a rest does not pass, found by halving."""
    if len(sizes) == 1:
        return of(sizes[0])
    middle = len(sizes) // 2
    few, many = _chosen(rest, sizes[:middle], of), _chosen(rest, sizes[middle:], of)
    return If(compare("<=", rest, const(sizes[middle - 1])), few, many)


def served_by(
    axes: Sequence[Axis],
    tile: Mapping[Axis, int],
    spans: Mapping[Axis, Sequence[Span]],
    lanes: int,
    source: Expr | None = None,
    bounds: Sequence[Bound] = (),
    visits: Callable[[Sequence[Bound]], bool] = lambda _: False,
) -> dict[Axis, Sequence[Span] | Tail]:
    """What serves the tiles of each axis: spans, or a tail where a run decides the extent.

    Together of so many versions that code stays short: the axis with the rarest tail takes the
    cheaper way first.

    Args:
        axes: spatial axes, the one of vectors last.
        tile: points of the register tile.
        spans: those of axes whose bounds are known; others are cut into tiles.
        lanes: points of a vector that may be masked; 0 where none may.
        source: what a tile reads from, at each point.
        bounds: of the block.
        visits: whether several visits of a tile share the taps of some bounds.
    """
    known = {
        a: spans[a] if a in spans else tile_spans(a.extent, tile[a])
        for a in axes
        if isinstance(a.extent, int)
    }
    others = math.prod(map(len, known.values()))
    most = MOST_BORDERED if any(b.axis.open for b in bounds) else MOST_BODIES
    if source is not None and axes:
        collected = _collected(source, axes[-1]) * math.prod(tile[a] for a in axes)
        most = min(most, _MOST_COLLECTED // max(collected, 1))
    return {**known, **_tails(axes, tile, lanes, most / others, bounds, visits)}


def _collected(source: Expr, last: Axis) -> int:
    """How many tensors are read where data say, at another place for each lane."""
    reads = [n for n in walk(source) if isinstance(n, Read)]
    return sum(any(last in walk(i) and linear(i) is None for i in r.indices) for r in reads)


def _tails(
    axes: Sequence[Axis],
    tile: Mapping[Axis, int],
    lanes: int,
    most: float,
    bounds: Sequence[Bound],
    visits: Callable[[Sequence[Bound]], bool],
) -> dict[Axis, Tail]:
    out: dict[Axis, Tail] = {}
    cut = [a for a in axes[:-1] if a.open and tile[a] > 1]
    for axis in axes:
        if not axis.open:
            continue
        size, own = tile[axis], tuple([b for b in bounds if b.axis is axis])
        if own:
            how: How = "ends" if end_points(axis, own) else "halves"
            if visits(own):  # no version is of taps that are known where code is generated
                how = "points"
            out[axis] = Tail(axis, size, how, bounds=own)
        elif axis is not axes[-1]:
            out[axis] = Tail(axis, size, "switch" if len(cut) == 1 or size < 4 else "halves")
        elif lanes:
            out[axis] = Tail(axis, size, "vectors" if 1 < lanes < size else "masked", lanes)
        else:
            out[axis] = Tail(axis, size, "halves")
    by_rarity = sorted(out, key=lambda a: a.most / tile[a], reverse=True)
    while _bodies(out) > most:
        ways = ((how, a) for how in _CHEAPER for a in by_rarity)
        longest = next((a for how, a in ways if out[a].how == how and out[a].bodies > 2), None)
        if longest is None:
            break
        tail, first = out[longest], longest is next(iter(out))
        if tail.how == "ends" and tail.beside is None and not first:
            out[longest] = replace(tail, beside="halves")
        else:
            out[longest] = replace(tail, how=_CHEAPER[tail.how], beside=None)
    return out


def _bodies(tails: Mapping[Axis, Tail]) -> int:
    """Versions of all axes together, in their order."""
    border = 0
    for tail in tails.values():
        beside = replace(tail, how=tail.beside or tail.how)
        border = border * beside.bodies + tail.bodies - 1
    return 1 + border


def dispatch(
    axes: Sequence[Axis],
    base: Mapping[Axis, Expr],
    tile: Mapping[Axis, int],
    served: Mapping[Axis, Sequence[Span] | Tail],
    inner: Callable[[dict[Axis, Span]], Stmt],
    after: Stmt | None = None,
) -> Stmt:
    """Versions of the innermost tile for all combinations of spans, chosen by position.

    ``after`` is what comes behind all parts of a tile in which axes with tails end.
    """

    def build(i: int, chosen: dict[Axis, Span], after: Stmt | None) -> Stmt:
        if i == len(axes):
            return inner(dict(chosen))
        axis, here = axes[i], served[axes[i]]
        if isinstance(here, Tail):
            if here.beside and any(chosen[a] != _whole(tile[a]) for a in axes[:i] if a.open):
                here = replace(here, how=here.beside)

            def own(span: Span) -> Stmt:
                rest = after if span == _whole(tile[axis]) else None
                return build(i + 1, {**chosen, axis: span}, rest)

            return here.code(base[axis], own, after)
        count = ceil_div(axis.points, tile[axis])
        *tested, last = here
        out = build(i + 1, {**chosen, axis: last}, after)
        for span in reversed(tested):
            where = []
            if span.first > 0:
                where.append(compare(">=", base[axis], const(span.first * tile[axis])))
            if span.stop < count:
                where.append(compare("<", base[axis], const(span.stop * tile[axis])))
            cond = conjunction(where)
            chosen_here = build(i + 1, {**chosen, axis: span}, after)
            out = chosen_here if cond is None else If(cond, chosen_here, out)
        return out

    return build(0, {}, after)
