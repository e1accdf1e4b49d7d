"""Which rows are programs that a GPU runs, and that its compiler makes in good time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cuda.architectures import WARP, most_registers
from tilework.kinds.cuda.decisions import thread_counts
from tilework.kinds.cuda.geometry import (
    Geometry,
    geometry,
    least_blocks,
    overhang_of,
    registers_asked,
)
from tilework.kinds.cuda.mma import tile as mma
from tilework.kinds.cuda.row_chain import MOST_HELD, chain_of, held_registers
from tilework.kinds.cuda.row_chain import OTHER_REGISTERS as ROW_REGISTERS
from tilework.kinds.cuda.staging import DIRECT, REDUCE_FIRST, fetched, operands, zero_behind
from tilework.kinds.cuda.target import CudaTarget
from tilework.kinds.cuda.tiling import form_of
from tilework.space.blocks import Block
from tilework.space.nest import BlockNest, Ints

MOST_VIRTUAL = 8
"""Virtual threads of a thread, over all axes."""
MOST_EXPANDED = 384
"""Multiply-adds in a thread's text: the compiler then needs less than a third of a second."""
MOST_FETCHED = 64
"""Elements that a thread stages in one fetch, each of which stands in its text."""
MOST_OVERHANG = 1.34
"""Points of the tiles of an axis for each point that there is."""
_MOST_GRID = 2**31 - 1
_OTHER_REGISTERS = 16
"""Registers for addresses and counters, beside accumulators and operands."""
_MOSTLY_USED = 2 / 3
"""Threads of a block's warps that there are at least, where tiles make no whole warps."""
_TINY = 8 * WARP
"""Points of a nest that so few threads compute that warps need not be whole."""


def valid(nest: BlockNest, target: CudaTarget) -> NDArray[np.bool_]:
    """Which rows lower to a program within the target's limits (all others are refused)."""
    block, limits = nest.block, target.limits
    ok = np.ones(nest.count, bool)
    for extents in nest.tiles.values():
        for extent in extents[1:]:
            ok &= extent >= 1
    for kind in ("threads", "lanes", "groups", "serial"):
        if kind in nest.values:
            ok &= nest.values[kind] >= 1
    rest = zero_behind(block) if form_of(block) == "tiled" else ()
    for axis in block.reduce:
        covered = np.ones(nest.count, np.int64)
        for extent in nest.tiles[axis][1:]:
            covered = covered * extent
        divides = axis.points % np.maximum(covered, 1) == 0
        ok &= divides | (overhang_of(nest, axis) <= MOST_OVERHANG if axis in rest else False)
    for axis in block.spatial:
        fixed = block.op.attrs.get("tile", {}).get(axis.name)
        if fixed is not None:
            ok &= nest.tiles[axis][-1] == fixed
    for axis, step in block.ragged.steps.items():
        ok &= step % np.maximum(nest.tiles[axis][-1], 1) == 0
    launch = geometry(nest)
    points = math.prod(a.typical for a in block.spatial)
    ok &= (launch.threads <= limits.max_threads) & (launch.grid <= _MOST_GRID)
    if form_of(block) in ("tiled", "ragged"):
        ok &= (points < _TINY) | _uses_warps(block, launch.threads, limits.max_threads)
    elif points >= _TINY or form_of(block) in ("across", "rows"):
        ok &= (launch.threads >= WARP) & (launch.threads % WARP == 0)
    ok &= launch.shared <= limits.shared_per_block
    ok &= _fits_registers(nest, launch, target)
    if form_of(block) != "transform":
        ok &= launch.expanded <= MOST_EXPANDED
    return ok & _within_form(nest, target)


def _uses_warps(block: Block, threads: Ints, most: int) -> NDArray[np.bool_]:
    """Rows whose blocks have whole warps, or what comes nearest among the tiles that there are.

    Tiles of 17 x 17 points make no whole warps, but warps that are mostly used; many products of
    2 x 3 points, of which a block computes one, make neither.
    """
    counts = thread_counts(block).astype(np.int64)
    counts = counts[counts <= most]
    for used in (_whole, _mostly_used):
        if used(counts).any():
            return used(threads)
    return np.ones(len(threads), bool)


def _whole(threads: Ints) -> NDArray[np.bool_]:
    return np.asarray((threads >= WARP) & (threads % WARP == 0))


def _mostly_used(threads: Ints) -> NDArray[np.bool_]:
    return (threads >= WARP) & (threads >= _MOSTLY_USED * WARP * -(-threads // WARP))


def _fits_registers(nest: BlockNest, launch: Geometry, target: CudaTarget) -> NDArray[np.bool_]:
    """Rows whose accumulators and operands fit into the registers that a thread may have."""
    blocks = least_blocks(launch.threads, registers_asked(nest))
    most = most_registers(target.limits, np.maximum(launch.threads, 1), blocks)
    needed = launch.accumulators + launch.fragments + _OTHER_REGISTERS
    if form_of(nest.block) == "rows":
        return held_registers(nest) + ROW_REGISTERS <= most
    if form_of(nest.block) == "transform":
        return most >= _OTHER_REGISTERS
    if form_of(nest.block) == "tiled":
        staged = fetched(nest, launch.threads, target.limits.async_copy)
        return (needed + staged.in_flight <= most) & (staged.elements <= MOST_FETCHED)
    return needed <= most


def _within_form(nest: BlockNest, target: CudaTarget) -> NDArray[np.bool_]:
    """What only one form of kernel asks for."""
    ok = np.ones(nest.count, bool)
    match form_of(nest.block):
        case "tiled":
            virtual, staged = np.ones(nest.count, np.int64), np.zeros(nest.count, bool)
            fetches = np.ones(nest.count, np.int64)
            for axis in nest.block.spatial:
                virtual = virtual * nest.tiles[axis][1]
                ok &= overhang_of(nest, axis) <= MOST_OVERHANG
            for axis in nest.block.reduce:
                fetches = fetches * nest.tiles[axis][0]
            for i, operand in enumerate(operands(nest.block)):
                mode = nest.values[f"stage{i}"]
                staged |= mode != DIRECT
                ok &= (mode == DIRECT) | (operand.stageable & (mode <= REDUCE_FIRST))
                ok &= (mode != DIRECT) | (operand.attached is None)
            stages = nest.values["stages"]
            two = stages == 2
            ok &= (stages == 1) | two
            ok &= (virtual <= MOST_VIRTUAL) & (~two | staged & (fetches > 1))
        case "direct" | "points":
            for axis in nest.block.spatial:
                ok &= overhang_of(nest, axis) <= MOST_OVERHANG
        case "rows":
            chain = chain_of(nest.block)
            ok &= (held_registers(nest) <= MOST_HELD) & (nest.values["lanes"] < 2 * chain.terms)
        case "mma":
            ok &= mma.valid(nest, target.limits)
        case _:
            pass
    return ok
