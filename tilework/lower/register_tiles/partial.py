"""Sums that wait in memory: between visits of a register tile, or until a whole tile is written.

Where the outermost reduce loop has more than one iteration, a register tile is visited by each::

    R0:  S2:  acc = first R0 ? 0 : partial[S2, S3]
              R1:  acc += ...
              last R0 ? out[S3] = epilogue(acc) : partial[S2, S3] = acc

The partial sums lie in the output itself where nothing but them is stored there. A schedule may
keep finished sums, too, and write the tile of many register tiles in one go (a late write).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tilework.frozen import frozen
from tilework.index.extents import size
from tilework.lower.common import (
    ZERO,
    LoopSpec,
    const,
    load,
    loop_var,
    nest,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.lower.ir import Buffer, If, Stmt
from tilework.lower.register_tiles.borders import Span
from tilework.lower.register_tiles.loops import Loops
from tilework.lower.register_tiles.tails import dispatch, served_by
from tilework.space.bounds import conjunction
from tilework.te.expr import Axis, Expr, binary, compare


@frozen(eq=False)
class PartialSums:
    """Where the sums of a nest's register tiles wait.

    Attributes:
        loops: the nest.
        buffer: what holds them.
        written: when a register tile stores its results: on every ``visit`` (the sums wait in the
            output), on the ``last`` one, or not at all, for they are written ``late``.
        first, last: whether this is the first or the last visit; None if there is only one.
    """

    loops: Loops
    buffer: Buffer
    written: Literal["visit", "last", "late"]
    first: Expr | None
    last: Expr | None

    @staticmethod
    def of(ctx: LoweringContext, loops: Loops) -> PartialSums | None:
        """Where sums wait in a nest; None if its register tiles are visited once and written."""
        block, revisits = loops.block, loops.revisits()
        if not revisits and not block.write_level:
            return None
        first = conjunction([compare("==", loops.index(a, 0), const(0)) for a in revisits])
        last = conjunction(
            [compare("==", loops.index(a, 0), const(loops.tile[a][0] - 1)) for a in revisits]
        )
        if not block.write_level and block.sums == "output" and block.epilogue is None:
            return PartialSums(loops, ctx.buffers[block.op], "visit", first, last)
        held = block.write_level or block.levels.visited
        shape = [size(loops.tile[a][held:]) for a in block.spatial]
        buffer = ctx.temporary(f"{block.op.name}.partial", shape, block.op.dtype, "thread")
        written: Literal["last", "late"] = "late" if block.write_level else "last"
        return PartialSums(loops, buffer, written, first, last)

    def indices(self, at: Mapping[Axis, Expr], inner: Mapping[Axis, Expr]) -> tuple[Expr, ...]:
        """Where the sum of a point waits.

        Args:
            at: the point's position, by spatial axis.
            inner: its index at the innermost spatial level.
        """
        block = self.loops.block
        if self.written == "visit":
            return tuple(at[a] for a in block.spatial)
        held, top = block.write_level or block.levels.visited, block.spatial_levels - 1
        return tuple(binary("+", self.loops.offset(a, held, top), inner[a]) for a in block.spatial)


def write_late(ctx: LoweringContext, partial: PartialSums) -> Stmt:
    """Write the finished tile that lies inside the nest's ``write_level`` spatial levels."""
    loops = partial.loops
    block, level = loops.block, loops.block.write_level
    last = block.spatial[-1]
    tile = loops.points(last)
    around: list[LoopSpec] = []
    local: dict[Axis, Expr] = {}
    for axis in block.spatial:
        step = tile if axis is last else 1
        extent = loops.stride(axis, level - 1) // step
        var = loop_var(f"{axis.name}.w", extent)
        if loops.overhang(axis) == 0:
            around.append((var, extent, "serial"))
            local[axis] = weighted_sum([(var_or_zero(var), step)])
        else:
            left = binary("-", const(axis.extent + step - 1), loops.offset(axis, 0, level))
            inside = binary("min", const(extent), binary("//", left, const(step)))
            around.append((var, inside, "serial"))
            local[axis] = weighted_sum([(var, step)])
    base = {a: binary("+", loops.offset(a, 0, level), local[a]) for a in block.spatial}

    def write(spans: dict[Axis, Span]) -> Stmt:
        lane, span = loop_var(f"{last.name}.v", spans[last].size), spans[last]
        point = {last: var_or_zero(lane)}
        if span.off is not None:
            point[last] = binary("+", span.off, point[last])
        at = {a: binary("+", base[a], point.get(a, ZERO)) for a in block.spatial}
        where = [binary("+", local[a], point.get(a, ZERO)) for a in block.spatial]
        store = store_result(ctx, block, at, load(partial.buffer, where))
        return nest([(lane, lane.extent, "vector")], store, span.active)

    served = served_by([last], {last: tile}, {}, ctx.lanes)
    return nest(around, dispatch([last], base, {last: tile}, served, write))


def held_sums(ctx: LoweringContext, loops: Loops, partial: PartialSums | None) -> Buffer | None:
    """Where sums of versions of a register tile that run rarely wait for their epilogue.

    There are many of these versions, and an epilogue for each vector of each of them would be
    most of a kernel's code. None where they have none, or store what they make themselves.
    """
    block = loops.block
    if block.epilogue_body is None or block.matrix is not None:
        return None
    if partial is not None and partial.written != "visit":
        return partial.buffer if partial.written == "last" else None
    shape = [loops.points(a) for a in block.spatial]
    return ctx.shared(f"{block.op.name}.held", shape, block.op.dtype)


def write_held(
    ctx: LoweringContext, loops: Loops, partial: PartialSums | None, base: Mapping[Axis, Expr]
) -> Stmt | None:
    """Write the points that a register tile has of those that it may have, row by row."""
    held, block = held_sums(ctx, loops, partial), loops.block
    if held is None:
        return None
    *outer, last = block.spatial
    around: list[LoopSpec] = []
    row: dict[Axis, Expr] = {}
    for axis in outer:
        var = loop_var(f"{axis.name}.t", loops.points(axis))
        left = binary("-", const(axis.extent), base[axis])
        whole = var.extent == 1 or loops.overhang(axis) == 0
        around.append(
            (var, var.extent if whole else binary("min", const(var.extent), left), "serial")
        )
        row[axis] = var_or_zero(var)

    def write(spans: dict[Axis, Span]) -> Stmt:
        span = spans[last]
        lane = loop_var(f"{last.name}.t", span.size)
        column = var_or_zero(lane)
        inner = {**row, last: column if span.off is None else binary("+", span.off, column)}
        at = {a: binary("+", base[a], inner[a]) for a in block.spatial}
        where = tuple(inner.values()) if partial is None else partial.indices(at, inner)
        store = store_result(ctx, block, at, load(held, where))
        return nest([(lane, lane.extent, "vector")], store, span.active)

    tile = {last: loops.points(last)}
    served = served_by([last], tile, {}, ctx.lanes)
    out = nest(around, dispatch([last], base, tile, served, write))
    return out if partial is None or partial.last is None else If(partial.last, out)
