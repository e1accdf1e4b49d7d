"""Sums of as many terms as data say: products with block-sparse matrices.

A thread's register tile lies within one block row, whose blocks it runs through once. With as many
neighbouring threads as a block has rows a warp has one block row or a few, and reads its blocks in
whole lines. `tilework.lower.ragged` names the integers that are read to find positions.
"""

from __future__ import annotations

from tilework.kinds.cuda.expansion import expansion
from tilework.kinds.cuda.lower.flat import clamped, guarded, guards
from tilework.kinds.cuda.lower.terms import add, start
from tilework.lower.common import (
    ZERO,
    Index,
    bind,
    const,
    inner_loops,
    loop_var,
    nest,
    plain_read,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.lower.ir import For, Load, Region, Stmt, seq
from tilework.lower.ragged import Names, let
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Reduce, binary


def lower_ragged(ctx: LoweringContext, block_nest: BlockNest) -> Region:
    """The region of a block of the form "ragged"."""
    block = block_nest.block
    node = block.body
    assert isinstance(node, Reduce)
    names = Names.of(node.source, block.ragged.ends)
    cut = {a: [int(n[0]) for n in block_nest.tiles[a]] for a in block.spatial}
    grid = {a: loop_var(f"{a.name}.b", cut[a][0]) for a in block.spatial}
    thread = {a: loop_var(f"{a.name}.t", cut[a][1]) for a in block.spatial}
    points = {a: loop_var(f"{a.name}.r", cut[a][2]) for a in block.spatial}
    base = {
        a: weighted_sum(
            [(var_or_zero(grid[a]), cut[a][1] * cut[a][2]), (var_or_zero(thread[a]), cut[a][2])]
        )
        for a in block.spatial
    }
    at = {a: binary("+", base[a], var_or_zero(points[a])) for a in block.spatial}
    rows = {a: -(-a.points // cut[a][2]) * cut[a][2] for a in block.spatial}
    inside = clamped(at, rows)
    acc = ctx.temporary(
        f"{block.op.name}.acc", [cut[a][2] for a in block.spatial], block.op.dtype, "register"
    )
    where = tuple(var_or_zero(v) for v in points.values())
    copies = expansion(block_nest)
    read = plain_read(ctx)

    def each(body: Stmt) -> Stmt:
        return nest(inner_loops(points), body)

    def steps(rest: tuple[Axis, ...], index: Index) -> Stmt:
        """The loops of these axes, inside those whose indices are known."""
        if not rest:
            return each(add(acc, where, node, bind(names.source, inside | index, read)))
        axis, after = rest[0], rest[1:]
        limit = dict(names.limits).get(axis)
        var = loop_var(f"{axis.name}.i", axis.points)
        mine = {**index, axis: var_or_zero(var) if limit is None else var}
        body = steps(after, mine)
        if limit is None:
            whole = int(copies[axis][0]) >= axis.points
            if axis.points == 1 or whole:
                return nest([(var, axis.points, "unroll")], body)
            return For(var, axis.points, "serial", body, expand=int(copies[axis][0]))
        if not any(a in block.ragged.ends for a in after):
            body = let(names.late, lambda e: bind(e, base | mine, read), body)
        end = binary("min", const(axis.points), bind(limit, base, read))
        end = binary("max", ZERO, end)
        return For(var, end, "serial", body, expand=int(copies[axis][0]))

    ragged = tuple(a for a in block.reduce if a in block.ragged.ends)
    others = tuple(a for a in block.reduce if a not in block.ragged.ends)
    sums = let(names.early, lambda e: bind(e, base, read), steps((*ragged, *others), {}))
    store = store_result(ctx, block, at, Load(acc.dtype, acc, where))
    store = guarded(guards(at, rows), store)
    body = seq(each(start(acc, where, node)), sums, each(store))
    covered = {a: cut[a][0] * cut[a][1] * cut[a][2] for a in block.spatial}
    body = guarded(guards(base, covered), body)
    return Region(block.result.name, tuple(grid.values()), body, tuple(thread.values()))
