"""Lowering of elementwise blocks: two levels of loops around one vector store."""

from __future__ import annotations

from tilework.lower.common import bind, inner_loops, loop_var, nest, plain_read, var_or_zero
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Stmt, Store
from tilework.lower.register_tiles.around import OuterLoops
from tilework.lower.register_tiles.borders import Span
from tilework.lower.register_tiles.tails import dispatch, served_by
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis


def lower_elementwise(
    ctx: LoweringContext, block_nest: BlockNest
) -> tuple[tuple[Axis, ...], Stmt]:
    """Parallel variables and body of an elementwise block.

    Outer loops cover tiles; the inner loops are expanded and the last axis is a vector loop. Where
    a tile overhangs its axis, a shorter copy of the inner loops covers the rest.
    """
    block = block_nest.block
    loops = OuterLoops.of(block_nest, block.spatial)

    def inner(spans: dict[Axis, Span]) -> Stmt:
        vars_ = {a: loop_var(f"{a.name}.1", spans[a].size) for a in block.spatial}
        at = {a: spans[a].at(loops.base[a], var_or_zero(vars_[a])) for a in block.spatial}
        value = bind(block.body, at, plain_read(ctx))
        store = Store(ctx.buffers[block.op], tuple(at[a] for a in block.spatial), value)
        active = spans[block.spatial[-1]].active if block.spatial else None
        return nest(inner_loops(vars_), store, active)

    served = served_by(block.spatial, loops.tile, {}, ctx.lanes, block.body)
    return loops.around(
        block.spatial, dispatch(block.spatial, loops.base, loops.tile, served, inner)
    )
