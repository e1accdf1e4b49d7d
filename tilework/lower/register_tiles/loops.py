"""The loop variables of a reduction's nest, and what lowering has to know of its block."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.frozen import frozen
from tilework.index.extents import Extent, known, most, size, smaller
from tilework.index.symbols import certain
from tilework.lower.common import LoopSpec, bound, const, loop_var, var_or_zero, weighted_sum
from tilework.space.blocks import Block
from tilework.space.bounds import serial_taps, start
from tilework.space.capabilities import Bound, Dots
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, binary


@frozen(eq=False)
class Loops:
    """Loops of one reduction.

    Attributes:
        nest: their extents, for one row.
        vars: the variables by (axis, level of the axis's kind).
        tile: the extents by axis, outermost first; all but the outermost are known.
        serial_taps: reduce axes that are not expanded, because neighbours share what they read.
        dots: the neighbours of a reduce axis that are taken together, or None.
        neutral: what sums start from.
    """

    nest: BlockNest
    vars: dict[tuple[Axis, int], Axis]
    tile: dict[Axis, tuple[Extent, ...]]
    serial_taps: frozenset[Axis]
    dots: Dots | None
    neutral: float

    @staticmethod
    def of(nest: BlockNest) -> Loops:
        """The loops of a nest of one row."""
        block = nest.block
        tile = {a: nest.loops(a) for a in nest.tiles}
        names = {(a, lv): loop_var(f"{a.name}.{lv}", tile[a][lv]) for a, lv in block.loops}
        return Loops(nest, names, tile, serial_taps(block), block.dots, start(block))

    @property
    def block(self) -> Block:
        """What is computed."""
        return self.nest.block

    def points(self, axis: Axis) -> int:
        """Points of the register tile on a spatial axis."""
        return known(self.tile[axis][-1])

    def visits(self, bounds: Sequence[Bound]) -> bool:
        """Whether visits of a tile share taps of bounds: which ones it has, a run decides."""
        taps = [self.tile[b.tap] for b in bounds if b.tap is not None]
        return any(len(levels) > 1 and levels[0] != 1 for levels in taps)

    def stride(self, axis: Axis, level: int) -> int:
        """Points of the axis that one step of its loop at ``level`` advances."""
        out = 1
        for extent in self.tile[axis][level + 1 :]:
            out *= known(extent)
        return out

    def span(self, axis: Axis, level: int) -> Extent:
        """Points of the axis that its loops from ``level`` inwards cover, capped where they do."""
        return smaller(axis.extent, size(self.tile[axis][level:]))

    def offset(self, axis: Axis, first: int, last: int) -> Expr:
        """Position contributed by the loops ``first <= level < last``."""
        return weighted_sum(
            [(self.index(axis, lv), self.stride(axis, lv)) for lv in range(first, last)]
        )

    def index(self, axis: Axis, level: int) -> Expr:
        """The loop's variable, or 0 where the loop is dropped."""
        return var_or_zero(self.vars[axis, level])

    def steps(self, axis: Axis) -> Extent | Expr:
        """Steps of a reduce axis at its innermost level: its points, or groups of neighbours.

        Where a run decides how many points there are, the last visit may have fewer.
        """
        points, dots = self.tile[axis][-1], self.dots
        if axis.open and len(self.tile[axis]) > 1:
            left = binary("-", const(axis.extent), self.offset(axis, 0, len(self.tile[axis]) - 1))
            return bound(binary("min", left, const(points)))
        return points // dots.count if dots is not None and axis is dots.axis else points

    def overhang(self, axis: Axis) -> int:
        """The most points by which the tiles of an axis may reach over its end."""
        return most(size(self.tile[axis]) - axis.extent)

    def revisits(self) -> list[Axis]:
        """Reduce axes whose outer loops visit a register tile more than once, or may do so."""
        block = self.block

        def once(axis: Axis) -> bool:
            return certain(lambda: self.tile[axis][0] <= 1)

        return [a for a in block.reduce if block.reduce_levels > 1 and not once(a)]

    def loop(self, axis: Axis, level: int) -> LoopSpec:
        """The serial loop at ``level``, clipped where the tiles overhang the axis."""
        var = self.vars[axis, level]
        if axis in self.block.const_axes:
            return var, var.extent, "unroll"
        if level == 0 or self.overhang(axis) < self.stride(axis, level) or var.extent == 1:
            return var, var.extent, "serial"
        step = self.stride(axis, level)
        left = binary("-", const(axis.extent + step - 1), self.offset(axis, 0, level))
        return var, binary("min", const(var.extent), binary("//", left, const(step))), "serial"
