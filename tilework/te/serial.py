"""A compute DAG as a plain JSON document, and back: what a store keeps beside its records.

The document names its version, lists the operations in order (each reads earlier ones only) and
the tensors by position. An expression is a list: a tag, then its parts. Axes are positions in
their operation's list, spatial axes first. Loading checks everything and executes nothing.

    {"format": "tilework-dag-1",
     "ops": [{"placeholder": "A", "shape": [4, 8], "dtype": "float32"},
             {"compute": "B", "axes": [["i", 4]], "reduce": [["k", 8]], "attrs": {},
              "body": ["reduce", "sum", ["read", 0, ["axis", 0], ["axis", 1]]]}],
     "tensors": [0, 1]}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tilework.errors import TileworkError
from tilework.te.dag import ComputeDAG
from tilework.te.dtypes import NARROW_FLOATS, dtype_bytes, is_float, is_integer
from tilework.te.expr import (
    BINARY,
    INTEGER_OPS,
    REDUCTIONS,
    Axis,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    IfThenElse,
    Logic,
    Lookup,
    Not,
    Read,
    Reduce,
    Select,
    walk,
)
from tilework.te.functions import MATH_FUNCTIONS
from tilework.te.tensor import Operation, Placeholder, Tensor, make_compute

FORMAT = "tilework-dag-1"
_COMPARE = ("<", "<=", ">", ">=", "==", "!=")
_LOGIC = ("and", "or")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_MAX_DEPTH = 200
"""Deepest expression that is read: far beyond any operator, far below Python's stack."""

T = TypeVar("T")


class DagFormatError(TileworkError):
    """A document that does not describe a compute DAG."""


