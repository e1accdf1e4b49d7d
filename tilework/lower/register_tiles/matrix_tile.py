"""The register tile whose sums a matrix unit keeps; see `tilework.space.matrix_unit`.

After, where the unit takes 16 groups of 4 terms at a time::

    clear     for m: for n:                         acc[m, n] = 0
    for k2:
      multiply  for group: for m: for n:            acc[m, n] += a[..] * w[..]     4 terms
    store     for m: for n:                         sums[m, n] = acc[m, n]
    for m: for n:                                   out[m, n] = epilogue(sums[m, n])

``sums`` is memory of the thread, or where sums wait between two visits of the tile anyway, or the
output itself where there is no epilogue. What stands behind clear, load, multiply and store are
loops like those of any other tile, which say what the unit does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilework.index.extents import known
from tilework.lower.common import ZERO, LoopSpec, Point, const, load, loop_var, nest, var_or_zero
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.lower.ir import Action, Buffer, If, Matrix, Stmt, Store, seq
from tilework.lower.register_tiles.loops import Loops
from tilework.lower.register_tiles.partial import PartialSums
from tilework.lower.register_tiles.register_tile import RegisterTile
from tilework.space.blocks import Block
from tilework.space.matrix_unit import groups_at_once, in_unit
from tilework.te.expr import Axis, Const, Expr, binary, reads


def unit_sums(ctx: LoweringContext, loops: Loops, partial: PartialSums | None) -> Buffer | None:
    """Where a matrix unit puts the sums of a nest's register tiles.

    None if vector registers have to hold them.
    """
    block = loops.block
    if block.matrix is None or not _in_order(ctx, block):
        return None
    tile = [loops.points(a) for a in block.spatial]
    if not in_unit(block, [np.array([n]) for n in tile])[0]:
        return None
    if partial is not None:
        return partial.buffer
    if block.epilogue is None:
        return ctx.buffers[block.op]
    return ctx.temporary(f"{block.op.name}.sums", tile, block.op.dtype, "thread")


def _in_order(ctx: LoweringContext, block: Block) -> bool:
    """Whether weights are packed, and neighbours are neighbours in memory."""
    ops = {r.tensor.op for r in reads(block.source)}
    touched = (ctx.buffers[op] for op in (*ops, block.result) if op in ctx.buffers)
    return any(op in ctx.packed for op in ops) and all(b.strides[-1] == 1 for b in touched)


def matrix_tile(tile: RegisterTile, sums: Buffer) -> Stmt:
    """One visit of the tile; for ``sums`` see `unit_sums`."""
    return _MatrixTile.of(tile, sums).code()


@dataclass(frozen=True, eq=False)
class _MatrixTile:
    """A register tile in a matrix unit.

    Attributes:
        tile: the tile; its accumulators stand for the unit's registers.
        rows: the axes of which a tile has several points.
        sums: where they go.
        groups: of terms that an instruction takes.
    """

    tile: RegisterTile
    rows: tuple[Axis, ...]
    sums: Buffer
    groups: int

    @staticmethod
    def of(tile: RegisterTile, sums: Buffer) -> _MatrixTile:
        loops, block = tile.version.loops, tile.version.loops.block
        dots, unit = loops.dots, block.matrix
        assert dots is not None and unit is not None
        rows = tuple(a for a in block.spatial[:-1] if loops.points(a) > 1)
        groups = known(loops.tile[dots.axis][-1]) // dots.count
        return _MatrixTile(tile, rows, sums, groups_at_once(unit.instruction, groups, dots.count))

    def code(self) -> Stmt:
        """Sums begin, take the terms of a visit, and are stored behind their epilogue or kept."""
        return seq(self.tile.claim(), self._begin(), self._steps(), self._kept(), self._finish())

    def _begin(self) -> Stmt:
        tile, partial = self.tile, self.tile.partial
        neutral = Const(tile.acc.dtype, tile.version.loops.neutral)
        clear = self._done("clear", lambda point, _: tile.set(point, neutral))
        if partial is None or partial.first is None:
            return clear
        before = self._done("load", lambda at, _: tile.set(at, load(self.sums, self._place(at))))
        return If(partial.first, clear, before)

    def _steps(self) -> Stmt:
        """Loops over all terms of a visit, those of a group's axis innermost."""
        tile, loops = self.tile, self.tile.version.loops
        dots, level = loops.dots, loops.block.reduce_levels - 1
        assert dots is not None
        axes = sorted(loops.block.reduce, key=lambda a: a is dots.axis)
        steps = {a: known(loops.tile[a][-1]) for a in axes}
        steps[dots.axis] //= dots.count * self.groups
        vars_ = {a: loop_var(loops.vars[a, level].name, steps[a]) for a in axes}
        index: Point = {a: var_or_zero(v) for a, v in vars_.items()}

        def added(point: Point, group: Expr) -> Stmt:
            first = binary("*", index[dots.axis], const(self.groups))
            at = {**index, dots.axis: binary("+", first, group)}
            return tile.set(point, tile.addend.added(tile.sum(point), point, at))

        around = [(v, v.extent, "serial") for v in vars_.values()]
        return nest(around, self._done("multiply", added))

    def _kept(self) -> Stmt:
        tile, sums = self.tile, self.sums
        return self._done("store", lambda at, _: Store(sums, self._place(at), tile.sum(at)))

    def _finish(self) -> Stmt | None:
        tile, partial = self.tile, self.tile.partial
        block = tile.version.loops.block
        if partial is None and block.epilogue is None:
            return None
        if partial is not None and partial.written != "last":
            return None
        rows, column = self._points()
        point = self._point(rows, column)
        done = load(self.sums, self._place(point))
        store = store_result(tile.ctx, block, tile.version.at(point), done)
        each: list[LoopSpec] = [(v, v.extent, "serial") for v in rows]
        body = nest([*each, (column, column.extent, "vector")], store)
        if partial is None:
            return body
        assert partial.last is not None
        return If(partial.last, body)

    def _done(self, action: Action, make: Callable[[Point, Expr], Stmt]) -> Matrix:
        """What the unit does to all points."""
        unit = self.tile.version.loops.block.matrix
        assert unit is not None
        rows, column = self._points()
        group = loop_var("group", self.groups)
        body = make(self._point(rows, column), var_or_zero(group))
        around = [group] if action == "multiply" else []
        each: list[LoopSpec] = [(v, v.extent, "unroll") for v in (*around, *rows)]
        body = nest([*each, (column, column.extent, "vector")], body)
        return Matrix(action, unit.instruction, rows, column, group, body)

    def _points(self) -> tuple[tuple[Axis, ...], Axis]:
        """Variables over rows and columns of the tile."""
        version = self.tile.version
        last = version.loops.block.spatial[-1]
        rows = tuple(loop_var(f"{a.name}.t", version.size(a)) for a in self.rows)
        return rows, loop_var(f"{last.name}.t", version.size(last))

    def _point(self, rows: tuple[Axis, ...], column: Axis) -> Point:
        *others, last = self.tile.version.loops.block.spatial
        at = dict.fromkeys(others, ZERO) | dict(
            zip(self.rows, map(var_or_zero, rows), strict=True)
        )
        return {**at, last: var_or_zero(column)}

    def _place(self, point: Point) -> tuple[Expr, ...]:
        """Where a point's sum is in memory."""
        partial, version = self.tile.partial, self.tile.version
        if partial is not None:
            return partial.indices(version.at(point), version.inner(point))
        block = version.loops.block
        at = version.at(point) if block.epilogue is None else point
        return tuple(at[a] for a in block.spatial)
