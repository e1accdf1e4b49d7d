"""Kernels whose threads work on their own, straight from memory: neighbours on neighbours.

**Reductions** over few terms, such as pooling and depthwise convolutions. A thread computes a
small tile of points, the last axis fastest::

    acc[tile] = 0
    for taps:  acc[tile] += ...           expanded as the row says; neighbours on the last axis
    out[tile] = epilogue(acc[tile])       in one access

Where tiles overhang an axis, the points outside read the last one inside and are not stored.

**Transforms** by constant matrices are straight-line code on a thread's registers: it computes a
tile in one channel, its neighbours the same tile in the neighbouring channels. What a tile has
beyond the last row of the result is not stored.

**Points** of stages that reduce nothing: a thread computes vectors of neighbouring elements that
lie a block's width apart, so that neighbours access neighbouring vectors at each turn.
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
from tilework.lower.ir import Load, Region, Stmt, Store, seq
from tilework.lower.transform import TransformTile
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr


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


def lower_transform(ctx: LoweringContext, block_nest: BlockNest) -> Region:
    """The region of a block of the form "transform"."""
    block = block_nest.block
    transform = block.transform
    assert transform is not None
    tile = sizes(block_nest, block.spatial, -1)
    count = sizes(block_nest, block.spatial, 0)
    flat = Flat.of(count, chosen(block_nest, "threads"))
    base = {a: weighted_sum([(flat.at[a], tile[a])]) for a in block.spatial}
    covered = {a: count[a] * tile[a] for a in block.spatial}

    def within(point: dict[Axis, Expr], store: Stmt) -> Stmt:
        return guarded(guards(point, covered), store)

    code = TransformTile(ctx, block_nest, transform, base, tile, within).code(transform.data)
    return flat.region(block.result.name, flat.inside(code))


def lower_points(ctx: LoweringContext, block_nest: BlockNest) -> Region:
    """The region of a block of the form "points"."""
    block = block_nest.block
    count = {a: int(block_nest.tiles[a][0][0]) for a in block.spatial}
    flat = Flat.of(count, chosen(block_nest, "threads"), chosen(block_nest, "serial"))
    at: dict[Axis, Expr] = dict(flat.at)
    lanes: list[tuple[Axis, int, str]] = []
    covered = dict(count)
    for last in block.spatial[-1:]:
        size = int(block_nest.tiles[last][-1][0])
        lane = loop_var(f"{last.name}.v", size)
        at[last] = weighted_sum([(flat.at[last], size), (var_or_zero(lane), 1)])
        covered[last] = count[last] * size
        lanes = [(lane, size, "vector")]
    value = bind(block.body, clamped(at, covered), plain_read(ctx))
    store = Store(ctx.buffers[block.result], tuple(at[a] for a in block.spatial), value)
    body = flat.inside(nest(lanes, guarded(guards(at, covered), store)))
    return flat.region(block.result.name, nest([(flat.turn, flat.turn.points, "unroll")], body))
