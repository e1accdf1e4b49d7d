"""Blocks and threads of a kernel, and what a thread holds, for all rows of a population.

What limits and features ask of every form of kernel (`tilework.kinds.cuda.tiling`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes
from tilework.frozen import frozen
from tilework.kinds.cuda.architectures import WARP
from tilework.kinds.cuda.expansion import expanded_terms
from tilework.kinds.cuda.mma.tile import Tiles
from tilework.kinds.cuda.row_chain import chain_of
from tilework.kinds.cuda.staging import aligned, operands, shared_bytes
from tilework.kinds.cuda.tiling import form_of
from tilework.space.levels import Role
from tilework.space.nest import BlockNest, Ints
from tilework.te.expr import Axis

REGISTERS_PER_SM = 65536
"""Of every architecture that is supported."""
LEAST_BLOCKS_PER_SM = 16
"""Resident blocks that every architecture allows; compilers ignore bounds that ask for more."""


@frozen(eq=False)
class Geometry:
    """Extents of a kernel for P rows.

    Attributes:
        threads: of a block.
        grid: blocks.
        shared: bytes of shared memory that a block declares.
        accumulators: values of a thread that are computed at a time.
        fragments: elements of operands that a thread needs for one term of all accumulators.
        expanded: multiply-adds (or elements, where nothing is reduced) in a thread's text.
        overhang: points of the tiles for each point that there is; 1 where tiles divide.
    """

    threads: Ints
    grid: Ints
    shared: Ints
    accumulators: Ints
    fragments: Ints
    expanded: Ints
    overhang: NDArray[np.float64]


def geometry(nest: BlockNest) -> Geometry:
    """The extents of a block's kernel in all rows."""
    match form_of(nest.block):
        case "across" | "rows":
            return _shared_out(nest)
        case "direct" | "transform" | "points":
            return _flat(nest)
        case "mma":
            return _multiplied(nest)
        case _:
            return _tiled(nest)


def registers_asked(nest: BlockNest) -> Ints:
    """Registers that a row allows a thread; 0 where it leaves them to the compiler."""
    asked = nest.values.get("registers")
    return np.zeros(nest.count, np.int64) if asked is None else asked


def least_blocks(threads: Ints, registers: Ints) -> Ints:
    """The launch bound that leaves a thread at least so many registers; 0 where none is needed."""
    warps = -(-threads // WARP)
    blocks = REGISTERS_PER_SM // np.maximum(warps * WARP * registers, 1)
    blocks = np.minimum(blocks, LEAST_BLOCKS_PER_SM)
    return np.where((registers > 0) & (blocks > 1), blocks, 0)


def level_product(nest: BlockNest, role: Role) -> Ints:
    """Points of the spatial loops of one level together."""
    out = np.ones(nest.count, np.int64)
    for level, number in nest.block.levels.numbered:
        if level.role is role and level.kind == "S":
            for axis in nest.block.spatial:
                extents = nest.tiles[axis]
                out = out * extents[number] if number < len(extents) else out
    return out


def held(nest: BlockNest, axis: Axis) -> Ints:
    """Points of a spatial axis that a thread computes at a time."""
    out = np.ones(nest.count, np.int64)
    for level, number in nest.block.levels.numbered:
        own = level.kind == "S" and level.role in (Role.virtual, Role.register)
        if own and number < len(nest.tiles[axis]):
            out = out * nest.tiles[axis][number]
    return out


def overhang_of(nest: BlockNest, axis: Axis) -> NDArray[np.float64]:
    """Points of an axis's tiles for each point that there is."""
    points = np.ones(nest.count)
    for extent in nest.tiles[axis]:
        points = points * extent
    return points / nest.extent(axis)


def _tiled(nest: BlockNest) -> Geometry:
    """Tiles of a block of threads: `TILED`, `RAGGED`."""
    threads = level_product(nest, Role.thread)
    if form_of(nest.block) == "ragged" and "lanes" in nest.values:
        threads = threads * nest.values["lanes"]
    grid = level_product(nest, Role.grid)
    accumulators = level_product(nest, Role.virtual) * level_product(nest, Role.register)
    staged = form_of(nest.block) == "tiled"
    shared = shared_bytes(nest) if staged else np.zeros(nest.count, np.int64)
    return Geometry(
        threads, grid, shared, accumulators, _fragments(nest),
        accumulators * expanded_terms(nest), _overhang(nest),
    )  # fmt: skip


def _multiplied(nest: BlockNest) -> Geometry:
    """Tiles of warps on tensor cores: `MMA`."""
    t = Tiles.of(nest)
    return Geometry(
        t.threads, t.grid, t.shared, t.accumulators, t.fragments, t.multiplied, t.overhang
    )


def _flat(nest: BlockNest) -> Geometry:
    """Small tiles, each of one of the neighbouring threads of the flattened outer points."""
    outer = np.ones(nest.count, np.int64)
    for axis in nest.block.spatial:
        outer = outer * nest.tiles[axis][0]
    threads = nest.values["threads"]
    serial = nest.values.get("serial", np.ones(nest.count, np.int64))
    grid = -(-outer // (threads * serial))
    accumulators = level_product(nest, Role.register)
    terms = expanded_terms(nest)
    none = np.zeros(nest.count, np.int64)
    waste = grid * threads * serial / np.maximum(outer, 1)
    return Geometry(
        threads, grid, none, accumulators, _fragments(nest), accumulators * serial * terms,
        _overhang(nest) * waste,
    )  # fmt: skip


def _shared_out(nest: BlockNest) -> Geometry:
    """Points that neighbouring threads share: `ACROSS`, `ROWS`."""
    lanes, groups = nest.values["lanes"], nest.values["groups"]
    points, held = math.prod(map(nest.extent, nest.block.spatial)), [nest.block.op.dtype]
    if form_of(nest.block) == "rows":
        chain = chain_of(nest.block)
        points, held = chain.count, [r.dtype for r in chain.reductions]
    threads = lanes * groups
    warps = -(-threads // WARP)
    scratch = sum(aligned(warps * dtype_bytes(dtype)) for dtype in held)
    ones = np.ones(nest.count, np.int64)
    grid = -(-points // groups)
    return Geometry(
        threads, grid, np.where(lanes > WARP, scratch, 0), ones,
        ones * len(operands(nest.block)), expanded_terms(nest),
        grid * groups / max(points, 1),
    )  # fmt: skip


def _fragments(nest: BlockNest) -> Ints:
    out = np.zeros(nest.count, np.int64)
    for operand in operands(nest.block):
        elements = np.ones(nest.count, np.int64)
        for axis in operand.axes if operand.forms is not None else nest.block.spatial:
            if axis.kind == "spatial":
                elements = elements * held(nest, axis)
        out = out + elements
    return out


def _overhang(nest: BlockNest) -> NDArray[np.float64]:
    out = np.ones(nest.count)
    for axis in nest.block.spatial:
        out = out * overhang_of(nest, axis)
    return out
