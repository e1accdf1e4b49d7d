"""The scheduled loop nest of a block, for any number of decision rows at once.

`BlockNest` turns decision columns into loop extents: arrays of length P whose structure is that of
the block. Features and the draft model read it with P candidates, the lowering with P = 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilework.space.blocks import Attached, Block
from tilework.te.expr import Axis

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BlockNest:
    """Loop extents of one block for P decision rows.

    Attributes:
        block: the block whose loops these are.
        tiles: per axis, the extents of its levels, outermost first; each an array of length P.
        parallel: how many of the outermost loops are fused and run in parallel, length P.
        unroll: most vector operations that an unrolled body may hold, length P.
        local: register tiles of attached reductions, as points of their last axis but one and
            of their last axis.
    """

    block: Block
    tiles: dict[Axis, tuple[Ints, ...]]
    parallel: Ints
    unroll: Ints
    local: dict[Attached, tuple[Ints, Ints]] = field(default_factory=dict)

    @staticmethod
    def columns(block: Block) -> int:
        """Decision columns that the block takes."""
        return (
            len(block.spatial) * (block.spatial_levels - 1)
            + len(block.reduce) * (block.reduce_levels - 1)
            + 2 * len(block.attached_reductions)
            + 2
        )

    @staticmethod
    def of(block: Block, rows: NDArray[np.int32]) -> BlockNest:
        """The nest of ``rows`` (P x `columns`).

        Columns: inner factors per axis, tiles of attached reductions, parallel, unroll.
        """
        tiles: dict[Axis, tuple[Ints, ...]] = {}
        col = 0
        for axis in (*block.spatial, *block.reduce):
            levels = block.spatial_levels if axis.kind == "spatial" else block.reduce_levels
            inner = [rows[:, col + i].astype(np.int64) for i in range(levels - 1)]
            covered = np.ones(len(rows), np.int64)
            for factor in inner:
                covered = covered * np.maximum(factor, 1)
            tiles[axis] = (-(-axis.extent // covered), *inner)
            col += levels - 1
        local = {}
        for attached in block.attached_reductions:
            pixels, last = (rows[:, col + i].astype(np.int64) for i in range(2))
            local[attached] = (np.maximum(pixels, 1), np.maximum(last, 1))
            col += 2
        parallel, unroll = (rows[:, col + i].astype(np.int64) for i in range(2))
        return BlockNest(block, tiles, parallel, unroll, local)

    def span(self, axis: Axis, level: int) -> Ints:
        """Points of ``axis`` covered by its loops from ``level`` inwards (capped at the axis)."""
        out = np.ones(len(self.parallel), np.int64)
        for extent in self.tiles[axis][level:]:
            out = out * extent
        return np.minimum(out, axis.extent)

    def held(self, axis: Axis) -> Ints:
        """Points of a spatial axis that a buffer of partial or late results holds, per thread."""
        out = np.ones(len(self.parallel), np.int64)
        for extent in self.tiles[axis][self.block.write_level or 2 :]:
            out = out * extent
        return out

    def outer_trips(self, axis: Axis, level: int) -> Ints:
        """Iterations of the loops of ``axis`` outside ``level``."""
        out = np.ones(len(self.parallel), np.int64)
        for extent in self.tiles[axis][:level]:
            out = out * extent
        return out
