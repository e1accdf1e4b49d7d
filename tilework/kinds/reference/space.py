"""The schedule space of the interpreter: `tilework.space.protocol.Space`. Small on purpose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.reference.target import ReferenceTarget
from tilework.lower.interpret import LANES
from tilework.space.blocks import Block
from tilework.space.decision import Open
from tilework.space.levels import Level, Levels, Role, Tiling
from tilework.space.nest import BlockNest, Ints
from tilework.space.nests import Capability
from tilework.space.protocol import Space
from tilework.space.ragged import ragged_block
from tilework.space.rules import (
    always_inline,
    multi_level_tiling,
    place_producer,
    ragged_reduction,
    skip,
    tile_with_fusion,
)
from tilework.space.state import Rules
from tilework.space.tables import (
    column,
    divisors,
    open_reduce_table,
    reduce_table,
    spatial_table,
    vector_tiles,
    whole_vectors,
)
from tilework.te.expr import Axis

_PARALLEL = Level("S", Role.parallel)
_SPATIAL = Level("S", Role.serial)
_REDUCE = Level("R", Role.serial)
_INNER = Level("R", Role.inner)
_TILE = Level("S", Role.vector)
_LARGEST_TILE = 4
_VECTORS = 2


class ReferenceSpace(Space):
    """Tiles of a few points, vectors of one or two times `LANES` elements, parallel loops."""

    version: int = 1
    rules: Rules = (
        always_inline,
        ragged_reduction,
        tile_with_fusion,
        multi_level_tiling,
        place_producer,
        skip,
    )
    tiling: Tiling = Tiling(
        reuse=Levels((_PARALLEL, _REDUCE, _SPATIAL, _INNER, _TILE), reuse=True),
        reduction=Levels((_PARALLEL, _INNER, _TILE)),
        elementwise=Levels((_PARALLEL, _TILE)),
        ragged=Levels((_PARALLEL, _SPATIAL, _INNER, _TILE)),
    )

    def capabilities(self, target: ReferenceTarget) -> tuple[Capability, ...]:
        """Sums whose number of terms is data."""
        return (ragged_block,)

    def decisions(self, block: Block, target: ReferenceTarget) -> list[Open]:
        """Tiles of every axis, then how many loops are parallel."""
        out = []
        levels = block.spatial_levels - 1
        for axis in block.spatial:
            table = spatial_table(axis.typical, levels, self._tiles(block, axis))
            out.append(Open(axis.name, table, "tile", axis))
        for axis in block.reduce if block.reduce_levels > 1 else ():
            levels = block.reduce_levels - 1
            table = (
                reduce_table(axis.typical, levels)
                if not axis.open
                else open_reduce_table(axis.typical, axis.most, levels)
            )
            out.append(Open(axis.name, table, "tile", axis))
        for attached in block.attached_reductions:
            assert attached.block is not None
            *others, last = attached.block.spatial or (None,)
            for what, local in (("rows", others[-1] if others else None), ("vector", last)):
                sizes = (1,) if local is None else _sizes(local, what == "vector")
                name = f"{attached.op.name} at {block.op.name} {what}"
                out.append(Open(name, column(sizes), "tile", attached=attached))
        fused = range(len(block.parallel_axes) + 1)
        return [*out, Open("parallel", column(fused), "parallel")]

    def _tiles(self, block: Block, axis: Axis) -> tuple[int, ...]:
        last = axis is block.spatial[-1]
        if axis in block.ragged.steps:  # a tile has one number of terms
            step = block.ragged.steps[axis]
            return (step,) if last else divisors(step)
        return _sizes(axis, last)

    def valid(self, nest: BlockNest, target: ReferenceTarget) -> NDArray[np.bool_]:
        """Whole tiles of reduce axes, no empty tiles, no more parallel loops than there are."""
        ok = nest.parallel <= len(nest.block.parallel_axes)
        for axis, extents in nest.tiles.items():
            covered = np.ones(nest.count, np.int64)
            for extent in extents[1:]:
                ok &= extent >= 1
                covered = covered * extent
            if axis.open:  # whatever a run says, the last tile is shorter
                ok &= covered < 2 * max(axis.most, LANES)
            elif axis.kind == "reduce":
                ok &= axis.points % np.maximum(covered, 1) == 0
            else:
                ok &= covered < 2 * max(axis.typical, LANES)
        for axis, step in nest.block.ragged.steps.items():
            tile = np.maximum(nest.tiles[axis][-1], 1)
            ok &= tile == step if axis is nest.block.spatial[-1] else step % tile == 0
        for attached, (rows, last) in nest.local.items():
            assert attached.block is not None
            *others, inner = attached.block.spatial or (None,)
            ok &= rows <= (others[-1].typical if others else 1)
            ok &= last < 2 * max(inner.typical if inner is not None else 1, LANES)
        return ok

    def canonical(self, nest: BlockNest, target: ReferenceTarget) -> dict[str, Ints]:
        """Fusing a loop of one iteration into the parallel loop changes nothing."""
        parallel = np.zeros(nest.count, np.int64)
        for i, axis in enumerate(nest.block.parallel_axes):
            several = (nest.tiles[axis][0] > 1) | (axis.open)
            counts = (nest.parallel > i) & several
            parallel = np.where(counts, i + 1, parallel)
        return {"parallel": parallel}


def _sizes(axis: Axis, vector: bool) -> tuple[int, ...]:
    """Innermost tile sizes of an axis."""
    if axis.open:
        vectors = whole_vectors(axis.most, LANES, _VECTORS)
        return vectors if vector else tuple(range(1, min(_LARGEST_TILE, axis.most) + 1))
    if vector:
        return vector_tiles(axis.typical, LANES, _VECTORS)
    return tuple(d for d in divisors(axis.typical) if d <= _LARGEST_TILE)


SPACE = ReferenceSpace()
