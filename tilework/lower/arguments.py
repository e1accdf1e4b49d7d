"""What every lowering begins and ends with: nests of a row, arguments, how weights lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilework.errors import ScheduleError
from tilework.index.extents import known_shape
from tilework.index.strides import Strides
from tilework.lower.ir import Buffer
from tilework.space.nest import BlockNest, exact
from tilework.space.packing import Packing
from tilework.space.packings import Packed
from tilework.space.sketch import Sketch
from tilework.te.expr import Expr
from tilework.te.tensor import Operation


def nests_of(sketch: Sketch, row: Sequence[int]) -> list[BlockNest]:
    """The nests of one schedule.

    Raises:
        ScheduleError: the row does not fit the sketch or breaks a limit of the target.
    """
    rows = sketch.check(np.asarray(row, dtype=np.int32))
    if not sketch.valid(rows)[0]:
        raise ScheduleError(f"row {list(map(int, rows[0]))} is not valid for sketch {sketch.id}")
    return sketch.nests(rows, exact)


def arguments(
    sketch: Sketch,
    packed: Mapping[Operation, Packed],
    streamed: Mapping[Operation, int | Expr],
    strides: Mapping[int, Strides],
) -> dict[Operation, Buffer]:
    """Buffers of the inputs and outputs."""
    dag = sketch.dag
    out: dict[Operation, Buffer] = {}
    for i, t in enumerate(dag.inputs):
        shape = packed[t.op].packing.packed_shape if t.op in packed else t.shape
        ahead = streamed.get(t.op, 0)
        out[t.op] = Buffer(t.name, shape, t.dtype, "input", ahead, strides.get(i))
    for i, t in enumerate(dag.outputs, len(dag.inputs)):
        out[t.op] = Buffer(t.name, t.shape, t.dtype, "output", 0, strides.get(i))
    return out


def weights(sketch: Sketch, packed: Mapping[Operation, Packed]) -> dict[int, Packing]:
    """How inputs must be rearranged before the kernel runs, by position."""
    out: dict[int, Packing] = {}
    for i, t in enumerate(sketch.dag.inputs):
        packing = packed[t.op].packing if t.op in packed else None
        change = sketch.transforms.get(t.name)
        if change is not None:
            shape = known_shape(t.shape)
            packing = packing or Packing(shape, tuple((s,) for s in shape), tuple(range(t.ndim)))
            packing = replace(packing, shape=change.source, transform=change)
        if packing is not None:
            out[i] = packing
    return out
