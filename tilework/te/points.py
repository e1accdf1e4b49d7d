"""Computations whose extents a run brings, at one point: as static ones, or looked at there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tilework.dtypes import is_float
from tilework.index.extents import Extent, substituted
from tilework.index.symbols import Point, Symbol, Symbolic, value_at
from tilework.te import expr as x
from tilework.te.dag import ComputeDAG
from tilework.te.tensor import Compute, Operation, Placeholder, Tensor, make_compute


def typical_points(symbols: Iterable[Symbol]) -> list[Point]:
    """Where a search looks at symbols together: their typical values in step, the least first.

    One that has fewer values than another keeps each for a while. No point comes twice.
    """
    each = tuple(symbols)
    count = max((len(s.typicals) for s in each), default=0)
    return [{s: s.typicals[i * len(s.typicals) // count] for s in each} for i in range(count)]


def at_point(dag: ComputeDAG, at: Point) -> ComputeDAG:
    """The static computation that a symbolic one is where its symbols have these values."""
    return Exchange(lambda extent: value_at(extent, at)).dag(dag)


def seen_at(at: Point) -> Exchange:
    """Computations whose typical extents are those of a point: the same code, looked at there."""
    return exchange_symbols({s: replace(s, typicals=(n,)) for s, n in at.items()})


def exchange_symbols(by: Mapping[Symbol, Symbol]) -> Exchange:
    """Computations of other symbols."""
    return Exchange(lambda extent: substituted(extent, by))


class Exchange:
    """Computations of other extents; each stage is exchanged once, whichever of them have it.

    Args:
        new: the extent in place of one.
    """

    def __init__(self, new: Callable[[Extent], Extent]) -> None:
        self.extent = new
        self._dags: dict[ComputeDAG, ComputeDAG] = {}
        self._ops: dict[Operation, Operation] = {}
        self._axes: dict[x.Axis, x.Axis] = {}

    def dag(self, dag: ComputeDAG) -> ComputeDAG:
        """The computation in place of one."""
        if dag not in self._dags:
            self._dags[dag] = ComputeDAG([self._tensor(t) for t in dag.tensors])
        return self._dags[dag]

    def stage(self, op: Compute) -> Compute:
        """The stage in place of one."""
        new = self._op(op)
        assert isinstance(new, Compute)
        return new

    def _op(self, op: Operation) -> Operation:
        if op not in self._ops:
            if isinstance(op, Placeholder):
                self._ops[op] = replace(op, shape=tuple(map(self.extent, op.shape)))
            else:
                body, axes = x.rewritten(op.body, self._moved), tuple(map(self._axis, op.axes))
                self._ops[op] = make_compute(op.name, axes, body, op.attrs)
        return self._ops[op]

    def _tensor(self, old: Tensor) -> Tensor:
        return Tensor(self._op(old.op))

    def _axis(self, old: x.Axis) -> x.Axis:
        if old not in self._axes:
            self._axes[old] = replace(old, extent=self.extent(old.extent))
        return self._axes[old]

    def _moved(self, node: x.Expr, kids: tuple[x.Expr, ...]) -> x.Expr | None:
        match node:
            case x.Axis():
                return self._axis(node)
            case x.Const(value=Symbolic() as extent):
                return x.Const(node.dtype, self.extent(extent))
            case x.Cast() | x.Binary(op="/"):
                return _literal(node, kids)
            case x.Read():
                return x.Read(node.dtype, self._tensor(node.tensor), kids)
            case x.Reduce():
                pairs = zip(node.limits, kids[1:], strict=True)
                limits = tuple((self._axis(a), n) for (a, _), n in pairs)
                axes = tuple(map(self._axis, node.axes))
                return x.Reduce(node.dtype, node.kind, kids[0], axes, limits)
        return None


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
