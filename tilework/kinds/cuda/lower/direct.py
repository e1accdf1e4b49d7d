"""Reductions straight from memory: windows, such as pooling and depthwise convolutions.

Each thread computes a small tile of points; neighbours compute neighbouring tiles, the last axis
fastest::

    acc[tile] = 0
    for taps:  acc[tile] += ...           expanded as the row says; neighbours on the last axis
    out[tile] = epilogue(acc[tile])       in one access

Where tiles overhang an axis, the points outside read the last one inside and are not stored.
"""

from __future__ import annotations

from tilework.kinds.cuda.lower.flat import Flat, chosen, clamped, guarded, guards, sizes
from tilework.kinds.cuda.lower.terms import (
    add,
    reduce_index,
    reduce_loops,
    reduce_vars,
    reduction,
    start,
)
from tilework.lower.common import (
    bind,
    inner_loops,
    loop_var,
    nest,
    plain_read,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.lower.ir import Load, Region, Stmt, seq
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis


def lower_direct(ctx: LoweringContext, block_nest: BlockNest) -> Region:
    """The region of a block of the form "direct"."""
    block = block_nest.block
    node = reduction(block)
    tile = sizes(block_nest, block.spatial, -1)
    count = sizes(block_nest, block.spatial, 0)
    covered = {a: count[a] * tile[a] for a in block.spatial}
    flat = Flat.of(count, chosen(block_nest, "threads"))
    points = {a: loop_var(f"{a.name}.r", tile[a]) for a in block.spatial}
    at = {
        a: weighted_sum([(flat.at[a], tile[a]), (var_or_zero(points[a]), 1)])
        for a in block.spatial
    }
    acc = ctx.temporary(f"{block.op.name}.acc", list(tile.values()), block.op.dtype, "register")
    where = tuple(var_or_zero(v) for v in points.values())
    terms = reduce_vars(block_nest)
    safe = clamped(at, covered)
    value = bind(node.source, safe | reduce_index(terms), plain_read(ctx))
    steps = reduce_loops(block_nest, terms, _each(points, add(acc, where, node, value)))
    store = store_result(ctx, block, at, Load(acc.dtype, acc, where))
    store = guarded(guards(at, covered), store)
    begin = _each(points, start(acc, where, node))
    return flat.region(block.result.name, flat.inside(seq(begin, steps, _each(points, store))))


def _each(points: dict[Axis, Axis], body: Stmt) -> Stmt:
    return nest(inner_loops(points), body)
