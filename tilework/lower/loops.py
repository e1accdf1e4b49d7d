"""The loop variables of a reduction's nest."""

from __future__ import annotations

from dataclasses import dataclass

from tilework.lower.common import LoopSpec, const, var_or_zero, weighted_sum
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, binary


@dataclass
class Loops:
    """Loop variables of the nest by (axis, level), and tile sizes."""

    nest: BlockNest
    vars: dict[tuple[Axis, int], Axis]
    tile: dict[Axis, tuple[int, ...]]

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

    def loop(self, axis: Axis, level: int) -> LoopSpec:
        """The serial loop at ``level``, clipped where the tiles overhang the axis."""
        var = self.vars[axis, level]
        covered = self.stride(axis, 0) * self.tile[axis][0]
        if axis in self.nest.block.const_axes:
            return var, var.extent, "unroll"
        if level == 0 or covered - axis.extent < self.stride(axis, level) or var.extent == 1:
            return var, var.extent, "serial"
        step = self.stride(axis, level)
        left = binary("-", const(axis.extent + step - 1), self.offset(axis, 0, level))
        return var, binary("min", const(var.extent), binary("//", left, const(step))), "serial"
