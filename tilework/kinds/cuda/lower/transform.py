"""Transforms by constant matrices: straight-line code on a thread's registers.

Each thread computes a tile of the transform in one channel, its neighbours the same tile in the
neighbouring channels. What a tile has beyond the last row of the result is not stored.
"""

from __future__ import annotations

from tilework.kinds.cuda.lower.flat import Flat, chosen, guarded, guards, sizes
from tilework.lower.common import weighted_sum
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Region, Stmt
from tilework.lower.transform import TransformTile
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr


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

    code = TransformTile(ctx, block_nest, transform, base, tile, transform.data, within).code()
    return flat.region(block.result.name, flat.inside(code))
