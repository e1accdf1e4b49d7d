"""Transforms by constant matrices, tile by tile: see `tilework.lower.transform`."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.index.extents import known
from tilework.lower.common import (
    bind,
    const,
    loop_var,
    nest,
    plain_read,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.ir import If, Stmt
from tilework.lower.register_tiles.borders import Span
from tilework.lower.register_tiles.tails import dispatch, served_by
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
    cut = {a: tuple(map(known, block_nest.loops(a))) for a in block.spatial}
    tile = {a: cut[a][-1] for a in block.spatial}
    outer = {a: loop_var(f"{a.name}.0", cut[a][0]) for a in block.spatial}
    base = {a: weighted_sum([(var_or_zero(outer[a]), tile[a])]) for a in block.spatial}

    def inner(spans: dict[Axis, Span]) -> Stmt:
        sizes = {a: s.size for a, s in spans.items()}
        whole = TransformTile(ctx, block_nest, transform, base, sizes, transform.data).code()
        data = transform.data
        inside = _inside(data, block.reduce)
        if inside is None or not isinstance(data, IfThenElse):
            return whole
        plain = TransformTile(ctx, block_nest, transform, base, sizes, data.a).code()
        return If(bind(inside, base, plain_read(ctx)), plain, whole)

    served = served_by(block.spatial, tile, {}, ctx.lanes)
    body = dispatch(block.spatial, base, tile, served, inner)
    fused = int(block_nest.parallel[0])
    axes = block.parallel_axes
    parallel = tuple(outer[a] for a in axes[:fused] if outer[a].extent != 1)
    return parallel, nest([(outer[a], outer[a].extent, "serial") for a in axes[fused:]], body)


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
