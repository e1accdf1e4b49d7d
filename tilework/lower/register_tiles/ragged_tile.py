"""The register tile of a sum of as many terms as data say; see `tilework.lower.ragged`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilework.lower.common import ZERO, Index, bind, const, load
from tilework.lower.ir import Stmt, seq
from tilework.lower.ragged import Names, let, ragged_steps
from tilework.lower.register_tiles.register_tile import RegisterTile
from tilework.lower.register_tiles.steps import vectors_of
from tilework.te.expr import Axis, Expr, binary


def ragged_tile(tile: RegisterTile, names: Names, accumulators: int) -> Stmt:
    """All terms of a tile, taken in turns by its accumulators, and the finished sums stored.

    Args:
        tile: the tile.
        names: the integers that limits and positions are made of.
        accumulators: how many of each point the tile has.
    """
    version = tile.version
    block = version.loops.block

    def at(index: Index) -> Callable[[Expr], Expr]:
        def placed(e: Expr) -> Expr:
            where = version.base | index
            return bind(e, where, lambda op, _, indices: load(tile.ctx.buffers[op], indices))

        return placed

    def end(axis: Axis, limit: Expr) -> Expr:
        return binary("max", ZERO, binary("min", const(axis.points), at({})(limit)))

    def added(point: Index, copy: int) -> Stmt:
        """Another accumulator joins the first."""
        return tile.set(point, tile.addend.combined(tile.sum(point), tile.sum(point, const(copy))))

    def joined(copy: int) -> Stmt:
        return tile.each_point(lambda point: added(point, copy))

    sums = ragged_steps(
        block.reduce,
        {a: end(a, limit) for a, limit in names.limits},
        vectors_of(version.loops, {a: version.size(a) for a in block.spatial}),
        accumulators,
        lambda index, body: let(names.late, at(index), body),
        lambda index, copy: tile.step(index, {}, copy),
    )
    starts: Sequence[Stmt] = [tile.init(const(k)) for k in range(accumulators)]
    joins: Sequence[Stmt] = [joined(k) for k in range(1, accumulators)]
    return seq(let(names.early, at({}), seq(*starts, sums, *joins)), tile.finish())
