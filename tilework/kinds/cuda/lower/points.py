"""Stages that reduce nothing: threads compute vectors of neighbouring elements.

A thread's vectors lie a block's width apart, so that neighbouring threads access neighbouring
vectors at each turn.
"""

from __future__ import annotations

from tilework.kinds.cuda.lower.flat import Flat, chosen, clamped, guarded, guards
from tilework.lower.common import bind, loop_var, nest, plain_read, var_or_zero, weighted_sum
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Region, Store
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr


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
