"""The innermost reduce level of a register tile: loops partly expanded and cut at borders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from tilework.lower.borders import (
    Span,
    checked,
    clippable,
    clipped,
    fewer,
    holds,
    segments,
    tile_spans,
)
from tilework.lower.common import ZERO, const, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.expansion import expansion_of_one, tile_vectors
from tilework.lower.ir import For, Stmt, seq
from tilework.lower.loops import Loops
from tilework.space.bounds import Bound, bounds, conjunction, serial_taps
from tilework.space.pairs import pair_axis
from tilework.te.expr import Axis, Compare, Const, Expr, binary, compare

Point = dict[Axis, Expr]


@dataclass(frozen=True, eq=False)
class Version:
    """One version of the register tile: which tiles it serves, and where those stand.

    Attributes:
        loops: the nest.
        spans: the tiles served, by spatial axis.
        base: position of the tile; a literal where it is known.
        rows: loops over the points of tiles that are computed row by row.
    """

    loops: Loops
    spans: dict[Axis, Span]
    base: dict[Axis, Expr]
    rows: dict[Axis, Axis] = field(default_factory=dict)

    @staticmethod
    def of(loops: Loops, spans: dict[Axis, Span], base: dict[Axis, Expr]) -> Version:
        """The version for some spans, of tiles at ``base``."""
        at, own, rows = dict(base), dict(spans), {}
        for axis, span in spans.items():
            tile = loops.tile[axis][-1]
            if span.kind == "fixed":
                at[axis] = const(span.first * tile)
            elif span.kind == "rows":
                rows[axis] = loop_var(f"{axis.name}.row", tile)
                at[axis] = binary("+", base[axis], rows[axis])
                own[axis] = replace(span, size=1, kind="clip")
        return Version(loops, own, at, rows)

    def wrap(self, body: Stmt, base: dict[Axis, Expr]) -> Stmt:
        """The tile's code in its loops over rows, if there are any."""
        for axis, var in self.rows.items():
            left = binary("-", const(axis.extent), base[axis])
            body = For(var, binary("min", const(var.extent), left), "serial", body)
        return body

    def inner(self, point: Point) -> Point:
        """Indices of the innermost spatial level for a point of the register tile."""
        return {a: binary("+", self.rows[a], i) if a in self.rows else i for a, i in point.items()}

    def size(self, axis: Axis) -> int:
        """Points of the tile on a spatial axis."""
        return self.spans[axis].size

    def bounds(self, kinds: Collection[str]) -> list[Bound]:
        """Bounds of the axes whose spans are of these kinds."""
        found = bounds(self.loops.nest.block)
        return [b for b in found if self.spans[b.axis].kind in kinds]

    def known(self) -> set[Compare]:
        """Comparisons that loads need not make: they hold, or what they guard is skipped."""
        fixed = [b for b in self.bounds(("fixed",)) if b.skips]
        return {b.node for b in (*self.bounds(("inside", "clip")), *fixed)}

    def used(self, point: Point, taps: Point) -> Expr | None:
        """Whether a tap of a point is computed, decided while code is generated; None: always."""
        out = []
        for b in self.bounds(("fixed",)):
            span, tile = self.spans[b.axis], self.loops.tile[b.axis][-1]
            tap = taps[b.tap] if b.tap is not None else ZERO
            if isinstance(tap, Const):
                possible = range(int(tap.value), int(tap.value) + 1)
            else:
                possible = range(b.tap.extent if b.tap is not None else 1)
            if b.skips and not all(
                holds(b, span, tile, j, t) for j in range(span.size) for t in possible
            ):
                out.append(_condition(b, [self.base[b.axis], point[b.axis]], [tap]))
        return conjunction(out)

    def tested(self, point: Point, taps: Point) -> Expr | None:
        """Whether a tap of a point counts, tested where it is computed; None: always."""
        return conjunction([
            _condition(
                b,
                [self.base[b.axis], point[b.axis]],
                [taps[b.tap], self.offset(b.tap)] if b.tap is not None else [],
            )
            for b in self.bounds(("checked",))
            if b.skips
        ])  # fmt: skip

    def room(self) -> float:
        """Part of the row's unroll limit that the version may use: all of it if it runs often.

        There may be many others; what runs seldom, or has many parts, is expanded less, but where
        taps are all there is to expand: reuse depends on it, and bodies stay short.
        """
        share = 1.0
        for span in self.spans.values():
            share *= span.share
        if not serial_taps(self.loops.nest.block):
            return 1.0
        parts = 1
        for found in self.segments().values():
            parts *= max(len(found), 1)
        return min(1.0, 2 * share / parts)

    def offset(self, axis: Axis) -> Expr:
        """Where the reduce loops above the innermost level stand."""
        top = self.loops.nest.block.reduce_levels - 1
        return self.loops.offset(axis, 0, top)

    def clips(self) -> dict[Axis, tuple[Expr, Expr]]:
        """Ranges of clipped loops by tap."""
        level = self.loops.nest.block.reduce_levels - 1
        own: dict[Axis, list[Bound]] = {}
        for b in self.bounds(("clip",)):
            assert b.tap is not None
            own.setdefault(b.tap, []).append(b)
        out: dict[Axis, tuple[Expr, Expr]] = {}
        for tap, found in own.items():
            extent = self.loops.vars[tap, level].extent
            out[tap] = clipped(found, self.base[found[0].axis], self.offset(tap), extent)
        return out

    def segments(self) -> dict[Axis, list[tuple[int, int]]]:
        """Ranges of taps that use the same points of a fixed tile, by tap."""
        out: dict[Axis, list[tuple[int, int]]] = {}
        for axis, span in self.spans.items():
            own = [b for b in self.bounds(("fixed",)) if b.axis is axis]
            tap, found = segments(span, own, self.loops.tile[axis][-1])
            if tap is not None:
                out[tap] = found
        return out


