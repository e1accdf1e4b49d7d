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

import numpy as np

from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.lower.common import (
    ZERO,
    Index,
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
from tilework.lower.ir import Action, Buffer, If, Matrix, Stmt, Store, seq
from tilework.lower.register_tiles.loops import Loops
from tilework.lower.register_tiles.partial import PartialSums
from tilework.lower.register_tiles.register_tile import RegisterTile
from tilework.space.blocks import Block
from tilework.space.matrix_unit import groups_of, in_unit
from tilework.space.tables import divisors
from tilework.te.expr import Axis, Const, Expr, binary, reads

_BESIDE = 8
"""Vectors of finished sums, at most, that an iteration treats."""


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
        return partial.buffer if block.scaled is None else None
    if block.epilogue is None and block.scaled is None:
        return ctx.buffers[block.op]
    return ctx.temporary(f"{block.op.name}.sums", tile, block.op.dtype, "thread")


def _in_order(ctx: LoweringContext, block: Block) -> bool:
    """Whether weights are packed, and neighbours are neighbours in memory."""
    ops = {r.tensor.op for r in reads(block.source)}
    touched = (ctx.buffers[op] for op in (*ops, block.result) if op in ctx.buffers)
    return any(op in ctx.packed for op in ops) and all(b.strides[-1] == 1 for b in touched)


def matrix_tile(tile: RegisterTile, sums: Buffer) -> Stmt:
    """One visit of the tile; for ``sums`` see `unit_sums`."""
    return MatrixTile.of(tile, sums).code()


@frozen(eq=False)
class MatrixTile:
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
    def of(tile: RegisterTile, sums: Buffer) -> MatrixTile:
        """A tile whose sums go to ``sums``."""
        loops, block = tile.version.loops, tile.version.loops.block
        dots, unit = loops.dots, block.matrix
        assert dots is not None and unit is not None
        rows = tuple(a for a in block.spatial[:-1] if loops.points(a) > 1)
        return MatrixTile(tile, rows, sums, int(groups_of(loops.nest)[0]))

    def code(self) -> Stmt:
        """Sums begin, take the terms of a visit, and are stored behind their epilogue or kept."""
        return seq(self.tile.claim(), self._begin(), self._steps(), self.kept(), self.finish())

    def _begin(self) -> Stmt:
        tile, partial = self.tile, self.tile.partial
        neutral = Const(tile.acc.dtype, tile.version.loops.neutral)
        clear = self.done("clear", lambda point, _: tile.set(point, neutral))
        if partial is None or partial.first is None:
            return clear
        before = self.done("load", lambda at, _: tile.set(at, load(self.sums, self.place(at))))
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
        index: Index = {a: var_or_zero(v) for a, v in vars_.items()}

        def added(point: Index, group: Expr) -> Stmt:
            first = binary("*", index[dots.axis], const(self.groups))
            at = {**index, dots.axis: binary("+", first, group)}
            return tile.set(point, tile.addend.added(tile.sum(point), point, at))

        around = [(v, v.extent, "serial") for v in vars_.values()]
        return nest(around, self.done("multiply", added))

    def kept(self) -> Stmt:
        """The unit's sums go to memory."""
        tile, sums = self.tile, self.sums
        return self.done("store", lambda at, _: Store(sums, self.place(at), tile.sum(at)))

    def finish(self) -> Stmt | None:
        """Finished sums are stored behind their epilogue."""
        tile, partial = self.tile, self.tile.partial
        block = tile.version.loops.block
        if self.sums is tile.ctx.buffers[block.result]:
            return None
        if partial is not None and partial.written != "last":
            return None
        rows, column = self.points()
        each, index = self._by_few(rows, column)
        point = self.point(rows, column) | index
        done = load(self.sums, self.place(point))
        store = store_result(tile.ctx, block, tile.version.at(point), done)
        body = nest([*each, (column, column.extent, "vector")], store)
        if partial is None:
            return body
        assert partial.last is not None
        return If(partial.last, body)

    def _by_few(self, rows: tuple[Axis, ...], column: Axis) -> tuple[list[LoopSpec], Index]:
        """Loops over the rows of a tile, a few at a time, so that vectors stand side by side."""
        each: list[LoopSpec] = [(v, v.extent, "serial") for v in rows]
        vectors = -(-known(column.extent) // max(self.tile.ctx.lanes, 1))
        few = max(n for n in divisors(known(rows[-1].extent)) if n * vectors <= _BESIDE or n == 1)
        if few == 1:
            return each, {}
        outer = loop_var(f"{rows[-1].name}.0", known(rows[-1].extent) // few)
        inner = loop_var(f"{rows[-1].name}.1", few)
        at = weighted_sum([(var_or_zero(outer), few), (var_or_zero(inner), 1)])
        each[-1:] = [(outer, outer.extent, "serial"), (inner, few, "unroll")]
        return each, {self.rows[-1]: at}

    def done(self, action: Action, make: Callable[[Index, Expr], Stmt]) -> Matrix:
        """What the unit does to all points."""
        unit = self.tile.version.loops.block.matrix
        assert unit is not None
        rows, column = self.points()
        group = loop_var("group", self.groups)
        body = make(self.point(rows, column), var_or_zero(group))
        around = [group] if action == "multiply" else []
        each: list[LoopSpec] = [(v, v.extent, "unroll") for v in (*around, *rows)]
        body = nest([*each, (column, column.extent, "vector")], body)
        return Matrix(action, unit.instruction, rows, column, group, body)

    def points(self) -> tuple[tuple[Axis, ...], Axis]:
        """Variables over rows and columns of the tile."""
        version = self.tile.version
        last = version.loops.block.spatial[-1]
        rows = tuple(loop_var(f"{a.name}.t", version.size(a)) for a in self.rows)
        return rows, loop_var(f"{last.name}.t", version.size(last))

    def point(self, rows: tuple[Axis, ...], column: Axis) -> Index:
        """A point of the tile, given `points`."""
        *others, last = self.tile.version.loops.block.spatial
        at = dict.fromkeys(others, ZERO) | dict(
            zip(self.rows, map(var_or_zero, rows), strict=True)
        )
        return {**at, last: var_or_zero(column)}

    def place(self, point: Index) -> tuple[Expr, ...]:
        """Where a point's sum is in memory."""
        tile, partial, version = self.tile, self.tile.partial, self.tile.version
        if partial is not None:
            return partial.indices(version.at(point), version.inner(point))
        block = version.loops.block
        at = version.at(point) if self.sums is tile.ctx.buffers[block.result] else point
        return tuple(at[a] for a in block.spatial)
