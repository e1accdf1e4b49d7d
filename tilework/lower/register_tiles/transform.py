"""Transforms by constant matrices, tile by tile: see `tilework.lower.transform`."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.index.extents import known
from tilework.lower.common import bind, const, plain_read
from tilework.lower.context import LoweringContext
from tilework.lower.ir import If, Stmt
from tilework.lower.register_tiles.around import OuterLoops
from tilework.lower.register_tiles.borders import Span
from tilework.lower.register_tiles.tails import dispatch, served_by
from tilework.lower.transform import TransformTile
from tilework.space.blocks import Block
from tilework.space.bounds import conjunction, conjuncts
from tilework.space.nest import BlockNest
from tilework.te.affine import linear
from tilework.te.expr import (
    Axis,
    Compare,
    Expr,
    IfThenElse,
    binary,
    compare,
    reads,
    replace_axes,
)
from tilework.te.tensor import Operation


def lower_transform(ctx: LoweringContext, block_nest: BlockNest) -> tuple[tuple[Axis, ...], Stmt]:
    """Parallel variables and body of a block that is a transform.

    Tiles of outputs whose number a run decides are computed as a whole, the last one too.
    """
    block, transform = block_nest.block, block_nest.block.transform
    assert transform is not None
    loops = OuterLoops.of(block_nest, block.spatial)
    base = loops.base
    cut = [a for a in block.spatial if a.open and a.extent % loops.tile[a] != 0]
    others = [a for a in block.spatial if a not in cut]

    def inner(spans: dict[Axis, Span]) -> Stmt:
        sizes = {a: spans[a].size if a in spans else loops.tile[a] for a in block.spatial}
        whole = TransformTile(ctx, block_nest, transform, base, sizes)
        part = TransformTile(ctx, block_nest, transform, base, sizes, cut=cut) if cut else None

        def tile(data: Expr) -> Stmt:
            if part is None:
                return whole.code(data)
            left = {a: binary("-", const(a.extent), base[a]) for a in cut}
            full = [compare(">=", left[a], const(loops.tile[a])) for a in cut]
            return _where(full, whole.code(data), part.code(data))

        data = transform.data
        inside = _inside(data, block.reduce)
        if inside is None or not isinstance(data, IfThenElse):
            return tile(data)
        return If(bind(inside, base, plain_read(ctx)), tile(data.a), tile(data))

    served = served_by(others, loops.tile, {}, ctx.lanes)
    return loops.around(block.parallel_axes, dispatch(others, base, loops.tile, served, inner))


def _where(conditions: Sequence[Expr], then: Stmt, otherwise: Stmt | None = None) -> Stmt:
    """A statement where all of some conditions hold, if there are any."""
    condition = conjunction(conditions)
    return then if condition is None else If(condition, then, otherwise)


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
