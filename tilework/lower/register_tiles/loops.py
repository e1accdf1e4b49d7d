"""The loop variables of a reduction's nest, and what lowering has to know of its block."""

from __future__ import annotations

from dataclasses import dataclass

from tilework.lower.common import LoopSpec, const, loop_var, var_or_zero, weighted_sum
from tilework.space.blocks import Block
from tilework.space.bounds import serial_taps, start
from tilework.space.capabilities import Dots
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, binary


@dataclass(frozen=True, eq=False)
class Loops:
    """Loops of one reduction.

    Attributes:
        nest: their extents, for one row.
        vars: the variables by (axis, level of the axis's kind).
        tile: the extents by axis, outermost first.
        serial_taps: reduce axes that are not expanded, because neighbours share what they read.
        dots: the neighbours of a reduce axis that are taken together, or None.
        neutral: what sums start from.
    """

    nest: BlockNest
    vars: dict[tuple[Axis, int], Axis]
    tile: dict[Axis, tuple[int, ...]]
    serial_taps: frozenset[Axis]
    dots: Dots | None
    neutral: float

    @staticmethod
    def of(nest: BlockNest) -> Loops:
        """The loops of a nest of one row."""
        block = nest.block
        tile = {a: tuple(int(t[0]) for t in ts) for a, ts in nest.tiles.items()}
        names = {(a, lv): loop_var(f"{a.name}.{lv}", tile[a][lv]) for a, lv in block.loops}
        return Loops(nest, names, tile, serial_taps(block), block.dots, start(block))

    @property
    def block(self) -> Block:
        """What is computed."""
        return self.nest.block

    def stride(self, axis: Axis, level: int) -> int:
        """Points of the axis that one step of its loop at ``level`` advances."""
        out = 1
        for extent in self.tile[axis][level + 1 :]:
            out *= extent
        return out

    def offset(self, axis: Axis, first: int, last: int) -> Expr:
        """Position contributed by the loops ``first <= level < last``."""
        return weighted_sum(
            [(self.index(axis, lv), self.stride(axis, lv)) for lv in range(first, last)]
        )

    def index(self, axis: Axis, level: int) -> Expr:
        """The loop's variable, or 0 where the loop is dropped."""
        return var_or_zero(self.vars[axis, level])

    def steps(self, axis: Axis) -> int:
        """Steps of a reduce axis at its innermost level: its points, or groups of neighbours."""
        points = self.tile[axis][-1]
        dots = self.dots
        return points // dots.count if dots is not None and axis is dots.axis else points

    def revisits(self) -> list[Axis]:
        """Reduce axes whose outer loops visit a register tile more than once."""
        block = self.block
        return [a for a in block.reduce if block.reduce_levels > 1 and self.tile[a][0] > 1]

    def loop(self, axis: Axis, level: int) -> LoopSpec:
        """The serial loop at ``level``, clipped where the tiles overhang the axis."""
        var = self.vars[axis, level]
        covered = self.stride(axis, 0) * self.tile[axis][0]
        if axis in self.block.const_axes:
            return var, var.extent, "unroll"
        if level == 0 or covered - axis.extent < self.stride(axis, level) or var.extent == 1:
            return var, var.extent, "serial"
        step = self.stride(axis, level)
        left = binary("-", const(axis.extent + step - 1), self.offset(axis, 0, level))
        return var, binary("min", const(var.extent), binary("//", left, const(step))), "serial"
