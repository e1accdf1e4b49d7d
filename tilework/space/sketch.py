"""A sketch: blocks with open decisions, and array operations over its decision matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ScheduleError
from tilework.space.blocks import MULTI_LEVEL, Attached, Block
from tilework.space.canonical import canonical
from tilework.space.guards import bounds
from tilework.space.limited import copies, limits_of, whole_steps
from tilework.space.nest import BlockNest
from tilework.space.pairs import pair_axis
from tilework.space.tables import (
    divisors,
    reduce_table,
    register_tiles,
    spatial_table,
    vector_tiles,
)
from tilework.space.transforms import transform_of
from tilework.space.winograd import WeightTransform
from tilework.target import Target
from tilework.te import ComputeDAG
from tilework.te.expr import Axis, dtype_bytes, reads

Rows = NDArray[np.int32]
UNROLL_LIMITS = (0, 32, 96, 192)
_MAX_TILE_BYTES = 1 << 20
_LOCAL_PIXELS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_LOCAL_VECTORS = 4
_MAX_LIMITED_TILE = 16
_MAX_SAMPLING_ROUNDS = 12


@dataclass(frozen=True, eq=False)
class Decision:
    """One open decision: ``columns`` of the row take together one row of ``choices``.

    ``key`` is equal for the same decision in different sketches of a task.
    """

    name: str
    columns: tuple[int, ...]
    choices: Rows
    kind: str
    key: str = ""


@dataclass(frozen=True, eq=False)
class Sketch:
    """A family of schedules of one task; one row of integers selects one schedule.

    Attributes:
        id: position among the task's sketches.
        name: the derivation steps in words.
        blocks: root loop nests in execution order.
        target: the machine, whose registers and lanes bound the tiles.
        dag: what the blocks compute: the task's DAG, or a variant with the same outputs.
        steps: the derivation steps, one each.
        transforms: how a variant's weights differ from the task's, by placeholder name.
    """

    id: int
    name: str
    blocks: tuple[Block, ...]
    target: Target
    dag: ComputeDAG
    steps: tuple[str, ...] = field(default=())
    transforms: Mapping[str, WeightTransform] = field(default_factory=dict)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions in column order."""
        out: list[Decision] = []
        col = 0
        for b, block in enumerate(self.blocks):
            prefix = f"{block.op.name}." if len(self.blocks) > 1 else ""
            made, col = _block_decisions(block, self.target, col, prefix, b)
            out += [replace(d, key=f"{block.op.name}.{d.name.removeprefix(prefix)}") for d in made]
        return tuple(out)

    @cached_property
    def num_decisions(self) -> int:
        """Columns of a decision row."""
        return sum(BlockNest.columns(b) for b in self.blocks)

    @cached_property
    def size(self) -> float:
        """Number of rows that sampling can produce, before validity."""
        return float(math.prod(len(d.choices) for d in self.decisions))

    def check(self, rows: Sequence[int] | Sequence[Sequence[int]] | Rows) -> Rows:
        """Rows as a matrix of the right width.

        Raises:
            ScheduleError: the number of columns does not fit this sketch.
        """
        matrix = np.asarray(rows, dtype=np.int32)
        matrix = matrix.reshape(1, -1) if matrix.ndim == 1 else matrix
        if matrix.shape[1] != self.num_decisions:
            raise ScheduleError(
                f"sketch {self.id} takes {self.num_decisions} decisions per row, "
                f"got {matrix.shape[1]}; the row belongs to another sketch or rules version"
            )
        return matrix

    def nests(self, rows: Rows) -> list[BlockNest]:
        """Loop nests of all blocks for the given rows."""
        out, col = [], 0
        for block in self.blocks:
            width = BlockNest.columns(block)
            out.append(BlockNest.of(block, rows[:, col : col + width]))
            col += width
        return out

    def describe(self, row: Sequence[int]) -> str:
        """The schedule that a row selects: steps with numbers, then the loop tree."""
        from tilework.space.describe import describe

        return describe(self, row)

    # -- population operators ---------------------------------------------------------------

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` valid random rows (fewer only if valid ones are very rare)."""
        kept: list[Rows] = []
        total = 0
        for _ in range(_MAX_SAMPLING_ROUNDS):
            draw = 2 * (n - total) + 16
            rows = np.empty((draw, self.num_decisions), np.int32)
            for d in self.decisions:
                rows[:, d.columns] = d.choices[rng.integers(len(d.choices), size=draw)]
            rows = rows[self.valid(rows)]
            kept.append(rows[: n - total])
            total += len(kept[-1])
            if total >= n:
                break
        return np.concatenate(kept) if kept else np.empty((0, self.num_decisions), np.int32)

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        """Rows with one or two decisions redrawn; an invalid child falls back to its parent."""
        out = rows.copy()
        if not len(rows):
            return out
        for share in (1.0, 0.3):
            which = rng.integers(len(self.decisions), size=len(rows))
            apply = rng.random(len(rows)) < share
            for i, d in enumerate(self.decisions):
                at = np.flatnonzero((which == i) & apply)
                if len(at):
                    picks = d.choices[rng.integers(len(d.choices), size=len(at))]
                    out[at[:, None], d.columns] = picks
        bad = ~self.valid(out)
        out[bad] = rows[bad]
        return out

    def crossover(self, rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
        """Children that take each decision from either parent; invalid ones fall back to ``a``."""
        out = a.copy()
        for d in self.decisions:
            from_b = np.flatnonzero(rng.random(len(a)) < 0.5)
            out[from_b[:, None], d.columns] = b[from_b[:, None], d.columns]
        bad = ~self.valid(out)
        out[bad] = a[bad]
        return out

    def moved(self, rng: np.random.Generator, other: Sketch, rows: Rows) -> Rows:
        """Rows of this sketch like ``rows`` of another one: computed at another place.

        Decisions that both sketches have are kept, the others are drawn; invalid rows are dropped.
        """
        out = np.empty((len(rows), self.num_decisions), np.int32)
        theirs = {d.key: d for d in other.decisions}
        for d in self.decisions:
            same = theirs.get(d.key)
            if same is not None and len(same.columns) == len(d.columns):
                out[:, d.columns] = rows[:, same.columns]
            else:
                out[:, d.columns] = d.choices[rng.integers(len(d.choices), size=len(rows))]
        return out[self.valid(out)]

    def neighbours(self, row: Rows) -> Rows:
        """All valid rows that differ from ``row`` in exactly one decision."""
        parts = []
        for d in self.decisions:
            rows = np.repeat(row.reshape(1, -1), len(d.choices), axis=0)
            rows[:, d.columns] = d.choices
            parts.append(rows[(rows != row.reshape(1, -1)).any(axis=1)])
        rows = np.concatenate(parts)
        return rows[self.valid(rows)]

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows lower to a program within the target's limits (all others are refused)."""
        ok: NDArray[np.bool_] = np.all(rows >= 0, axis=1)
        for nest in self.nests(np.maximum(rows, 0)):
            ok &= _valid_block(nest, self.target)
        return ok

    def canonical(self, rows: Rows) -> Rows:
        """The rows with columns that have no effect set to zero: the same programs."""
        out, col = rows.copy(), 0
        for nest in self.nests(rows):
            col += BlockNest.columns(nest.block)
            out[:, col - 2], out[:, col - 1] = canonical(nest)
        return out

    # -- scoring ----------------------------------------------------------------------------

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the feature columns."""
        from tilework.features import FEATURE_NAMES

        return FEATURE_NAMES

    def features(self, rows: Rows) -> NDArray[np.float32]:
        """Feature matrix (P, S, F): one row per candidate and block; see `tilework.features`."""
        from tilework.features import feature_matrix, terms

        return feature_matrix(terms(self, rows))

    @property
    def store_feature_names(self) -> tuple[str, ...]:
        """Names of the columns of `store_features`."""
        from tilework.features.stores import STORE_FEATURES

        return STORE_FEATURES

    def store_features(self, rows: Rows) -> NDArray[np.float32]:
        """Per-store features (P, stores, F) in the manner of Ansor, for analysis.

        The learned model reads `features`: see `tilework.features.stores`.
        """
        from tilework.features.statements import statements
        from tilework.features.stores import store_features

        found = [store_features(statements(n), len(rows)) for n in self.nests(rows)]
        return np.concatenate(found, axis=1)

    def draft(self, rows: Rows) -> NDArray[np.float64]:
        """Seconds predicted by the analytic model, one per row."""
        from tilework.model.draft import draft_seconds

        return draft_seconds(self, rows)

    def row_hash(self, rows: Rows) -> NDArray[np.uint64]:
        """A 64-bit identity of each row's program: columns without effect do not count."""
        rows = self.canonical(rows)
        h = np.full(len(rows), 1469598103934665603 + self.id, np.uint64)
        with np.errstate(over="ignore"):
            for c in range(rows.shape[1]):
                h = (h ^ rows[:, c].astype(np.uint64)) * np.uint64(1099511628211)
                h ^= h >> np.uint64(29)
        return h


def vector_lanes(block: Block, target: Target) -> int:
    """Lanes of the vector loop: whole registers of the widest type held or stored (>= 4 bytes)."""
    widest = max(4, dtype_bytes(block.op.dtype), dtype_bytes(block.result.dtype))
    return target.vector_bits // (8 * widest)


def _vector_limit(block: Block, target: Target) -> int:
    if not block.reduce:
        return 8
    if block.const_axes:
        return 1  # the expanded body is long enough
    return 8 if math.prod(a.extent for a in block.spatial[:-1]) == 1 else 4


def _inner_tiles(block: Block, axis: Axis) -> tuple[int, ...]:
    """Innermost tile sizes of an axis that is not vectorised."""
    fixed = block.op.attrs.get("tile", {}).get(axis.name)
    if fixed is not None:
        return (int(fixed),)
    if transform_of(block) is not None:
        return (axis.extent,) if axis in block.const_axes else (1,)
    if block.const_axes:
        return divisors(axis.extent) if axis in block.const_axes else (1,)
    operands = reads(block.source)
    if len(operands) > 1 and all(any(i is axis for i in r.indices) for r in operands):
        return (1,)  # a batch axis: a larger register tile would reuse nothing
    return register_tiles(axis.extent)


def _limited_tiles(block: Block, axis: Axis) -> tuple[int, ...]:
    """Tiles of an axis on which the number of terms depends: whole ones if it is vectorised."""
    step = whole_steps(block)[axis]
    if axis is block.spatial[-1]:
        return (step,)
    return tuple(d for d in divisors(step) if d <= _MAX_LIMITED_TILE)


def _local_tiles(attached: Attached, target: Target) -> list[tuple[str, tuple[int, ...]]]:
    """Register tiles of an attached reduction: points of its last axis but one, and of its last.

    Its region is as large as the tile of the nest, so that a tile larger than the region is cut.
    """
    block = attached.block
    assert block is not None
    *others, last = block.spatial or (None,)
    pixels = tuple(t for t in _LOCAL_PIXELS if t <= others[-1].extent) if others else (1,)
    lanes = vector_lanes(block, target)
    vectors = vector_tiles(last.extent, lanes, _LOCAL_VECTORS) if last is not None else (1,)
    return [("pixels", pixels), ("vector", vectors)]


def _block_decisions(
    block: Block, target: Target, col: int, prefix: str, index: int
) -> tuple[list[Decision], int]:
    out: list[Decision] = []
    levels = block.spatial_levels - 1
    tiled = bool(block.reduce) or block.structure == MULTI_LEVEL
    for i, axis in enumerate(block.spatial):
        if axis in whole_steps(block):
            inner = _limited_tiles(block, axis)
        elif i == len(block.spatial) - 1:
            lanes = vector_lanes(block, target)
            inner = vector_tiles(axis.extent, lanes, _vector_limit(block, target))
        else:
            inner = _inner_tiles(block, axis) if tiled else (1,)
        table = spatial_table(axis.extent, levels, inner)
        out.append(Decision(prefix + axis.name, tuple(range(col, col + levels)), table, "tile"))
        col += levels
    levels = block.reduce_levels - 1
    taps = {b.tap for b in bounds(block)}
    for axis in block.reduce:
        if levels > 0:
            table = reduce_table(axis.extent, levels)
            if axis in taps:  # in one piece, so that the code knows which taps meet the border
                table = table[table[:, -1] == axis.extent]
            if axis is pair_axis(block):
                table = table[table[:, -1] % 2 == 0]
            cols = tuple(range(col, col + levels))
            out.append(Decision(prefix + axis.name, cols, table, "tile"))
            col += levels
    for attached in block.attached_reductions:
        name = f"{attached.op.name} at {block.op.name}"
        for what, choices in _local_tiles(attached, target):
            table = np.array(choices, np.int32).reshape(-1, 1)
            out.append(Decision(f"{name} {what}", (col,), table, "tile"))
            col += 1
    fused = np.arange(len(block.parallel_axes) + 1, dtype=np.int32)
    if not tiled:
        fused = np.array([0, max(len(block.spatial) - 1, 1), len(block.spatial)], np.int32)
    out.append(Decision(prefix + "parallel", (col,), np.unique(fused).reshape(-1, 1), "parallel"))
    looped = block.reduce and not block.const_axes
    limits = np.array(UNROLL_LIMITS if looped else (0,), np.int32)
    out.append(Decision(prefix + "unroll", (col + 1,), limits.reshape(-1, 1), "unroll"))
    return out, col + 2


def _valid_block(nest: BlockNest, target: Target) -> NDArray[np.bool_]:
    block = nest.block
    ok = np.ones(len(nest.parallel), bool)
    for axis, extents in nest.tiles.items():
        covered = np.ones(len(ok), np.int64)
        for extent in extents[1:]:
            ok &= extent >= 1
            covered = covered * extent
        if axis.kind == "reduce":
            ok &= covered * extents[0] == axis.extent
            if axis is pair_axis(block):
                ok &= extents[-1] % 2 == 0
        else:
            ok &= covered < 2 * max(axis.extent, target.lanes())
    ok &= nest.parallel <= len(block.parallel_axes)
    ok &= nest.unroll <= max(UNROLL_LIMITS)
    for axis in block.spatial:
        fixed = block.op.attrs.get("tile", {}).get(axis.name)
        if fixed is not None:
            ok &= nest.tiles[axis][-1] == fixed
    for axis, step in whole_steps(block).items():
        tile = nest.tiles[axis][-1]
        ok &= (step % np.maximum(tile, 1) == 0) if axis is not block.spatial[-1] else tile == step
    lanes = vector_lanes(block, target)
    ok &= scratch_bytes(nest) <= _MAX_TILE_BYTES
    if transform_of(block) is not None:
        return ok & _whole_tiles(nest, lanes)
    pixels = vectors = np.ones(len(ok), np.int64)
    for axis in block.spatial[:-1]:
        pixels = pixels * nest.tiles[axis][-1]
    for axis in block.spatial[-1:]:
        vectors = -(-nest.tiles[axis][-1] // lanes)
    if limits_of(block):
        work = pixels * vectors * copies(nest.unroll)
        ok &= work + vectors <= target.num_vector_registers
    elif block.reduce:
        ok &= pixels * vectors + vectors <= target.num_vector_registers
    else:
        ok &= pixels * vectors <= 32
    for attached, (rows, last) in nest.local.items():
        assert attached.block is not None
        vectors = -(-last // vector_lanes(attached.block, target))
        ok &= rows * vectors + vectors <= target.num_vector_registers
        *others, inner = attached.block.spatial or (None,)
        ok &= (rows <= (others[-1].extent if others else 1)) & (
            last < 2 * max(inner.extent if inner is not None else 1, target.lanes())
        )
    return ok


def _whole_tiles(nest: BlockNest, lanes: int) -> NDArray[np.bool_]:
    """Rows whose register tile is one tile of a transform, one vector wide."""
    block = nest.block
    fixed = block.op.attrs.get("tile", {})
    ok = nest.tiles[block.spatial[-1]][-1] <= lanes
    for axis in block.spatial[:-1]:
        whole = axis.extent if axis in block.const_axes else fixed.get(axis.name, 1)
        ok &= nest.tiles[axis][-1] == whole
    return ok


def scratch_bytes(nest: BlockNest) -> NDArray[np.int64]:
    """Bytes of thread-local buffers: partial sums, tiles written late, attached producers."""
    block = nest.block
    total = np.zeros(len(nest.parallel), np.int64)
    if block.structure == MULTI_LEVEL and (block.write_level or block.accumulate == "tile"):
        tile = np.full(len(total), dtype_bytes(block.op.dtype), np.int64)
        for axis in block.spatial:
            tile = tile * nest.held(axis)
        revisit = np.zeros(len(total), bool)
        for axis in block.reduce:
            revisit |= nest.tiles[axis][0] > 1
        total += np.where(revisit, tile, 0) if not block.write_level else tile
    for attached in block.attached:
        from tilework.space.regions import attached_extents

        size = np.full(len(total), dtype_bytes(attached.op.dtype), np.int64)
        for extent in attached_extents(nest, attached):
            size = size * extent
        total += size
    return total
