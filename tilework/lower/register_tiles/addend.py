"""What one step of a reduction adds to the sum of a point.

Before::

    C[y, f] += pad[y, k] * W[k, f]

After, where ``pad`` is computed inside the nest and ``W`` is stored in reading order::

    acc[y, f] += pad.tile[y - start, k] * W.packed[.., k, f]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tilework.frozen import frozen
from tilework.lower.common import COMBINE, Index, bind, const, load, weighted_sum
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Dot, Load
from tilework.lower.register_tiles.tile_version import Version
from tilework.space.instructions import Bounded
from tilework.space.packings import Packed
from tilework.te.expr import Axis, Expr, Read, Reduce, binary
from tilework.te.tensor import Operation


class Region(Protocol):
    """A buffer of what is computed inside the nest."""

    def read(self, read: Read, point: dict[Axis, Expr], reduce_point: dict[Axis, Expr]) -> Expr:
        """The element for a point of the register tile and of the reduction."""
        ...


@frozen(eq=False)
class Addend:
    """The terms of a reduction in one version of its register tile.

    Attributes:
        ctx: the program's context.
        version: the version.
        regions: buffers of the producers computed inside the nest, by what they compute.
        reduction: the reduction, for how terms are combined.
        source: what is reduced, without the conditions that hold throughout the version.
    """

    ctx: LoweringContext
    version: Version
    regions: Mapping[Operation, Region]
    reduction: Reduce
    source: Expr

    def added(self, before: Expr, point: Index, index: Index) -> Expr:
        """``before`` with the next term; of an axis that is taken in groups, with all of one.

        Args:
            before: the sum so far.
            point: the point of the register tile, by spatial axis.
            index: the step of the innermost reduce level, by reduce axis.
        """
        dots = self.version.loops.dots
        if dots is None:
            return self.combined(before, self.term(point, index))
        terms = (self._term(point, index, number) for number in range(dots.count))
        factors = [f for f in map(dots.instruction.factors, terms) if f is not None]
        left, right = zip(*(map(self._packed, f) for f in factors), strict=True)
        return Dot.of(dots.instruction, before, left, right)

    def _packed(self, factor: Expr) -> Expr:
        """A factor; of a weight that is packed into its range, the weight."""
        bounded = Bounded.of(factor)
        inner = factor if bounded is None else bounded.a
        packed = {self.ctx.buffers[op] for op in self.ctx.packed}
        return inner if isinstance(inner, Load) and inner.buffer in packed else factor

    def term(self, point: Index, index: Index, number: int = 0) -> Expr:
        """The next term alone, of a group the one of that number; else as `added`."""
        return self._term(point, index, number)

    def combined(self, a: Expr, b: Expr) -> Expr:
        """Two sums, or a sum and a term, as one."""
        return binary(COMBINE[self.reduction.kind], a, b)

    def _term(self, point: Index, index: Index, number: int) -> Expr:
        """The term of a step; of a group, the one of that number."""
        version, dots = self.version, self.version.loops.dots
        step = {
            a: i
            if dots is None or a is not dots.axis
            else weighted_sum([(i, dots.count), (const(number), 1)])
            for a, i in index.items()
        }
        at = version.at(point) | {
            a: binary("+", version.offset(a), step[a]) for a in self.reduction.axes
        }
        inner = version.inner(point)

        def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
            if op in self.regions:
                return self.regions[op].read(read, inner, step)
            if op in self.ctx.packed:
                packed = self.ctx.packed[op]
                where = [indices[d] for d in packed.outer]
                where += self._packed_at(packed, inner, index, number)
                return load(self.ctx.buffers[op], where)
            return load(self.ctx.buffers[op], indices)

        return bind(self.source, at, resolve)

    def _packed_at(self, packed: Packed, inner: Index, index: Index, number: int) -> list[Expr]:
        """The position in a packed weight, by the loops that read it, in order."""
        loops = self.version.loops
        last = {"spatial": loops.block.spatial_levels - 1, "reduce": loops.block.reduce_levels - 1}

        def position(axis: Axis, level: int) -> Expr:
            if level < last[axis.kind]:
                return loops.index(axis, level)
            if level > last[axis.kind]:  # inside the innermost loop: the elements of a group
                return const(number)
            return index[axis] if axis.kind == "reduce" else inner[axis]

        return [position(axis, level) for axis, level in packed.loops]
