"""Computations whose extents a run brings, as they are at one point: static ones."""

from __future__ import annotations

from dataclasses import replace

from tilework.index.extents import shape_at
from tilework.index.symbols import Point, Symbolic, value_at
from tilework.te import expr as x
from tilework.te.dag import ComputeDAG
from tilework.te.tensor import Operation, Placeholder, Tensor, make_compute


def at_point(dag: ComputeDAG, at: Point) -> ComputeDAG:
    """The static computation that a symbolic one is where its symbols have these values."""
    made: dict[Operation, Operation] = {}
    axes: dict[x.Axis, x.Axis] = {}

    def axis(old: x.Axis) -> x.Axis:
        if old not in axes:
            axes[old] = replace(old, extent=value_at(old.extent, at))
        return axes[old]

    def moved(node: x.Expr, kids: tuple[x.Expr, ...]) -> x.Expr | None:
        match node:
            case x.Axis():
                return axis(node)
            case x.Const(value=Symbolic() as extent):
                return x.Const(node.dtype, value_at(extent, at))
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
        return Tensor(static(old.op))

    def static(op: Operation) -> Operation:
        if op not in made:
            if isinstance(op, Placeholder):
                made[op] = replace(op, shape=shape_at(op.shape, at))
            else:
                body = x.rewritten(op.body, moved)
                made[op] = make_compute(op.name, tuple(map(axis, op.axes)), body, op.attrs)
        return made[op]

    return ComputeDAG([tensor(t) for t in dag.tensors])
