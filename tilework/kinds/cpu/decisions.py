"""What a row decides about a block on a CPU: tiles, parallel loops, expansion."""

from __future__ import annotations

import math

from tilework.dtypes import dtype_bytes
from tilework.kinds.cpu.target import CpuTarget
from tilework.space.blocks import Attached, Block
from tilework.space.decision import Open
from tilework.space.rests import has_rest
from tilework.space.tables import (
    column,
    divisors,
    open_reduce_table,
    reduce_table,
    register_tiles,
    spatial_table,
    vector_tiles,
    whole_vectors,
)
from tilework.te.expr import Axis, reads

UNROLL_LIMITS = (0, 32, 96, 192)
_LOCAL_PIXELS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_LOCAL_VECTORS = 4
_MAX_RAGGED_TILE = 16


def vector_lanes(block: Block, target: CpuTarget) -> int:
    """Lanes of the vector loop: whole registers of the widest type held or stored (>= 4 bytes)."""
    widest = max(4, dtype_bytes(block.op.dtype), dtype_bytes(block.result.dtype))
    return target.vector_bits // (8 * widest)


def _vector_limit(block: Block) -> int:
    if not block.reduce:
        return 8
    if block.const_axes:
        return 1  # the expanded body is long enough
    chosen = block.chosen or ()
    rows = (a.typical for a in block.spatial[:-1] if a not in chosen)
    return 8 if math.prod(rows) == 1 else 4


def _inner_tiles(block: Block, axis: Axis) -> tuple[int, ...]:
    """Innermost tile sizes of an axis that is not vectorised."""
    fixed = block.op.attrs.get("tile", {}).get(axis.name)
    if fixed is not None:
        return (int(fixed),)
    if block.transform is not None:
        return (axis.typical,) if axis in block.const_axes else (1,)
    if block.const_axes:
        return divisors(axis.typical) if axis in block.const_axes else (1,)
    operands = reads(block.source)
    if len(operands) > 1 and all(any(i is axis for i in r.indices) for r in operands):
        return (1,)  # a batch axis: a larger register tile would reuse nothing
    return register_tiles(axis.typical)


def _ragged_tiles(block: Block, axis: Axis) -> tuple[int, ...]:
    """Tiles of an axis on which the number of terms depends: whole ones if it is vectorised."""
    step = block.ragged.steps[axis]
    if axis is block.spatial[-1]:
        return (step,)
    return tuple(d for d in divisors(step) if d <= _MAX_RAGGED_TILE)


def _local_tiles(attached: Attached, target: CpuTarget) -> list[tuple[str, tuple[int, ...]]]:
    """Register tiles of an attached reduction: points of its last axis but one, and of its last.

    Its region is as large as the tile of the nest, so that a tile larger than the region is cut.
    """
    block = attached.block
    assert block is not None
    *others, last = block.spatial or (None,)
    pixels = tuple(t for t in _LOCAL_PIXELS if t <= others[-1].typical) if others else (1,)
    lanes = vector_lanes(block, target)
    vectors = vector_tiles(last.typical, lanes, _LOCAL_VECTORS) if last is not None else (1,)
    return [("pixels", pixels), ("vector", vectors)]


def decisions(block: Block, target: CpuTarget) -> list[Open]:
    """What a row decides about a block, in the order of its columns."""
    out: list[Open] = []
    levels = block.spatial_levels - 1
    tiled = bool(block.reduce)
    for i, axis in enumerate(block.spatial):
        if axis in block.single:
            inner: tuple[int, ...] = (1,)
        elif axis in block.ragged.steps:
            inner = _ragged_tiles(block, axis)
        elif i == len(block.spatial) - 1:
            lanes = vector_lanes(block, target)
            limit = _vector_limit(block)
            if not axis.open:
                inner = vector_tiles(axis.typical, lanes, limit)
            else:  # terms side by side are summed across lanes, however few points there are
                alone = (1,) if any(has_rest(block.source, a) for a in block.reduce) else ()
                inner = (*alone, *whole_vectors(axis.most, lanes, limit))
        else:
            inner = _inner_tiles(block, axis) if tiled else (1,)
        out.append(Open(axis.name, spatial_table(axis.typical, levels, inner), "tile", axis))
    levels = block.reduce_levels - 1
    taps = {b.tap for b in block.bounds}
    for axis in block.reduce if levels > 0 else ():
        if axis.open:
            table = open_reduce_table(axis.typical, axis.most, levels)
            out.append(Open(axis.name, table, "tile", axis))
            continue
        table = reduce_table(axis.typical, levels)
        if axis in taps:  # in one piece, so that the code knows which taps meet the border
            table = table[table[:, -1] == axis.typical]
        if block.dots is not None and axis is block.dots.axis:
            table = table[table[:, -1] % block.dots.count == 0]
        if block.scaled is not None and axis in block.scaled.axes:
            table = table[table[:, -1] == axis.typical]
        out.append(Open(axis.name, table, "tile", axis))
    for attached in block.attached_reductions:
        for what, choices in _local_tiles(attached, target):
            name = f"{attached.op.name} at {block.op.name} {what}"
            out.append(Open(name, column(choices), "tile", attached=attached))
    out.append(Open("parallel", column(_fused(block, target)), "parallel"))
    looped = block.reduce and not block.const_axes and block.scatter is None
    out.append(Open("unroll", column(UNROLL_LIMITS if looped else (0,)), "unroll"))
    return out


def _fused(block: Block, target: CpuTarget) -> list[int]:
    """How many outer loops may be fused: up to each one that can have several iterations.

    Loops of a deeper level only where there are threads to occupy.
    """
    loops = block.parallel_loops
    if target.num_cores == 1:
        loops = loops[: len(block.parallel_axes)]
    return [0, *(i + 1 for i, (axis, _) in enumerate(loops) if axis.typical > 1)]
