"""The scheduled loop nest of a block, for any number of decision rows at once.

`BlockNest` turns decision columns into loop extents: arrays of length P whose structure is that of
the block. Features and the draft model read it with P candidates, the lowering with P = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilework.space.blocks import Block
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
    """

    block: Block
    tiles: dict[Axis, tuple[Ints, ...]]
    parallel: Ints
    unroll: Ints

    @staticmethod
    def columns(block: Block) -> int:
        """Decision columns that the block takes."""
        return (
            len(block.spatial) * (block.spatial_levels - 1)
            + len(block.reduce) * (block.reduce_levels - 1)
            + 2
        )

    @staticmethod
    def of(block: Block, rows: NDArray[np.int32]) -> BlockNest:
        """The nest of ``rows`` (P x `columns`): inner factors per axis, parallel, unroll."""
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
        return BlockNest(
            block, tiles, rows[:, col].astype(np.int64), rows[:, col + 1].astype(np.int64)
        )

    def span(self, axis: Axis, level: int) -> Ints:
        """Points of ``axis`` covered by its loops from ``level`` inwards (capped at the axis)."""
        out = np.ones(len(self.parallel), np.int64)
        for extent in self.tiles[axis][level:]:
            out = out * extent
        return np.minimum(out, axis.extent)

    def outer_trips(self, axis: Axis, level: int) -> Ints:
        """Iterations of the loops of ``axis`` outside ``level``."""
        out = np.ones(len(self.parallel), np.int64)
        for extent in self.tiles[axis][:level]:
            out = out * extent
        return out
