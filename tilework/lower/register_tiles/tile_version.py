"""Versions of a register tile: the same code for all tiles that stand alike to the border."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace

from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.lower.common import ZERO, Index, const, loop_var, weighted_sum
from tilework.lower.ir import For, Stmt
from tilework.lower.register_tiles.borders import Span, clipped, holds, segments
from tilework.lower.register_tiles.loops import Loops
from tilework.space.bounds import conjunction
from tilework.space.capabilities import Bound
from tilework.te.expr import Axis, Compare, Const, Expr, binary, compare


@frozen(eq=False)
class Version:
    """One version of the register tile: which tiles it serves, and where those stand.

    Attributes:
        loops: the nest.
        spans: the tiles served, by spatial axis.
        base: position of the tile; a literal where it is known.
        points: loops over the points of tiles that are computed point by point.
    """

    loops: Loops
    spans: dict[Axis, Span]
    base: dict[Axis, Expr]
    points: dict[Axis, Axis] = field(default_factory=dict)

    @staticmethod
    def of(loops: Loops, spans: dict[Axis, Span], base: dict[Axis, Expr]) -> Version:
        """The version for some spans, of tiles at ``base``."""
        at, own, points = dict(base), dict(spans), {}
        for axis, span in spans.items():
            tile = loops.points(axis)
            if span.off is not None:
                at[axis] = binary("+", base[axis], span.off)
            elif span.kind == "fixed":
                at[axis] = const(span.first * tile)
            elif span.kind == "points":
                points[axis] = loop_var(f"{axis.name}.row", tile)
                at[axis] = binary("+", base[axis], points[axis])
                own[axis] = replace(span, size=1, kind="clip")
        return Version(loops, own, at, points)

    def wrap(self, body: Stmt, base: dict[Axis, Expr]) -> Stmt:
        """The tile's code in its loops over points, if there are any."""
        for axis, var in self.points.items():
            left = binary("-", const(axis.extent), base[axis])
            body = For(var, binary("min", const(var.extent), left), "serial", body)
        return body

    def inner(self, point: Index) -> Index:
        """Index of the innermost spatial level for a point of the register tile."""
        begins: dict[Axis, Expr] = {a: s.off for a, s in self.spans.items() if s.off is not None}
        begins |= self.points
        return {a: binary("+", begins[a], i) if a in begins else i for a, i in point.items()}

    def at(self, point: Index) -> Index:
        """Position of a point of the register tile."""
        return {a: binary("+", self.base[a], point[a]) for a in self.loops.block.spatial}

    def size(self, axis: Axis) -> int:
        """Points of the tile on a spatial axis."""
        return self.spans[axis].size

    @property
    def rare(self) -> bool:
        """Whether it serves what a run may leave behind whole tiles, or on the border of them."""
        return any(
            a.open and s != Span(0, 1, self.loops.points(a), 1.0) for a, s in self.spans.items()
        )

    @property
    def active(self) -> Expr | None:
        """How many points of the vectors count; None if all do."""
        block = self.loops.block
        return self.spans[block.spatial[-1]].active if block.spatial else None

    def bounds(self, kinds: Collection[str]) -> list[Bound]:
        """Bounds of the axes whose spans are of these kinds."""
        bounds = self.loops.block.bounds
        return [b for b in bounds if self.spans[b.axis].kind in kinds]

    def _placed(self) -> list[Bound]:
        """Bounds of tiles at known positions that may fail there."""
        own = [b for b in self.bounds(("fixed",)) if self.spans[b.axis].near is None]
        return [*own, *(b for span in self.spans.values() for b in span.near or ())]

    def known(self) -> set[Compare]:
        """Comparisons that loads need not make: they hold, or what they guard is skipped."""
        fixed = [b for b in self.bounds(("fixed",)) if b.skips]
        return {b.node for b in (*self.bounds(("inside", "clip")), *fixed)}

    def used(self, point: Index, taps: Index) -> Expr | None:
        """Whether a tap of a point is computed, decided while code is generated; None: always."""
        out = []
        for b in self._placed():
            span, tile = self.spans[b.axis], self.loops.points(b.axis)
            tap = taps[b.tap] if b.tap is not None else ZERO
            if isinstance(tap, Const):
                possible = range(known(tap.whole), known(tap.whole) + 1)
            else:
                possible = range(b.tap.points if b.tap is not None else 1)
            if b.skips and not all(
                holds(b, span, tile, j, t) for j in range(span.size) for t in possible
            ):
                begin = self.base[b.axis] if span.near is None else ZERO
                out.append(_condition(b, [begin, point[b.axis]], [tap]))
        return conjunction(out)

    def tested(self, point: Index, taps: Index) -> Expr | None:
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
        if not self.loops.serial_taps:
            return 1.0
        parts = 1
        for pieces in self.segments().values():
            parts *= max(len(pieces), 1)
        return min(1.0, 2 * share / parts)

    def offset(self, axis: Axis) -> Expr:
        """Where the reduce loops above the innermost level stand."""
        top = self.loops.block.reduce_levels - 1
        return self.loops.offset(axis, 0, top)

    def clips(self) -> dict[Axis, tuple[Expr, Expr]]:
        """Ranges of clipped loops by tap."""
        level = self.loops.block.reduce_levels - 1
        own: dict[Axis, list[Bound]] = {}
        for b in self.bounds(("clip",)):
            assert b.tap is not None
            own.setdefault(b.tap, []).append(b)
        out: dict[Axis, tuple[Expr, Expr]] = {}
        for tap, bounds in own.items():
            extent = self.loops.vars[tap, level].points
            out[tap] = clipped(bounds, self.base[bounds[0].axis], self.offset(tap), extent)
        return out

    def segments(self) -> dict[Axis, list[tuple[int, int]]]:
        """Ranges of taps that use the same points of a fixed tile, by tap."""
        out: dict[Axis, list[tuple[int, int]]] = {}
        for axis, span in self.spans.items():
            own = [b for b in self._placed() if b.axis is axis]
            tap, pieces = segments(span, own, self.loops.points(axis))
            if tap is not None:
                out[tap] = pieces
        return out


def _condition(b: Bound, position: Sequence[Expr], tap: Sequence[Expr]) -> Expr:
    terms = [(e, b.slope) for e in position] + [(e, b.step) for e in tap]
    return compare(">=", weighted_sum([*terms, (const(1), b.const)]), ZERO)
