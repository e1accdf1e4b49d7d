"""Transforms by constant matrices, tile by tile: see `tilework.lower.transform`."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.index.extents import known
from tilework.lower.common import bind, const, plain_read
from tilework.lower.context import LoweringContext
from tilework.lower.ir import If, Stmt
from tilework.lower.register_tiles.borders import Span
from tilework.lower.register_tiles.tails import OuterLoops, dispatch, served_by
from tilework.lower.transform import TransformTile
from tilework.space.blocks import Block
from tilework.space.bounds import conjunction, conjuncts
from tilework.space.nest import BlockNest
from tilework.te.affine import linear
from tilework.te.expr import Axis, Compare, Expr, IfThenElse, reads, replace_axes
from tilework.te.tensor import Operation


def lower_transform(ctx: LoweringContext, block_nest: BlockNest) -> tuple[tuple[Axis, ...], Stmt]:
    """Parallel variables and body of a block that is a transform."""
    block = block_nest.block
    transform = block.transform
    assert transform is not None
    loops = OuterLoops.of(block_nest, block.spatial)

    def inner(spans: dict[Axis, Span]) -> Stmt:
        sizes = {a: s.size for a, s in spans.items()}
        tile, data = TransformTile(ctx, block_nest, transform, loops.base, sizes), transform.data
        whole = tile.code(data)
        inside = _inside(data, block.reduce)
        if inside is None or not isinstance(data, IfThenElse):
            return whole
        return If(bind(inside, loops.base, plain_read(ctx)), tile.code(data.a), whole)

    served = served_by(block.spatial, loops.tile, {}, ctx.lanes)
    return loops.around(
        block.parallel_axes, dispatch(block.spatial, loops.base, loops.tile, served, inner)
    )


def scattered_ops(blocks: Sequence[Block]) -> set[Operation]:
    """Results that transforms write or read at all points of a tile, one vector at each."""
    out: set[Operation] = set()
    for block in blocks:
        if block.transform is not None:
            out |= {block.result, *(r.tensor.op for r in reads(block.transform.data))}
    return out


def _inside(data: Expr, reduce: tuple[Axis, ...]) -> Expr | None:
    """When the condition of guarded data holds at every point of the reduction.

    A linear comparison holds everywhere if it does at the corner that is worst for it. None where
    the data is not guarded by linear comparisons.
    """
    if not isinstance(data, IfThenElse):
        return None
    out: list[Expr] = []
    for part in conjuncts(data.cond):
        if not isinstance(part, Compare) or part.op not in ("<", "<=", ">", ">="):
            return None
        a, b = linear(part.a), linear(part.b)
        if a is None or b is None:
            return None
        difference = a - b
        corner: dict[Axis, Expr] = {}
        for axis in reduce:
            grows = known(difference.step(axis)) > 0
            corner[axis] = const(axis.points - 1 if grows == (part.op[0] == "<") else 0)
        out.append(replace_axes(part, corner))
    return conjunction(out)
