"""The scheduled loop nest of a block, for any number of decision rows at once.

`BlockNest` turns decision columns into loop extents: arrays of length P whose structure is that of
the block. Features and the draft model read it with P candidates, the lowering with P = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.index.extents import Extent, Typical, ceil_div, size
from tilework.index.symbols import Symbolic
from tilework.space.blocks import Attached, Block
from tilework.space.decision import Decision
from tilework.space.distinct import distinct
from tilework.te.expr import Axis

Ints = NDArray[np.int64]
Face = Callable[[Axis], int | Ints]
"""How many points an axis is taken to have: `exact` where code is made, `typical` where rows are
ranked; or an array, where each of the P rows is looked at elsewhere."""
_FEW = 4


def exact(axis: Axis) -> int:
    """Axes as code has them; 0, which no loop has, where a run decides: see `BlockNest.loops`."""
    return 0 if isinstance(axis.extent, Symbolic) else axis.extent


def typical(axis: Axis) -> Typical:
    """Axes as a search looks at them."""
    return axis.typical


@dataclass(frozen=True, eq=False)
class BlockNest:
    """Loop extents of one block for P decision rows.

    Attributes:
        block: the block whose loops these are.
        count: P.
        tiles: per axis, the extents of its levels, outermost first: levels x P.
        values: what other decisions chose, by their kind; each an array of length P.
        local: register tiles of attached reductions, as points of their last axis but one and
            of their last axis.
        extent: points of an axis, as the nest takes it.
    """

    block: Block
    count: int
    tiles: dict[Axis, Ints]
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
        chosen = _columns(rows, decisions).astype(np.int64)
        tiled_axes: dict[Axis, Ints] = {}
        local: dict[Attached, tuple[Ints, ...]] = {}
        values: dict[str, Ints] = {}
        at = 0
        for (tiled, width), group in groupby(decisions, _alike):
            some = list(group)
            own = chosen[at : at + len(some) * width].reshape(len(some), width, len(rows))
            at += len(some) * width
            if tiled:
                axes = [d.axis for d in some if d.axis is not None]
                for axis, factors in zip(axes, own, strict=True):
                    # of a sum at most what there is of it
                    if extent is not exact and axis.kind == "reduce" and axis.open:
                        np.minimum(factors, extent(axis), out=factors)
                levels = _levels([extent(a) for a in axes], own)
                tiled_axes.update(zip(axes, levels, strict=True))
                continue
            for d, numbers in zip(some, own, strict=True):
                if d.attached is not None:
                    points = np.maximum(numbers, 1)
                    local[d.attached] = (*local.get(d.attached, ()), *points)
                else:
                    values[d.kind] = numbers[0]
        tiles = {
            a: tiled_axes[a] if a in tiled_axes else np.full((1, len(rows)), extent(a))
            for a in (*block.spatial, *block.reduce)
        }
        return BlockNest(block, len(rows), tiles, values, local, extent)

    @property
    def parallel(self) -> Ints:
        """How many of `Block.parallel_loops` are fused and run in parallel; 0 if none."""
        return self._value("parallel")

    @property
    def unroll(self) -> Ints:
        """Most vector operations that an expanded body may hold; 0 if nothing says it."""
        return self._value("unroll")

    def loops(self, axis: Axis) -> tuple[Extent, ...]:
        """Exact extents of the loops of an axis in the first row, outermost first.

        All but the outermost are the row's own numbers, wherever it runs.
        """
        inner = tuple(int(t[0]) for t in self.tiles[axis][1:])
        return ceil_div(axis.extent, max(size(inner), 1)), *inner

    def _value(self, kind: str) -> Ints:
        values = self.values.get(kind)
        return np.zeros(self.count, np.int64) if values is None else values

    def span(self, axis: Axis, level: int) -> Ints:
        """Points of ``axis`` covered by its loops from ``level`` inwards (capped at the axis)."""
        return np.minimum(self._product(self.tiles[axis][level:]), self.extent(axis))

    def held(self, axis: Axis) -> Ints:
        """Points of a spatial axis that a buffer of partial or late results holds, per thread."""
        level = self.block.write_level or self.block.levels.visited
        return self._product(self.tiles[axis][level:])

    def outer_trips(self, axis: Axis, level: int) -> Ints:
        """Iterations of the loops of ``axis`` outside ``level``."""
        return self._product(self.tiles[axis][:level])

    def _product(self, extents: Iterable[Ints]) -> Ints:
        out = np.ones(self.count, np.int64)
        for extent in extents:
            out = out * extent
        return out


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Rows as one block sees them: many differ only in what other blocks do.

    Attributes:
        nest: of the rows that differ in the block.
        where: which of them each row is; None if it is the row itself.
        key: what the rows that differ say of the block, as bytes; empty if they are all rows.
    """

    nest: BlockNest
    where: NDArray[np.intp] | None = None
    key: bytes = b""

    @staticmethod
    def of(block: Block, rows: NDArray[np.int32], decisions: Sequence[Decision]) -> BlockRows:
        """The rows of a block, of which ``decisions`` are its own; see `BlockNest.of`.

        Rows are compared where there are several times as many as the block can tell apart.
        """
        if _FEW * math.prod(len(d.choices) for d in decisions) <= len(rows):
            columns = _columns(rows, decisions)
            classes = distinct(columns)
            if classes is not None:
                one, where = classes
                nest = BlockNest.of(block, rows[one], decisions)
                return BlockRows(nest, where, columns[:, one].tobytes())
        return BlockRows(BlockNest.of(block, rows, decisions))

    def of_all(self, values: NDArray[Any]) -> NDArray[Any]:
        """What was found of the nest's rows, as the last axis of an array, for all rows."""
        return values if self.where is None else values.take(self.where, axis=-1)


def _columns(rows: NDArray[np.int32], decisions: Sequence[Decision]) -> NDArray[np.int32]:
    """What rows say of a block's decisions, column by column: C x P."""
    return rows.T[[c for d in decisions for c in d.columns]]


def _alike(decision: Decision) -> tuple[bool, int]:
    """Whether a decision tiles an axis, and by how many numbers."""
    return decision.axis is not None, len(decision.columns)


def _levels(wholes: Sequence[int | Ints], factors: Ints) -> Ints:
    """Extents of all levels of some axes (axes x levels x P) from those of the inner ones.

    The outermost loop of an axis has what inner factors leave of the ``wholes``.
    """
    count, levels, rows = factors.shape
    out = np.empty((count, levels + 1, rows), np.int64)
    out[:, 1:] = factors
    covered = np.multiply.reduce(np.maximum(factors, 1), axis=1)
    for outermost, whole, inside in zip(out[:, 0], wholes, covered, strict=True):
        # the quotient of integers this small is exact, or further from the next than it rounds
        outermost[:] = np.ceil(whole / inside)
    return out
