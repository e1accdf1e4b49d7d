"""Reference evaluation of a compute DAG with NumPy: what the declarations mean, and nothing else.

It shares no code with lowering or code generation, so it can judge them. It is quick enough to be
used for every candidate: an operand that is read at affine positions is a strided view, and a sum
of products goes through BLAS.

An operation is evaluated over a *grid* with one dimension per axis (spatial axes first, then
reduce axes); every sub-expression is an array over the grid with extent 1 where it does not vary.

Values of bfloat16 are held as float32: conversions to bfloat16 round to nearest, ties to even.
Integers wrap around; conversions follow `tilework.dtypes.converted`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tilework.index.extents import known_shape
from tilework.te.dag import ComputeDAG
from tilework.te.expr import Axis, Read, Reduce, walk
from tilework.te.grid import Grid, Range, Ranges, held_type, rounded
from tilework.te.reduction import loops_over_terms, reduced
from tilework.te.tensor import Compute, Operation

# elements of the largest intermediate array; larger operations are evaluated piece by piece
_GRID_LIMIT = 2**23


def evaluate(
    dag: ComputeDAG, inputs: Sequence[np.ndarray], dtype: str | None = None
) -> list[np.ndarray]:
    """Evaluate ``dag``.

    Args:
        dag: the computation.
        inputs: one array per placeholder, in the order of ``dag.inputs``.
        dtype: compute all floating-point values in this type (for example ``"float64"`` for a
            reference of higher precision) instead of the declared ones; nothing is then rounded
            to bfloat16.

    Returns:
        One array per output, of the declared dtype (float32 for bfloat16) or ``dtype``.

    Raises:
        ValueError: the inputs do not match the placeholders.
        IndexError: an unguarded read falls outside its tensor.
    """
    if len(inputs) != len(dag.inputs):
        raise ValueError(f"the DAG takes {len(dag.inputs)} inputs, got {len(inputs)}")
    values: dict[Operation, np.ndarray] = {}
    for tensor, array in zip(dag.inputs, inputs, strict=True):
        if tuple(array.shape) != tensor.shape:
            raise ValueError(
                f"input {tensor.name} has shape {list(array.shape)}, expected {list(tensor.shape)}"
            )
        values[tensor.op] = np.asarray(array, held_type(tensor.dtype, dtype), order="C")
    # reads of a branch that is not taken may compute nonsense, which is then discarded
    with np.errstate(all="ignore"):
        for op in dag.compute_ops:
            values[op] = _evaluate_op(op, values, dtype)
    return [values[t.op] for t in dag.outputs]


def _evaluate_op(
    op: Compute, values: dict[Operation, np.ndarray], dtype: str | None
) -> np.ndarray:
    axes = (*op.axes, *op.reduce_axes)
    full = {a: Range(d, 0, a.points) for d, a in enumerate(axes)}
    out = np.empty(known_shape(op.shape), held_type(op.dtype, dtype))
    for ranges in _pieces(op, full):
        grid = Grid(ranges, values, dtype)
        value = (
            reduced(grid, op.body, len(op.axes)) if isinstance(op.body, Reduce) else grid(op.body)
        )
        value = np.asarray(rounded(value, op.dtype, dtype))
        if value.ndim:
            value = value.reshape(value.shape[: len(op.axes)])
        where = tuple(slice(ranges[a].start, ranges[a].start + ranges[a].count) for a in op.axes)
        out[where] = value
    return out


def _pieces(op: Compute, full: Ranges) -> Iterator[Ranges]:
    """Split the longest spatial axis of the largest operand so that it stays within the limit."""
    source = op.body.source if isinstance(op.body, Reduce) else op.body
    loops = isinstance(op.body, Reduce) and loops_over_terms(op.body)
    ragged = {a for a, _ in op.body.limits} if isinstance(op.body, Reduce) else set()
    footprints = [op.axes]
    for node in walk(source):
        if isinstance(node, Read):
            used = dict.fromkeys(a for i in node.indices for a in walk(i) if isinstance(a, Axis))
            kept = (a for a in used if a not in ragged and not (loops and a.kind == "reduce"))
            footprints.append(tuple(kept))
    widest = max(footprints, key=lambda used: math.prod(a.points for a in used))
    size = math.prod(a.points for a in widest)
    spatial = [a for a in widest if a.kind == "spatial"]
    if size <= _GRID_LIMIT or not spatial:
        yield full
        return
    axis = max(spatial, key=lambda a: a.points)
    step = max(1, axis.points * _GRID_LIMIT // size)
    for start in range(0, axis.points, step):
        count = min(step, axis.points - start)
        yield {**full, axis: Range(full[axis].dim, start, count)}
