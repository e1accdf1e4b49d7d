"""The scheduled loop nest of a block, for any number of decision rows at once.

`BlockNest` turns decision columns into loop extents: arrays of length P whose structure is that of
the block. Features and the draft model read it with P candidates, the lowering with P = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.index.extents import Extent, Typical, ceil_div, size
from tilework.index.symbols import Symbolic
from tilework.space.blocks import Attached, Block
from tilework.space.decision import Decision
from tilework.space.distinct import distinct
from tilework.te.expr import Axis

Ints = NDArray[np.int64]
N = TypeVar("N", NDArray[np.int64], NDArray[np.float64])
Face = Callable[[Axis], int | Ints]
"""How many points an axis is taken to have: `exact` where code is made, `typical` where rows are
ranked; or an array, where each of the P rows is looked at elsewhere."""
_FEW = 4
_FIRST = np.zeros(1, np.intp)


def exact(axis: Axis) -> int:
    """Axes as code has them; 0, which no loop has, where a run decides: see `BlockNest.loops`."""
    return 0 if isinstance(axis.extent, Symbolic) else axis.extent


def typical(axis: Axis) -> Typical:
    """Axes as a search looks at them."""
    return axis.typical


@frozen(eq=False)
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
        table: the extents of all axes as one matrix (loops x P), of which ``tiles`` are parts.
        groups: neighbours in it that have as many levels, and where their loops are.
        places: of each axis, where its loops are in the table.
    """

    block: Block
    count: int
    tiles: dict[Axis, Ints]
    values: dict[str, Ints]
    local: dict[Attached, tuple[Ints, ...]]
    extent: Face
    table: Ints
    groups: tuple[tuple[tuple[Axis, ...], slice], ...]
    places: tuple[tuple[Axis, slice], ...]

    @staticmethod
    def of(
        block: Block,
        rows: NDArray[np.int32],
        decisions: Sequence[Decision],
        extent: Face = typical,
    ) -> BlockNest:
        """The nest of P rows (P x D), of which ``decisions`` are the block's."""
        layout, count = layout_of(block, tuple(decisions)), len(rows)
        chosen = rows.T[layout.columns].astype(np.int64)
        table = np.empty((layout.loops, count), np.int64)
        local: dict[Attached, tuple[Ints, ...]] = {}
        values: dict[str, Ints] = {}
        for tiled in layout.tiled:
            own = chosen[tiled.columns].reshape(len(tiled.axes), tiled.width, count)
            for i in tiled.open if extent is not exact else ():
                axis, factors = tiled.axes[i], own[i]  # of a sum at most what there is of it
                np.minimum(factors, extent(axis), out=factors)
            levels = table[tiled.loops].reshape(len(tiled.axes), tiled.width + 1, count)
            levels[:, 1:] = own
            usual, axes = extent is typical, tiled.axes
            wholes = tiled.wholes if usual else _column([extent(a) for a in axes])
            levels[:, 0] = _outermost(wholes, own)
        whole = table[len(table) - len(layout.whole) :]
        for loop, axis in zip(whole, layout.whole, strict=True):
            loop[:] = extent(axis)
        for at, d in layout.others:
            if d.attached is not None:
                points = np.maximum(chosen[at], 1)
                local[d.attached] = (*local.get(d.attached, ()), points)
            else:
                values[d.kind] = chosen[at]
        tiles = {axis: table[loops] for axis, loops in layout.places}
        kept = table, layout.groups, layout.places
        return BlockNest(block, count, tiles, values, local, extent, *kept)

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

    def by_group(self, table: N) -> list[tuple[tuple[Axis, ...], N]]:
        """The loops of each group in a matrix like `table`: axes, and axes x levels x P."""
        out = []
        for axes, loops in self.groups:
            levels = (loops.stop - loops.start) // len(axes)
            out.append((axes, table[loops].reshape(len(axes), levels, self.count)))
        return out

    def _value(self, kind: str) -> Ints:
        values = self.values.get(kind)
        return np.zeros(self.count, np.int64) if values is None else values

    def span(self, axis: Axis, level: int) -> Ints:
        """Points of ``axis`` covered by its loops from ``level`` inwards (capped at the axis)."""
        points = np.multiply.reduce(self.tiles[axis][level:], axis=0)
        return np.minimum(points, self.extent(axis))

    def held(self, axis: Axis) -> Ints:
        """Points of a spatial axis that a buffer of partial or late results holds, per thread."""
        level = self.block.write_level or self.block.levels.visited
        points: Ints = np.multiply.reduce(self.tiles[axis][level:], axis=0)
        return points

    def outer_trips(self, axis: Axis, level: int) -> Ints:
        """Iterations of the loops of ``axis`` outside ``level``."""
        trips: Ints = np.multiply.reduce(self.tiles[axis][:level], axis=0)
        return trips


