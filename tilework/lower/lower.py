"""Lowering: one sketch and one decision row become a loop program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilework.dtypes import dtype_bytes
from tilework.errors import ScheduleError
from tilework.lower.context import Context, Packed
from tilework.lower.elementwise import lower_elementwise
from tilework.lower.ir import Buffer, Program, Region
from tilework.lower.packing import Packing
from tilework.lower.protocol import Lowered
from tilework.lower.reduction import lower_reduction
from tilework.lower.transform import lower_transform, scattered_ops, spread
from tilework.space.blocks import Block
from tilework.space.nest import BlockNest
from tilework.space.pairs import pair_axis
from tilework.space.sketch import Sketch
from tilework.space.transforms import transform_of
from tilework.te import ComputeDAG
from tilework.te.expr import Axis, linear_axes, reads
from tilework.te.tensor import Operation, Placeholder

_STREAMED_BYTES = 1 << 20


def lower(
    sketch: Sketch, row: Sequence[int], apart: Mapping[int, tuple[int, ...]] | None = None
) -> Lowered:
    """Lower one schedule.

    Args:
        sketch, row: the schedule.
        apart: strides of arguments that are not dense, in elements, by position: the inputs first,
            then the outputs.

    Raises:
        ScheduleError: the row does not fit the sketch or breaks a limit of the target.
    """
    rows = sketch.check(np.asarray(row, dtype=np.int32))
    if not sketch.valid(rows)[0]:
        raise ScheduleError(f"row {list(map(int, rows[0]))} is not valid for sketch {sketch.id}")
    dag = sketch.dag
    nests = sketch.nests(rows)
    packed: dict[Operation, Packed] = {}
    streamed: set[Operation] = set()
    for nest in nests:
        found_here = packings(sketch.blocks, nest)
        packed |= found_here
        streamed |= {op for op, p in found_here.items() if _streamed(nest, op, p)}
    ctx = Context(_io_buffers(dag, packed, streamed, apart or {}), packed)
    scattered = scattered_ops(sketch.blocks)
    for block in sketch.blocks:
        op = block.result
        if op not in ctx.buffers:
            shape = spread(op.shape, op.dtype) if op in scattered else op.shape
            ctx.buffers[op] = ctx.temporary(op.name, shape, op.dtype, "shared")
    regions = []
    for nest in nests:
        transform = transform_of(nest.block)
        if transform is not None:
            parallel, body = lower_transform(ctx, nest, transform)
        else:
            make = lower_reduction if nest.block.reduce else lower_elementwise
            parallel, body = make(ctx, nest)
        regions.append(Region(nest.block.result.name, parallel, body))
    inputs = tuple(ctx.buffers[t.op] for t in dag.inputs)
    outputs = tuple(ctx.buffers[t.op] for t in dag.outputs)
    program = Program(inputs, outputs, tuple(ctx.temporaries), tuple(regions))
    position = {t.op: i for i, t in enumerate(dag.inputs)}
    packing: dict[int, Packing] = {}
    for t in dag.inputs:
        found = packed[t.op][0] if t.op in packed else None
        change = sketch.transforms.get(t.name)
        if change is not None:
            found = found or Packing(t.shape, tuple((s,) for s in t.shape), tuple(range(t.ndim)))
            found = replace(found, shape=change.source, transform=change)
        if found is not None:
            packing[position[t.op]] = found
    return Lowered(program, packing)


def _io_buffers(
    dag: ComputeDAG,
    packed: dict[Operation, Packed],
    streamed: set[Operation],
    apart: Mapping[int, tuple[int, ...]],
) -> dict[Operation, Buffer]:
    out: dict[Operation, Buffer] = {}
    for i, t in enumerate(dag.inputs):
        shape = packed[t.op][0].packed_shape if t.op in packed else t.shape
        out[t.op] = Buffer(t.name, shape, t.dtype, "input", t.op in streamed, apart.get(i))
    for i, t in enumerate(dag.outputs, len(dag.inputs)):
        out[t.op] = Buffer(t.name, t.shape, t.dtype, "output", False, apart.get(i))
    return out


def packings(blocks: Sequence[Block], nest: BlockNest) -> dict[Operation, Packed]:
    """Packed layouts of the constant weights that only this block's anchor reads, once."""
    block = nest.block
    free = set(block.op.attrs.get("layout_free", ()))
    out: dict[Operation, Packed] = {}
    if not block.reduce or block.reduce_levels < 2:
        return out
    for read in reads(block.source):
        op = read.tensor.op
        if not isinstance(op, Placeholder) or op.name not in free or _uses(blocks, op) != 1:
            continue
        axes = linear_axes(read)
        if axes is None or any(
            isinstance(a, Axis) and a.extent != s for a, s in zip(axes, op.shape, strict=True)
        ):
            continue
        loops = [(a, level) for a, level in block.loops if a in axes]
        pair = pair_axis(block)
        if pair in axes and pair is not None:
            loops.append((pair, block.reduce_levels))  # the two elements of a pair: innermost
        tiles: list[tuple[int, ...]] = []
        slots: list[tuple[Axis | None, int]] = []
        for axis, size in zip(axes, op.shape, strict=True):
            if isinstance(axis, Axis):
                cut = [int(t[0]) for t in nest.tiles[axis]]
                if axis is pair:
                    cut[-1:] = [cut[-1] // 2, 2]
                tiles.append(tuple(cut))
                slots += [(axis, level) for level in range(len(cut))]
            else:
                tiles.append((size,))
                slots.append((None, 0))
        order = tuple(slots.index(loop) for loop in loops)
        rest = tuple(i for i in range(len(slots)) if i not in order)
        out[op] = (Packing(op.shape, tuple(tiles), (*rest, *order)), tuple(loops))
    return out


def _streamed(nest: BlockNest, weight: Operation, packed: Packed) -> bool:
    """Whether it pays to ask for packed weights ahead of time.

    Weights of a megabyte come from memory in every run, for other layers' weights pass through the
    caches between two. While they are used for the first of several register tiles, the processor
    itself does not fetch them far enough ahead. Weights that are read only once keep memory busy
    as it is; asking for them then only costs.
    """
    packing, loops = packed
    if math.prod(packing.packed_shape) * dtype_bytes(weight.dtype) < _STREAMED_BYTES:
        return False
    used = {axis for axis, _ in loops}
    others = [a for a in nest.block.spatial if a not in used]
    return any(a.extent > int(nest.tiles[a][-1][0]) for a in others)


def _uses(blocks: Sequence[Block], op: Operation) -> int:
    count = 0
    for block in blocks:
        bodies = [block.body, block.epilogue_body, *(b for a in block.attached for b in a.bodies)]
        count += sum(r.tensor.op is op for b in bodies if b is not None for r in reads(b))
    return count
