"""Computations whose extents a run brings, at one point: as static ones, or looked at there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilework.dtypes import is_float
from tilework.index.extents import Extent, substituted
from tilework.index.symbols import Point, Symbolic, value_at
from tilework.te import expr as x
from tilework.te.dag import ComputeDAG
from tilework.te.tensor import Operation, Placeholder, Tensor, make_compute


def at_point(dag: ComputeDAG, at: Point) -> ComputeDAG:
    """The static computation that a symbolic one is where its symbols have these values."""
    return _exchanged(dag, lambda extent: value_at(extent, at))


def seen_at(dag: ComputeDAG, at: Point) -> ComputeDAG:
    """A computation whose typical extents are those of a point: the same code, looked at there."""
    there = {s: replace(s, typicals=(n,)) for s, n in at.items()}
    return _exchanged(dag, lambda extent: substituted(extent, there))


def _exchanged(dag: ComputeDAG, new: Callable[[Extent], Extent]) -> ComputeDAG:
    exchanged_of: dict[Operation, Operation] = {}
    axes: dict[x.Axis, x.Axis] = {}

    def axis(old: x.Axis) -> x.Axis:
        if old not in axes:
            axes[old] = replace(old, extent=new(old.extent))
        return axes[old]

    def moved(node: x.Expr, kids: tuple[x.Expr, ...]) -> x.Expr | None:
        match node:
            case x.Axis():
                return axis(node)
            case x.Const(value=Symbolic() as extent):
                return x.Const(node.dtype, new(extent))
            case x.Cast() | x.Binary(op="/"):
                return _literal(node, kids)
            case x.Read():
                return x.Read(node.dtype, tensor(node.tensor), kids)
            case x.Reduce():
                limits = tuple(
                    (axis(a), n) for (a, _), n in zip(node.limits, kids[1:], strict=True)
                )
                return x.Reduce(
                    node.dtype, node.kind, kids[0], tuple(map(axis, node.axes)), limits
                )
        return None

    def tensor(old: Tensor) -> Tensor:
        return Tensor(exchanged(old.op))

    def exchanged(op: Operation) -> Operation:
        if op not in exchanged_of:
            if isinstance(op, Placeholder):
                exchanged_of[op] = replace(op, shape=tuple(map(new, op.shape)))
            else:
                body = x.rewritten(op.body, moved)
                exchanged_of[op] = make_compute(op.name, tuple(map(axis, op.axes)), body, op.attrs)
        return exchanged_of[op]

    return ComputeDAG([tensor(t) for t in dag.tensors])


def _literal(node: x.Expr, kids: tuple[x.Expr, ...]) -> x.Expr | None:
    """An extent as a float, or a part of it, as a declaration of known extents writes it."""
    values = [kid.value for kid in kids if isinstance(kid, x.Const)]
    if len(values) < len(kids) or not is_float(node.dtype):
        return None
    if any(isinstance(v, Symbolic) for v in values) or not _brought(node):
        return None
    first, *by = (float(v) for v in values if not isinstance(v, Symbolic))
    return x.Const(node.dtype, first / by[0] if by else first)


def _brought(node: x.Expr) -> bool:
    return any(isinstance(n, x.Const) and isinstance(n.value, Symbolic) for n in x.walk(node))