@frozen(eq=False)
class BlockRows:
    """Rows as one block sees them: many differ only in what other blocks do.

    Attributes:
        nest: of the rows that differ in the block.
        where: which of them each row is; None if it is the row itself.
        key: what the rows that differ say of the block, as bytes; empty if some may be the same.
    """

    nest: BlockNest
    where: NDArray[np.intp] | None = None
    key: bytes = b""

    @staticmethod
    def of(
        block: Block,
        rows: NDArray[np.int32],
        decisions: Sequence[Decision],
        *,
        alone: bool = True,
    ) -> BlockRows:
        """The rows of a block, of which ``decisions`` are its own; see `BlockNest.of`.

        Rows are compared where there are several times as many as the block can tell apart.
        Beside other blocks, neighbours are: those of a row stand by the decision that changes.

        Args:
            block, rows, decisions: as there.
            alone: whether rows have no decisions of other blocks.
        """
        layout = layout_of(block, tuple(decisions))
        many = _FEW * layout.choices <= len(rows)
        if not many and (alone or not len(rows)):
            return BlockRows(BlockNest.of(block, rows, decisions))
        columns = rows.T[layout.columns]
        if many:
            classes = distinct(columns)
            if classes is not None:
                one, where = classes
                nest = BlockNest.of(block, rows[one], decisions)
                return BlockRows(nest, where, columns[:, one].tobytes())
        else:
            new = np.logical_or.reduce(columns[:, 1:] != columns[:, :-1], axis=0)
            where = np.concatenate([_FIRST, new.cumsum()])
            if 2 * where[-1] < len(rows):
                first = np.concatenate([_FIRST, np.flatnonzero(new) + 1])
                return BlockRows(BlockNest.of(block, rows[first], decisions), where)
        return BlockRows(BlockNest.of(block, rows, decisions))

    def of_all(self, values: NDArray[Any]) -> NDArray[Any]:
        """What was found of the nest's rows, as the last axis of an array, for all rows."""
        return values if self.where is None else values.take(self.where, axis=-1)


class Tiled(NamedTuple):
    """Neighbouring decisions that tile an axis each, by as many numbers.

    Attributes:
        axes: of each.
        width: how many numbers.
        open: which of the axes are sums of as many terms as a run decides.
        columns, loops: where their numbers are among a block's columns, and the extents of their
            loops in `BlockNest.table`.
        wholes: points of each axis, as a search looks at them: axes x 1.
    """

    axes: tuple[Axis, ...]
    width: int
    open: tuple[int, ...]
    columns: slice
    loops: slice
    wholes: Ints


class Layout(NamedTuple):
    """Where the decisions of a block stand in a row, and what they are in a nest's table.

    Attributes:
        columns: of rows, in the order of the decisions.
        choices: how many rows the decisions tell apart.
        tiled: those that tile axes, in groups.
        whole: axes that none tiles; their loops are the last ones of the table.
        others: all other decisions, and which of the columns is theirs.
        groups, places, loops: as in a nest; and how many loops there are.
    """

    columns: NDArray[np.intp]
    choices: int
    tiled: tuple[Tiled, ...]
    whole: tuple[Axis, ...]
    others: tuple[tuple[int, Decision], ...]
    groups: tuple[tuple[tuple[Axis, ...], slice], ...]
    places: tuple[tuple[Axis, slice], ...]
    loops: int


@lru_cache(maxsize=4096)
def layout_of(block: Block, decisions: tuple[Decision, ...]) -> Layout:
    """The layout of a block's decisions (cached: a sketch asks for it with every population)."""
    tiled: list[Tiled] = []
    others: list[tuple[int, Decision]] = []
    places: dict[Axis, slice] = {}
    column = loop = 0
    for (tiles, width), group in groupby(decisions, _alike):
        some = list(group)
        if tiles:
            axes = tuple(d.axis for d in some if d.axis is not None)
            ends = column + len(some) * width, loop + len(some) * (width + 1)
            sums = tuple(i for i, a in enumerate(axes) if a.kind == "reduce" and a.open)
            places_of = slice(column, ends[0]), slice(loop, ends[1])
            tiled.append(Tiled(axes, width, sums, *places_of, _column([a.typical for a in axes])))
            for i, axis in enumerate(axes):
                first = loop + i * (width + 1)
                places[axis] = slice(first, first + width + 1)
            column, loop = ends
            continue
        others += [(column + i, d) for i, d in enumerate(some)]
        column += len(some)
    axes = (*block.spatial, *block.reduce)
    whole = tuple(a for a in axes if a not in places)
    places |= {a: slice(loop + i, loop + i + 1) for i, a in enumerate(whole)}
    groups = [(one.axes, one.loops) for one in tiled]
    if whole:
        groups.append((whole, slice(loop, loop + len(whole))))
    return Layout(
        np.array([c for d in decisions for c in d.columns], np.intp),
        math.prod(len(d.choices) for d in decisions),
        tuple(tiled),
        whole,
        tuple(others),
        tuple(groups),
        tuple((a, places[a]) for a in axes),
        loop + len(whole),
    )


def _alike(decision: Decision) -> tuple[bool, int]:
    """Whether a decision tiles an axis, and by how many numbers."""
    return decision.axis is not None, len(decision.columns)


def _column(wholes: Sequence[int | Ints]) -> Ints:
    """Points of axes as axes x 1, or as axes x P where each row has its own."""
    if any(isinstance(n, np.ndarray) for n in wholes):
        return np.array(np.broadcast_arrays(*wholes))
    return np.array(wholes, np.int64)[:, None]


def _outermost(wholes: Ints, factors: Ints) -> NDArray[np.float64]:
    """Extents of the outermost loops of some axes (axes x P): what inner ``factors`` leave.

    The quotient of integers this small is exact, or further from the next than it rounds.
    """
    covered = np.multiply.reduce(np.maximum(factors, 1), axis=1)
    return np.asarray(np.ceil(wholes / covered))
