"""Calls that only put elements elsewhere: concatenations and slices, told by what they compute.

A concatenation's inputs may be computed where they belong in its output, and a slice may be read
where it lies in its input (`tilework.compiler.slots`). Then the call itself does nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from tilework.index.extents import Extent, known_shape
from tilework.index.form import Form
from tilework.index.symbols import is_static, range_of
from tilework.ops.pad import AROUND
from tilework.te import ComputeDAG
from tilework.te.affine import linear
from tilework.te.expr import Axis, Compare, Const, Expr, IfThenElse, Read
from tilework.te.tensor import Compute, Placeholder


class Part(NamedTuple):
    """An input that is a box of the output: its number, and where it begins in the output."""

    argument: int
    start: tuple[Extent, ...]


class Box(NamedTuple):
    """A whole output that is a box of the only input, at every ``steps``-th of its positions."""

    start: tuple[Extent, ...]
    steps: tuple[int, ...]


def joined(dag: ComputeDAG) -> tuple[Part, ...] | None:
    """The inputs of a concatenation in order, or None for anything else.

    The form: ``i < e0 ? a[.., i, ..] : i < e1 ? b[.., i - e0, ..] : c[.., i - e1, ..]``.
    """
    op = _only_compute(dag)
    if op is None or not isinstance(op.body, IfThenElse):
        return None
    parts: list[Part] = []
    axis: Axis | None = None
    at: Extent = 0
    end: Extent = 0
    rest: Expr = op.body
    while True:
        piece = rest
        if isinstance(rest, IfThenElse):
            limit = _below(rest.cond)
            if limit is None or (axis is not None and limit[0] is not axis):
                return None
            axis, end = limit
            piece = rest.a
        elif axis is not None:
            end = axis.extent
        if axis is None or axis not in op.axes:
            return None
        part = _part(dag, op, piece, axis, at)
        if part is None or at + dag.inputs[part.argument].shape[op.axes.index(axis)] != end:
            return None
        parts.append(part)
        if not isinstance(rest, IfThenElse):
            return tuple(parts)
        at, rest = end, rest.b


def surrounded(dag: ComputeDAG) -> tuple[Part, ...] | None:
    """The input that lies within an output of which nobody reads the rest, or None of others."""
    op = _only_compute(dag)
    if op is None or op.attrs.get(AROUND) != "free" or not isinstance(op.body, IfThenElse):
        return None
    piece = op.body.a
    forms = _forms(dag, op, piece) if isinstance(piece, Read) else None
    if forms is None or any(form.step(a) != 1 for a, form in zip(op.axes, forms, strict=True)):
        return None
    return (Part(0, tuple(-form.const for form in forms)),)


def sliced(dag: ComputeDAG) -> Box | None:
    """Which box of its only input a call returns, or None if it computes anything."""
    op = _only_compute(dag)
    if op is None or not isinstance(op.body, Read) or len(dag.inputs) != 1:
        return None
    forms = _forms(dag, op, op.body)
    if forms is None:
        return None
    steps = [form.step(a) for a, form in zip(op.axes, forms, strict=True)]
    if not is_static(steps):
        return None
    known_steps = known_shape(steps)
    if any(n < 1 and _may_move(a) for n, a in zip(known_steps, op.axes, strict=True)):
        return None
    return Box(tuple(form.const for form in forms), known_steps)


def _only_compute(dag: ComputeDAG) -> Compute | None:
    ops = dag.compute_ops
    return ops[0] if len(ops) == 1 and len(dag.outputs) == 1 and not ops[0].reduce_axes else None


def _below(cond: Expr) -> tuple[Axis, Extent] | None:
    """The axis and the bound of ``axis < bound``."""
    match cond:
        case Compare(op="<", a=Axis() as axis, b=Const() as bound):
            return axis, bound.whole
    return None


def _may_move(axis: Axis) -> bool:
    """Whether an axis has, at some point at least, a second position."""
    return range_of(axis.extent)[1] > 1


def _part(dag: ComputeDAG, op: Compute, piece: Expr, axis: Axis, at: Extent) -> Part | None:
    """The input that ``piece`` reads whole, beginning at position ``at`` of ``axis``."""
    if not isinstance(piece, Read):
        return None
    forms = _forms(dag, op, piece)
    if forms is None:
        return None
    for a, form in zip(op.axes, forms, strict=True):
        wanted = -at if a is axis else 0
        if form.const != wanted or (_may_move(a) and form.step(a) != 1):
            return None
    shape = piece.tensor.shape
    if any(a is not axis and a.extent != n for a, n in zip(op.axes, shape, strict=True)):
        return None
    start = tuple(at if a is axis else 0 for a in op.axes)
    return Part([t.op for t in dag.inputs].index(piece.tensor.op), start)


def _forms(dag: ComputeDAG, op: Compute, read: Read) -> list[Form[Axis]] | None:
    """The indices of a read of an input, each a linear form of the axis in its place alone."""
    inputs = [t.op for t in dag.inputs]
    if not isinstance(read.tensor.op, Placeholder) or read.tensor.op not in inputs:
        return None
    if read.dtype != op.dtype or len(read.indices) != len(op.axes):
        return None
    out: list[Form[Axis]] = []
    for a, index in zip(op.axes, read.indices, strict=True):
        form = linear(index)
        if form is None or set(form.coefficients) - {a}:
            return None
        out.append(form)
    return out
