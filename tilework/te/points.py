"""Computations whose extents a run brings, at one point: as static ones, or looked at there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilework.index.extents import Extent
from tilework.index.symbols import Point, Symbolic, substituted, value_at
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
    made: dict[Operation, Operation] = {}
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
        if op not in made:
            if isinstance(op, Placeholder):
                made[op] = replace(op, shape=tuple(map(new, op.shape)))
            else:
                body = x.rewritten(op.body, moved)
                made[op] = make_compute(op.name, tuple(map(axis, op.axes)), body, op.attrs)
        return made[op]

    return ComputeDAG([tensor(t) for t in dag.tensors])