def _condition(b: Bound, position: Sequence[Expr], tap: Sequence[Expr]) -> Expr:
    terms = [(e, b.slope) for e in position] + [(e, b.step) for e in tap]
    return compare(">=", weighted_sum([*terms, (const(1), b.const)]), ZERO)


def spans_of(loops: Loops) -> dict[Axis, list[Span]]:
    """Spans of the register tile on every spatial axis."""
    block = loops.nest.block
    tile = {a: loops.tile[a][-1] for a in block.spatial}
    full = {a: min(tile[a], a.extent) for a in block.spatial}
    factors = _factors(loops, full, 1.0, frozenset(), frozenset())
    found = bounds(block)
    out: dict[Axis, list[Span]] = {}
    for axis in block.spatial:
        own = [b for b in found if b.axis is axis]
        taps = {b.tap for b in own}
        clip = "no"
        if tile[axis] == 1 and clippable(own):
            clip = "border" if any(factors[t] > 1 for t in taps if t is not None) else "all"
        out[axis] = tile_spans(axis, tile[axis], own, clip)
        cut = any(len(loops.tile[t]) > 1 and loops.tile[t][0] > 1 for t in taps if t is not None)
        if cut and not any(s.kind == "clip" for s in out[axis]):
            # the taps of one visit are not known where code is generated
            out[axis] = checked(out[axis], axis, tile[axis])
    vectors = vectors_of(loops, full) if serial_taps(block) else 0
    return fewer(out, tile, found, vectors)


def reduce_steps(version: Version, make: Callable[[Point, Point], Stmt]) -> Stmt:
    """Loops of the innermost reduce level around what ``make`` returns.

    Args:
        version: the tile.
        make: the updates of all points, given each reduce axis's index at the innermost level and
            the tap that stands for it in bounds: a literal where all taps of a loop use the same
            points. An axis that is taken in pairs is indexed by pair.
    """
    loops = version.loops
    block = loops.nest.block
    level = block.reduce_levels - 1
    clips, cut = version.clips(), version.segments()
    sizes = {a: s.size for a, s in version.spans.items()}
    factors = _factors(loops, sizes, version.room(), frozenset(cut), frozenset(clips))
    inner = {a: loop_var(f"{loops.vars[a, level].name}.u", factors[a]) for a in block.reduce}
    expanded = [(inner[a], inner[a].extent, "unroll") for a in block.reduce]

    def build(rest: Sequence[Axis], index: Point, taps: Point) -> Stmt:
        if not rest:
            return nest(expanded, make(index, taps))
        axis, after = rest[0], rest[1:]
        extent = _extent(loops, axis)
        outer = loop_var(loops.vars[axis, level].name, extent // factors[axis])
        if axis in clips:
            start, stop = clips[axis]
            at = var_or_zero(outer)
            body = build(after, {**index, axis: at}, {**taps, axis: at})
            return For(outer, stop, "serial", body, start)
        if axis in cut and factors[axis] < extent:
            parts = []
            for first, end in cut[axis]:
                at = outer if end - first > 1 else const(first)
                body = build(after, {**index, axis: at}, {**taps, axis: const(first)})
                parts.append(body if at is not outer else For(outer, end, "serial", body, first))
            return seq(*parts)
        at = weighted_sum([(var_or_zero(outer), factors[axis]), (var_or_zero(inner[axis]), 1)])
        body = build(after, {**index, axis: at}, {**taps, axis: at})
        return nest([(outer, outer.extent, "serial")], body)

    return build(block.reduce, {}, {})


def _factors(
    loops: Loops,
    sizes: dict[Axis, int],
    share: float,
    whole: Collection[Axis],
    clipped: Collection[Axis],
) -> dict[Axis, int]:
    """How far each innermost reduce loop is expanded within the row's unroll limit.

    All serial parts go outside all expanded parts: the expanded body is one basic block.

    Args:
        loops: the nest.
        sizes: the register tile.
        share: the part of the row's limit that this version may use.
        whole: axes that are expanded wholly or not at all.
        clipped: axes whose loops have ends that are computed; they are not expanded.
    """
    block = loops.nest.block
    most = int(share * int(loops.nest.unroll[0]))
    return expansion_of_one(
        {a: _extent(loops, a) for a in block.reduce},
        max(most // max(vectors_of(loops, sizes), 1), 1),
        always=block.const_axes,
        whole=whole,
        serial={*clipped, *serial_taps(block)},
    )


def _extent(loops: Loops, axis: Axis) -> int:
    """Steps of an axis at the innermost reduce level: its points, or pairs of them."""
    block = loops.nest.block
    points = loops.vars[axis, block.reduce_levels - 1].extent
    return points // 2 if axis is pair_axis(block) else points


def vectors_of(loops: Loops, sizes: dict[Axis, int]) -> int:
    """Vectors of a register tile, of the width that unroll limits are counted in."""
    return int(tile_vectors([sizes[a] for a in loops.nest.block.spatial]))
