"""Lowering: one sketch and one decision row become a loop program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilework.dtypes import dtype_bytes
from tilework.errors import ScheduleError
from tilework.lower.context import Context
from tilework.lower.elementwise import lower_elementwise
from tilework.lower.ir import Buffer, Program, Region
from tilework.lower.protocol import Lowered
from tilework.lower.reduction import lower_reduction
from tilework.lower.transform import lower_transform, scattered_ops, spread
from tilework.space.nest import BlockNest
from tilework.space.packing import Packed, Packing, packings
from tilework.space.sketch import Sketch
from tilework.space.transforms import transform_of
from tilework.te import ComputeDAG
from tilework.te.tensor import Operation

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
            ctx.buffers[op] = ctx.temporary(op.name, shape, op.dtype, "global")
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
