"""Which rows are programs that a CPU runs well: they fit its registers and a thread's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.decisions import UNROLL_LIMITS, vector_lanes
from tilework.kinds.cpu.llvm.scattered import by_lane
from tilework.kinds.cpu.target import CpuTarget
from tilework.space.blocks import Block
from tilework.space.matrix_unit import in_unit, worthwhile
from tilework.space.nest import BlockNest, Ints
from tilework.space.ragged import copies
from tilework.space.regions import scratch_bytes
from tilework.te.expr import Axis, IfThenElse, Reduce, walk

_MAX_TILE_BYTES = 1 << 20
_MOST_VECTORS = 32
"""Of a register tile that nothing is summed in."""
_MOST_LANES = 64
"""Of one whose lanes are computed one by one: LLVM took minutes for 304 of them in one piece."""
_CHUNKS_PER_CORE = 16
"""Iterations of the outer parallel loops for each thread that suffice to balance them."""


def valid(nest: BlockNest, target: CpuTarget) -> NDArray[np.bool_]:
    """Which rows lower to a program within the target's limits (all others are refused)."""
    block = nest.block
    ok = np.ones(nest.count, bool)
    for axes, extents in nest.by_group(nest.table):
        if extents.shape[1] > 1:
            factors = extents[:, 1:]
            ok &= np.minimum.reduce(factors, axis=(0, 1)) >= 1
            ok &= _covers(axes, target.lanes(), np.multiply.reduce(factors, axis=1))
    for summed in block.reduce if block.dots is not None or block.scaled is not None else ():
        if summed.open:
            continue
        innermost = nest.tiles[summed][-1]
        if block.dots is not None and summed is block.dots.axis:
            ok &= innermost % block.dots.count == 0
        if block.scaled is not None and summed in block.scaled.axes:
            ok &= innermost == summed.points
    ok &= _fusible(nest, target)
    ok &= nest.unroll <= max(UNROLL_LIMITS)
    for axis in block.spatial:
        fixed = block.op.attrs.get("tile", {}).get(axis.name)
        if fixed is not None:
            ok &= nest.tiles[axis][-1] == fixed
    for axis, step in block.ragged.steps.items():
        tile = nest.tiles[axis][-1]
        ok &= (step % np.maximum(tile, 1) == 0) if axis is not block.spatial[-1] else tile == step
    for axis in block.single:
        ok &= nest.tiles[axis][-1] == 1
    ok &= scratch_bytes(nest) <= _MAX_TILE_BYTES
    if block.transform is not None:
        return ok & _whole_tiles(nest, vector_lanes(block, target))
    several = copies(nest.unroll) if block.ragged else 1
    tile = [nest.tiles[a][-1] for a in block.spatial]
    held = _in_registers(block, tile, target, several)
    if block.matrix is not None:
        held = np.where(in_unit(block, tile), worthwhile(nest), held)
    ok &= held
    for attached, (points, last) in nest.local.items():
        assert attached.block is not None
        vectors = -(-last // vector_lanes(attached.block, target))
        ok &= points * vectors + vectors <= target.num_vector_registers
        *outer, inner = attached.block.spatial or (None,)
        ok &= (points <= (outer[-1].typical if outer else 1)) & (
            last < 2 * max(inner.typical if inner is not None else 1, target.lanes())
        )
    return ok


def steady(block: Block, target: CpuTarget) -> int:
    """How many fused loops leave what `valid` says of a row the same wherever it is looked at.

    None where buffers or pieces of a sum are as long as an open axis is there; and only outer
    loops where whether deeper ones need be fused hangs on how long the outer ones are.
    """
    if block.attached or block.matrix or block.transform or block.ragged:
        return -1
    if any(axis.open for axis in block.reduce):
        return -1
    return len(block.parallel_axes if target.num_cores > 1 else block.parallel_loops)


def _covers(axes: tuple[Axis, ...], lanes: int, covered: Ints) -> NDArray[np.bool_]:
    """Rows whose inner loops cover as much of some axes as they may: axes x P points."""
    some, most, summed, points = _ends(axes, lanes)
    ok: NDArray[np.bool_] = np.logical_and.reduce(covered[some] < most, axis=0)
    if len(summed):
        rests = points % np.maximum(covered[summed], 1)
        ok &= ~np.logical_or.reduce(rests, axis=0)
    return ok


@lru_cache(maxsize=1024)
def _ends(axes: tuple[Axis, ...], lanes: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Which axes have bounds, and these; and which are divided, with their points.

    Whatever a run says of an open axis, its last tile is shorter.
    """
    divided = [a.kind == "reduce" and not a.open for a in axes]
    most = [2 * max(a.most if a.open else a.typical, lanes) for a in axes]
    points = [a.points if sums else 1 for a, sums in zip(axes, divided, strict=True)]
    summed = np.flatnonzero(divided)
    some = np.flatnonzero(np.logical_not(divided))
    return some, np.array(most)[some, None], summed, np.array(points, np.int64)[summed, None]


def fits(block: Block, tiles: Sequence[Ints], target: CpuTarget) -> NDArray[np.bool_]:
    """Which innermost tiles of the block's spatial axes any valid row has."""
    if block.transform is not None:
        return np.ones(len(tiles[0]), bool)
    held = _in_registers(block, tiles, target)
    return held if block.matrix is None else held | in_unit(block, tiles)


def _in_registers(
    block: Block, tiles: Sequence[Ints], target: CpuTarget, several: Ints | int = 1
) -> NDArray[np.bool_]:
    """Which register tiles, by the sizes of each spatial axis, the registers hold.

    Args:
        several: how many accumulators an element has.
    """
    one = np.ones(1, np.int64)
    *others, last = tiles or (one,)
    pixels = math.prod(others, start=one)
    vectors = -(-last // vector_lanes(block, target))
    if _lane_by_lane(block):
        return pixels * last <= _MOST_LANES
    if block.reduce:
        return pixels * vectors * several + vectors <= target.num_vector_registers
    return pixels * vectors <= _MOST_VECTORS


@lru_cache(maxsize=1024)
def _lane_by_lane(block: Block) -> bool:
    """Whether lanes are computed one by one."""
    body = block.body.source if isinstance(block.body, Reduce) else block.body
    choices = [e for e in walk(body) if isinstance(e, IfThenElse)] if block.spatial else []
    return any(by_lane(e, block.spatial[-1]) for e in choices)


def _fusible(nest: BlockNest, target: CpuTarget) -> NDArray[np.bool_]:
    """Rows whose parallel loops can be fused, and need be.

    Loops of a deeper level have nothing to add where the outer ones give every thread its share.
    Without an outer loop over a later axis than the first of them, they stand where outer loops
    might: other rows are that program. One that is clipped where tiles overhang its axis, as those
    of an axis do whose extent a run decides, has no number of iterations to share out.
    """
    block, outer = nest.block, len(nest.block.parallel_axes)
    parallel = nest.parallel
    ok, deeper = parallel <= len(block.parallel_loops), parallel > outer
    if not deeper.any():
        return ok
    chunks, last = np.ones(nest.count, np.int64), np.full(nest.count, -1)
    for i, axis in enumerate(block.parallel_axes):
        if axis.typical > 1:
            trips = nest.tiles[axis][0]
            chunks, last = chunks * trips, np.where(trips > 1, i, last)
    first = np.full(nest.count, outer)
    for i, (axis, level) in reversed(list(enumerate(block.parallel_loops[outer:]))):
        extents = nest.tiles[axis]
        if axis.typical > 1 or extents[level].max() > 1:  # tiles may be larger than a small axis
            fused = (parallel > outer + i) & (extents[level] > 1)
            first = np.where(fused, np.minimum(first, i % outer), first)
            if not axis.open:
                inside = np.multiply.reduce(extents[level + 1 :], axis=0)
                over = np.multiply.reduce(extents, axis=0) - axis.typical
                fused &= over >= inside
            ok &= ~fused
    needed = (chunks < _CHUNKS_PER_CORE * target.num_cores) & (first < last)
    return np.asarray(ok & (~deeper | needed))


def _whole_tiles(nest: BlockNest, lanes: int) -> NDArray[np.bool_]:
    """Rows whose register tile is one tile of a transform, one vector wide."""
    block = nest.block
    fixed = block.op.attrs.get("tile", {})
    ok: NDArray[np.bool_] = nest.tiles[block.spatial[-1]][-1] <= lanes
    for axis in block.spatial[:-1]:
        whole = axis.points if axis in block.const_axes else fixed.get(axis.name, 1)
        ok &= nest.tiles[axis][-1] == whole
    return ok