def dag_to_json(dag: ComputeDAG) -> str:
    """The DAG as a JSON document (one line). Equal DAGs with equal names give equal text."""
    unused = [t.op for t in dag.inputs if t.op not in dag.ops]
    ops: tuple[Operation, ...] = (*dag.ops, *dict.fromkeys(unused))
    position = {op: i for i, op in enumerate(ops)}
    document = {
        "format": FORMAT,
        "ops": [_op_document(op, position) for op in ops],
        "tensors": [position[t.op] for t in dag.tensors],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def dag_from_json(text: str) -> ComputeDAG:
    """The DAG that a document describes; its `workload_key` is that of the DAG written.

    Raises:
        DagFormatError: the text is no such document, is of another version, or is inconsistent;
            the message says where.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DagFormatError(f"a compute DAG's document is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise DagFormatError(
            f"not a compute DAG of this version: its format is {found!r}, not {FORMAT!r}"
        )
    ops: list[Operation] = []
    for entry in _list(document.get("ops"), "ops"):
        ops.append(_Loader(ops, f"op {len(ops)}").operation(entry))
    tensors = [Tensor(op) for op in ops]
    picked = [
        tensors[_index(i, len(ops), "tensors")] for i in _list(document.get("tensors"), "tensors")
    ]
    try:
        return ComputeDAG(picked)
    except ValueError as error:
        raise DagFormatError(f"a compute DAG's document is inconsistent: {error}") from error


# --- writing ---------------------------------------------------------------------------------


def _op_document(op: Operation, position: dict[Operation, int]) -> dict[str, Any]:
    if isinstance(op, Placeholder):
        return {"placeholder": op.name, "shape": list(op.shape), "dtype": op.dtype}
    axes = {a: i for i, a in enumerate((*op.axes, *op.reduce_axes))}
    return {
        "compute": op.name,
        "axes": [[a.name, a.extent] for a in op.axes],
        "reduce": [[a.name, a.extent] for a in op.reduce_axes],
        "attrs": {str(k): _plain(v, op.name) for k, v in op.attrs.items()},
        "body": _expr(op.body, axes, position),
    }


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v, where) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [_plain(v, where) for v in parts]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise DagFormatError(f"{where}: an attribute of type {type(value).__name__} cannot be kept")


def _number(value: Any) -> Any:
    value = getattr(value, "item", lambda: value)()  # a NumPy scalar
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _expr(e: Expr, axes: dict[Axis, int], ops: dict[Operation, int]) -> list[Any]:
    def all_of(*parts: Expr) -> list[Any]:
        return [_expr(p, axes, ops) for p in parts]

    match e:
        case Const():
            return ["const", e.dtype, _number(e.value)]
        case Axis():
            return ["axis", axes[e]]
        case Binary() | Compare() | Logic():
            return [e.op, *all_of(e.a, e.b)]
        case Not():
            return ["not", *all_of(e.a)]
        case Select():
            return ["select", *all_of(e.cond, e.a, e.b)]
        case IfThenElse():
            return ["if", *all_of(e.cond, e.a, e.b)]
        case Cast():
            return ["cast", e.dtype, *all_of(e.a)]
        case Call():
            return ["call", e.name, *all_of(*e.args)]
        case Read():
            return ["read", ops[e.tensor.op], *all_of(*e.indices)]
        case Lookup():
            values = [_number(v) for v in e.values]
            return ["lookup", e.name, e.dtype, values, list(e.shape), *all_of(*e.indices)]
        case Reduce():
            order = [axes[a] for a in e.axes]
            limits = [[axes[a], *all_of(limit)] for a, limit in e.limits]
            return ["reduce", e.kind, order, *all_of(e.source), *([limits] if limits else [])]
    raise DagFormatError(f"an expression of type {type(e).__name__} cannot be kept")


# --- reading ---------------------------------------------------------------------------------


def _require(condition: bool, where: str, what: str) -> None:
    if not condition:
        raise DagFormatError(f"a compute DAG's document is wrong at {where}: {what}")


def _list(value: Any, where: str) -> list[Any]:
    _require(isinstance(value, list), where, "a list is expected")
    return list(value)


def _text(value: Any, where: str) -> str:
    _require(isinstance(value, str), where, "a text is expected")
    return str(value)


def _index(value: Any, count: int, where: str) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count
    _require(good, where, f"{value!r} is not a position below {count}")
    return int(value)


def _extent(value: Any, where: str) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31
    _require(good, where, f"{value!r} is not an extent")
    return int(value)


def _one_of(value: Any, known: Sequence[str], where: str) -> str:
    _require(isinstance(value, str) and value in known, where, f"{value!r} is unknown")
    return str(value)


def _dtype(value: Any, where: str) -> str:
    text = _text(value, where)
    _wrapped(lambda: dtype_bytes(text), where)
    return text


def _wrapped(make: Callable[[], T], where: str) -> T:
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise DagFormatError(f"a compute DAG's document is wrong at {where}: {error}") from error


@dataclass
class _Loader:
    """Reads one operation; ``ops`` are those before it."""

    ops: list[Operation]
    where: str
    axes: tuple[Axis, ...] = ()

    def operation(self, entry: Any) -> Operation:
        _require(isinstance(entry, dict), self.where, "an operation is expected")
        if "placeholder" in entry:
            name = _text(entry["placeholder"], self.where)
            shape = tuple(_extent(n, self.where) for n in _list(entry.get("shape"), self.where))
            return Placeholder(name, shape, _dtype(entry.get("dtype"), self.where))
        name = _text(entry.get("compute"), self.where)
        self.where = f"{self.where} ({name})"
        spatial = self._new_axes(entry.get("axes"), "spatial")
        self.axes = (*spatial, *self._new_axes(entry.get("reduce"), "reduce"))
        body = self.expr(entry.get("body"), 0)
        used = body.axes if isinstance(body, Reduce) else ()
        _require(set(used) == set(self.axes[len(spatial) :]), self.where, "its reduce axes differ")
        attrs = entry.get("attrs", {})
        _require(isinstance(attrs, dict), self.where, "its attributes are no object")
        plain = {k: _frozen(v) for k, v in attrs.items()}
        return _wrapped(lambda: make_compute(name, spatial, body, plain), self.where)

    def _new_axes(self, entries: Any, kind: str) -> tuple[Axis, ...]:
        out = []
        for pair in _list(entries, self.where):
            _require(isinstance(pair, list) and len(pair) == 2, self.where, "an axis is a pair")
            name, extent = _text(pair[0], self.where), _extent(pair[1], self.where)
            out.append(Axis("int32", name, extent, kind))
        return tuple(out)

    def expr(self, e: Any, depth: int) -> Expr:
        where = self.where
        _require(isinstance(e, list) and len(e) > 1, where, "an expression is expected")
        _require(depth < _MAX_DEPTH, where, "an expression is nested too deeply")
        tag, rest = _text(e[0], where), e[1:]
        if tag in BINARY or tag in _COMPARE or tag in _LOGIC:
            return self._pair(tag, *self._all(rest, depth, 2))
        match tag:
            case "const":
                _require(len(rest) == 2, where, "a literal has a type and a value")
                return self._const(_dtype(rest[0], where), rest[1])
            case "axis":
                return self.axes[_index(rest[0], len(self.axes), where)]
            case "not":
                (a,) = self._all(rest, depth, 1)
                _require(a.dtype == "bool", where, "'not' needs a predicate")
                return Not("bool", a)
            case "select" | "if":
                cond, a, b = self._all(rest, depth, 3)
                _require(cond.dtype == "bool" and a.dtype == b.dtype, where, "types of a choice")
                return (Select if tag == "select" else IfThenElse)(a.dtype, cond, a, b)
            case "cast":
                return Cast(_dtype(rest[0], where), *self._all(rest[1:], depth, 1))
            case "call":
                name = _one_of(rest[0], MATH_FUNCTIONS, where)
                args = tuple(self._all(rest[1:], depth))
                same = {a.dtype for a in args}
                _require(len(same) == 1 and is_float(args[0].dtype), where, "types of a call")
                return Call(args[0].dtype, name, args)
            case "read":
                op = self.ops[_index(rest[0], len(self.ops), where)]
                indices = tuple(self._all(rest[1:], depth))
                _require(len(indices) == len(op.shape), where, f"dimensions of {op.name}")
                whole = all(is_integer(i.dtype) for i in indices)
                _require(whole, where, f"an index of {op.name} is no integer")
                return Read(op.dtype, Tensor(op), indices)
            case "lookup":
                return self._lookup(rest, depth)
            case "reduce":
                return self._reduce(rest, depth)
        raise DagFormatError(f"a compute DAG's document is wrong at {where}: tag {tag!r}")

    def _all(self, parts: Sequence[Any], depth: int, count: int | None = None) -> list[Expr]:
        if count is not None:
            _require(len(parts) == count, self.where, f"{count} operands are expected")
        return [self.expr(p, depth + 1) for p in parts]

    def _pair(self, tag: str, a: Expr, b: Expr) -> Expr:
        _require(a.dtype == b.dtype, self.where, f"operands of '{tag}' have two types")
        if tag in _LOGIC:
            _require(a.dtype == "bool", self.where, f"'{tag}' needs predicates")
            return Logic("bool", tag, a, b)
        if tag in _COMPARE:
            return Compare("bool", tag, a, b)
        _require(tag != "/" or is_float(a.dtype), self.where, "'/' needs floating-point operands")
        whole = tag not in INTEGER_OPS or is_integer(a.dtype)
        _require(whole, self.where, f"'{tag}' needs integer operands")
        moved = tag in ("max", "min") or a.dtype not in (*NARROW_FLOATS, "bool")
        _require(moved, self.where, f"'{tag}' is not defined for {a.dtype}")
        return Binary(a.dtype, tag, a, b)

    def _const(self, dtype: str, value: Any) -> Const:
        if isinstance(value, str):
            value = _SPECIAL[_one_of(value, tuple(_SPECIAL), self.where)]
        _require(isinstance(value, (bool, int, float)), self.where, "a literal is no number")
        return Const(dtype, value)

    def _lookup(self, rest: list[Any], depth: int) -> Lookup:
        _require(len(rest) >= 4, self.where, "a constant matrix has four parts or more")
        shape = tuple(_extent(n, self.where) for n in _list(rest[3], self.where))
        dtype = _dtype(rest[1], self.where)
        values = tuple(self._const(dtype, v).value for v in _list(rest[2], self.where))
        indices = tuple(self._all(rest[4:], depth))
        fits = len(values) == math.prod(shape) and len(indices) == len(shape)
        _require(fits, self.where, "a constant matrix and its shape differ")
        return Lookup(dtype, _text(rest[0], self.where), values, shape, indices)

    def _reduce(self, rest: list[Any], depth: int) -> Reduce:
        whole = len(rest) in (3, 4) and depth == 0
        _require(whole, self.where, "a reduction is a whole body")
        axes = [self.axes[_index(i, len(self.axes), self.where)]
                for i in _list(rest[1], self.where)]  # fmt: skip
        _require(all(a.kind == "reduce" for a in axes), self.where, "a spatial axis is reduced")
        source = self.expr(rest[2], depth + 1)
        kind = _one_of(rest[0], REDUCTIONS, self.where)
        limits = tuple(self._limit(e, axes) for e in _list(rest[3:] and rest[3], self.where))
        return Reduce(source.dtype, kind, source, tuple(axes), limits)

    def _limit(self, entry: Any, axes: Sequence[Axis]) -> tuple[Axis, Expr]:
        """The limit of a reduce axis, ``[axis, expression]``."""
        pair = isinstance(entry, list) and len(entry) == 2
        _require(pair, self.where, "a limit has an axis and an expression")
        axis = self.axes[_index(entry[0], len(self.axes), self.where)]
        limit = self.expr(entry[1], 1)
        inside = any(n in axes for n in walk(limit))
        good = axis in axes and limit.dtype == "int32" and not inside
        _require(good, self.where, "a limit is an int32 expression of spatial axes")
        return axis, limit


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, dict):
        return {k: _frozen(v) for k, v in value.items()}
    return value
