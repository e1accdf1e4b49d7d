"""The scheduled loop nest of a block, for any number of decision rows at once.

`BlockNest` turns decision columns into loop extents: arrays of length P whose structure is that of
the block. Features and the draft model read it with P candidates, the lowering with P = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilework.index.extents import Extent, Typical, ceil_div
from tilework.space.blocks import Attached, Block
from tilework.space.decision import Decision
from tilework.te.expr import Axis

Ints = NDArray[np.int64]
Face = Callable[[Axis], int | Ints]
"""How many points an axis is taken to have: `exact` where code is made, `typical` where rows are
ranked; or an array, where each of the P rows is looked at elsewhere."""


def exact(axis: Axis) -> Extent:
    """Axes as code has them."""
    return axis.extent


def typical(axis: Axis) -> Typical:
    """Axes as a search looks at them."""
    return axis.typical


@dataclass(frozen=True, eq=False)
class BlockNest:
    """Loop extents of one block for P decision rows.

    Attributes:
        block: the block whose loops these are.
        count: P.
        tiles: per axis, the extents of its levels, outermost first; each an array of length P.
        values: what other decisions chose, by their kind; each an array of length P.
        local: register tiles of attached reductions, as points of their last axis but one and
            of their last axis.
        extent: points of an axis, as the nest takes it.
    """

    block: Block
    count: int
    tiles: dict[Axis, tuple[Ints, ...]]
    values: dict[str, Ints] = field(default_factory=dict)
    local: dict[Attached, tuple[Ints, ...]] = field(default_factory=dict)
    extent: Face = typical

    @staticmethod
    def of(
        block: Block,
        rows: NDArray[np.int32],
        decisions: Sequence[Decision],
        extent: Face = typical,
    ) -> BlockNest:
        """The nest of P rows (P x D), of which ``decisions`` are the block's."""
        inner: dict[Axis, tuple[Ints, ...]] = {}
        local: dict[Attached, tuple[Ints, ...]] = {}
        values: dict[str, Ints] = {}
        for d in decisions:
            chosen = tuple(rows[:, c].astype(np.int64) for c in d.columns)
            if d.axis is not None:
                inner[d.axis] = chosen
            elif d.attached is not None:
                own = (np.maximum(c, 1) for c in chosen)
                local[d.attached] = (*local.get(d.attached, ()), *own)
            else:
                values[d.kind] = chosen[0]
        tiles = {}
        for axis in (*block.spatial, *block.reduce):
            covered = np.ones(len(rows), np.int64)
            for factor in inner.get(axis, ()):
                covered = covered * np.maximum(factor, 1)
            tiles[axis] = (ceil_div(extent(axis), covered), *inner.get(axis, ()))
        return BlockNest(block, len(rows), tiles, values, local, extent)

    @property
    def parallel(self) -> Ints:
        """How many of `Block.parallel_loops` are fused and run in parallel; 0 if none."""
        return self._value("parallel")

    @property
    def unroll(self) -> Ints:
        """Most vector operations that an expanded body may hold; 0 if nothing says it."""
        return self._value("unroll")

    def _value(self, kind: str) -> Ints:
        found = self.values.get(kind)
        return np.zeros(self.count, np.int64) if found is None else found

    def span(self, axis: Axis, level: int) -> Ints:
        """Points of ``axis`` covered by its loops from ``level`` inwards (capped at the axis)."""
        out = np.ones(self.count, np.int64)
        for extent in self.tiles[axis][level:]:
            out = out * extent
        return np.minimum(out, self.extent(axis))

    def held(self, axis: Axis) -> Ints:
        """Points of a spatial axis that a buffer of partial or late results holds, per thread."""
        out = np.ones(self.count, np.int64)
        for extent in self.tiles[axis][self.block.write_level or self.block.levels.visited :]:
            out = out * extent
        return out

    def outer_trips(self, axis: Axis, level: int) -> Ints:
        """Iterations of the loops of ``axis`` outside ``level``."""
        out = np.ones(self.count, np.int64)
        for extent in self.tiles[axis][:level]:
            out = out * extent
        return out
