"""Computations whose extents a run brings, at one point: as static ones, or looked at there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache
from operator import is_
from typing import Any, TypeVar, cast

from tilework.dtypes import is_float
from tilework.index.extents import Extent, substituted
from tilework.index.symbols import Point, Symbol, Symbolic, value_at
from tilework.te import expr as x
from tilework.te.dag import ComputeDAG
from tilework.te.tensor import Compute, Operation, Placeholder, Tensor

V = TypeVar("V")
_PLAIN = {str, int, float, bool, type(None)}
"""Types of values that hold nothing else."""


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
    pairs = tuple(by.items())
    return Exchange(lambda extent: _substituted(extent, pairs))


@lru_cache(1 << 12)
def _substituted(extent: Extent, by: tuple[tuple[Symbol, Symbol], ...]) -> Extent:
    """Kept: tasks of a network have extents in common."""
    return substituted(extent, dict(by))


class Exchange:
    """Computations of other extents; what holds none of those that change is what it was.

    Everything is exchanged once, so that what is shared stays so.

    Args:
        new: the extent in place of one.
    """

    def __init__(self, new: Callable[[Extent], Extent]) -> None:
        self._new = new
        self._extents: dict[Extent, Extent] = {}
        self._dags: dict[ComputeDAG, ComputeDAG] = {}
        self._ops: dict[Operation, Operation] = {}
        self._tensors: dict[Operation, Tensor] = {}
        self._bodies: dict[x.Expr, x.Expr] = {}
        self._values: dict[int, tuple[Any, Any]] = {}

    def extent(self, old: Extent) -> Extent:
        """The extent in place of one."""
        if not isinstance(old, Symbolic):
            return old
        if old not in self._extents:
            self._extents[old] = self._new(old)
        return self._extents[old]

    def dag(self, dag: ComputeDAG) -> ComputeDAG:
        """The computation in place of one."""
        if dag not in self._dags:
            tensors = tuple(map(self._tensor, dag.tensors))
            same = all(map(is_, tensors, dag.tensors))
            self._dags[dag] = dag if same else ComputeDAG(tensors)
        return self._dags[dag]

    def of(self, value: V) -> V:
        """The value in place of one that holds extents, stages or expressions."""
        return cast(V, self._value(value))

    def _value(self, old: Any) -> Any:
        if type(old) in _PLAIN:
            return old
        if isinstance(old, x.Expr):
            return self._expr(old)
        if isinstance(old, tuple):
            new = tuple([self._value(v) for v in old])
            return old if all(map(is_, new, old)) else new
        match old:
            case Symbolic():
                return self.extent(old)
            case Compute() | Placeholder():
                return self._op(old)
            case frozenset():
                return frozenset(map(self._value, old))
            case Mapping():
                return {self._value(k): self._value(v) for k, v in old.items()}
        if id(old) not in self._values:
            parts = tuple([getattr(old, name) for name in _fields(old.__class__)])
            new = self._value(parts)
            self._values[id(old)] = old, old if new is parts else type(old)(*new)
        return self._values[id(old)][1]

    def _op(self, op: Operation) -> Operation:
        if op not in self._ops:
            self._ops[op] = self._made(op)
        return self._ops[op]

    def _made(self, op: Operation) -> Operation:
        if isinstance(op, Placeholder):
            shape = self._value(op.shape)
            return op if shape is op.shape else replace(op, shape=shape)
        axes, body = self._value(op.axes), self._expr(op.body)
        same = axes is op.axes and body is op.body
        return op if same else Compute(op.name, axes, body, op.attrs)

    def _tensor(self, old: Tensor) -> Tensor:
        op = self._op(old.op)
        return old if op is old.op else self._tensors.setdefault(op, Tensor(op))

    def _expr(self, e: x.Expr) -> x.Expr:
        return x.rewritten(e, self._moved, self._bodies)

    def _moved(self, node: x.Expr, kids: tuple[x.Expr, ...]) -> x.Expr | None:
        match node:
            case x.Axis():
                extent = self.extent(node.extent)
                if extent is node.extent:
                    return node
                return x.Axis(node.dtype, node.name, extent, node.kind)
            case x.Const(value=Symbolic() as extent):
                return x.Const(node.dtype, self.extent(extent))
            case x.Cast() | x.Binary(op="/"):
                return _literal(node, kids)
            case x.Read():
                tensor = self._tensor(node.tensor)
                return None if tensor is node.tensor else x.Read(node.dtype, tensor, kids)
            case x.Reduce():
                axes = self._value(node.axes)
                if axes is node.axes:
                    return None
                pairs = zip(node.limits, kids[1:], strict=True)
                limits = tuple((self._value(a), n) for (a, _), n in pairs)
                return x.Reduce(node.dtype, node.kind, kids[0], axes, limits)
        return None


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Names of the fields of a class that has any."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()


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
