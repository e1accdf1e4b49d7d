"""A compute DAG as a plain JSON document, and back: what a store keeps beside its records.

The document names its version, lists the operations in order (each reads earlier ones only) and
the tensors by position. An expression is a list: a tag, then its parts. Axes are positions in
their operation's list, spatial axes first. Loading checks everything and executes nothing.

    {"format": "tilework-dag-1",
     "ops": [{"placeholder": "A", "shape": [4, 8], "dtype": "float32"},
             {"compute": "B", "axes": [["i", 4]], "reduce": [["k", 8]], "attrs": {},
              "body": ["reduce", "sum", ["read", 0, ["axis", 0], ["axis", 1]]]}],
     "tensors": [0, 1]}

Extents that a run decides stand as `tilework.index.documents` writes them, their symbols in a
table ``symbols``; a literal of one is ``["extent", dtype, extent]``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilework.errors import TileworkError
from tilework.index.documents import extent_document, extent_of, table_document, table_of
from tilework.index.extents import Extent
from tilework.index.symbols import Symbol, Symbolic, range_of
from tilework.te import expr as x
from tilework.te.dag import ComputeDAG
from tilework.te.documents import MAX_DEPTH, Forms, Reader, line
from tilework.te.tensor import Operation, Placeholder, Tensor, make_compute

FORMAT = "tilework-dag-1"
_FORMS: Forms = {
    x.Const: ("const", ("dtype", "value")), x.Not: ("not", ()), x.Select: ("select", ()),
    x.IfThenElse: ("if", ()), x.Cast: ("cast", ("dtype",)), x.Call: ("call", ("name",)),
    x.Lookup: ("lookup", ("name", "dtype", "values", "shape")),
    **dict.fromkeys((x.Binary, x.Compare, x.Logic), ("", ("op",))),
}  # fmt: skip


class DagFormatError(TileworkError):
    """A document that does not describe a compute DAG."""


def dag_to_json(dag: ComputeDAG) -> str:
    """The DAG as a JSON document (one line). Equal DAGs with equal names give equal text."""
    unused = [t.op for t in dag.inputs if t.op not in dag.ops]
    ops: tuple[Operation, ...] = (*dag.ops, *dict.fromkeys(unused))
    position = {op: i for i, op in enumerate(ops)}
    document = {
        "format": FORMAT,
        **({"symbols": table_document(dag.symbols)} if dag.symbols else {}),
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
    document, reader = _Loader.parsed(text), _Loader()
    reader.where = "symbols"
    reader.symbols = reader.wrapped(lambda: table_of(document.get("symbols", [])))
    reader.where = "ops"
    for entry in reader.items(document.get("ops")):
        reader.ops.append(reader.operation(entry))
    reader.where = "tensors"
    tensors = [Tensor(op) for op in reader.ops]
    picked = [tensors[reader.index(i, tensors)] for i in reader.items(document.get("tensors"))]
    try:
        return ComputeDAG(picked)
    except ValueError as error:
        raise DagFormatError(f"a compute DAG's document is inconsistent: {error}") from error


# --- writing ---------------------------------------------------------------------------------


def _op_document(op: Operation, position: dict[Operation, int]) -> dict[str, Any]:
    if isinstance(op, Placeholder):
        shape = list(map(extent_document, op.shape))
        return {"placeholder": op.name, "shape": shape, "dtype": op.dtype}
    axes = {a: i for i, a in enumerate((*op.axes, *op.reduce_axes))}
    return {
        "compute": op.name,
        "axes": [[a.name, extent_document(a.extent)] for a in op.axes],
        "reduce": [[a.name, extent_document(a.extent)] for a in op.reduce_axes],
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


def _expr(e: x.Expr, axes: dict[x.Axis, int], ops: dict[Operation, int]) -> list[Any]:
    if isinstance(e, x.Axis):
        return ["axis", axes[e]]
    if isinstance(e, x.Const) and isinstance(e.value, Symbolic):
        return ["extent", e.dtype, extent_document(e.value)]
    parts = [_expr(p, axes, ops) for p in x.children(e)]
    if isinstance(e, x.Read):
        return ["read", ops[e.tensor.op], *parts]
    if isinstance(e, x.Reduce):
        limits = [[axes[a], limit] for (a, _), limit in zip(e.limits, parts[1:], strict=True)]
        order = [axes[a] for a in e.axes]
        return ["reduce", e.kind, order, parts[0], *([limits] if limits else [])]
    written = line(e, _FORMS, parts)
    if written is None:
        raise DagFormatError(f"an expression of type {type(e).__name__} cannot be kept")
    return written


# --- reading ---------------------------------------------------------------------------------


class _Loader(Reader):
    """Reads one operation after the other; ``axes`` are those of the latest."""

    kind, format, error, forms = "compute DAG", FORMAT, DagFormatError, _FORMS

    def __init__(self) -> None:
        self.where = "ops"
        self.ops: list[Operation] = []
        self.axes: tuple[x.Axis, ...] = ()
        self.symbols: dict[str, Symbol] = {}

    def index(self, value: Any, items: Sequence[Any]) -> int:
        """A position among the items."""
        return self.whole(value, below=len(items), what=f"not a position below {len(items)}")

    def extent(self, value: Any) -> Extent:
        """How far an axis goes."""
        if isinstance(value, int):
            return self.whole(value, 1, 2**31, "not an extent")
        extent = self.wrapped(lambda: extent_of(value, self.symbols))
        low, high = range_of(extent)
        self.require(low >= 1 and high < 2**31, f"an extent goes from {low} to {high}")
        return extent

    def operation(self, entry: Any) -> Operation:
        """The next operation."""
        self.where = f"op {len(self.ops)}"
        self.require(isinstance(entry, dict), "an operation is expected")
        if "placeholder" in entry:
            name = self.text(entry["placeholder"])
            shape = tuple(self.extent(n) for n in self.items(entry.get("shape")))
            return Placeholder(name, shape, self.dtype(entry.get("dtype")))
        name = self.text(entry.get("compute"))
        self.where = f"{self.where} ({name})"
        spatial = self._new_axes(entry.get("axes"), "spatial")
        self.axes = (*spatial, *self._new_axes(entry.get("reduce"), "reduce"))
        body = self.expr(entry.get("body"), 0)
        used = body.axes if isinstance(body, x.Reduce) else ()
        self.require(set(used) == set(self.axes[len(spatial) :]), "its reduce axes differ")
        attrs = entry.get("attrs", {})
        self.require(isinstance(attrs, dict), "its attributes are no object")
        plain = {k: _frozen(v) for k, v in attrs.items()}
        return self.wrapped(lambda: make_compute(name, spatial, body, plain))

    def _new_axes(self, entries: Any, kind: str) -> tuple[x.Axis, ...]:
        pairs = [self.items(pair, 2) for pair in self.items(entries)]
        return tuple(x.Axis("int32", self.text(n), self.extent(e), kind) for n, e in pairs)

    def expr(self, e: Any, depth: int) -> x.Expr:
        """An expression inside so many others."""
        self.require(isinstance(e, list) and len(e) > 1, "an expression is expected")
        self.require(depth < MAX_DEPTH, "an expression is nested too deeply")
        match e:
            case ["axis", number, *_]:
                return self.axes[self.index(number, self.axes)]
            case ["extent", dtype, extent]:
                literal = self.wrapped(lambda: extent_of(extent, self.symbols))
                return self.wrapped(lambda: x.wrap(literal, self.dtype(dtype)))
            case ["read", number, *rest]:
                op = self.ops[self.index(number, self.ops)]
                indices = [self.expr(p, depth + 1) for p in rest]
                self.require(len(indices) == len(op.shape), f"dimensions of {op.name}")
                return x.Read(op.dtype, Tensor(op), self.indices(indices, len(op.shape)))
            case ["reduce", *rest]:
                self.require(len(rest) in (3, 4) and depth == 0, "a reduction is a whole body")
                return self._reduce(*rest)
        return self.node(e, lambda part: self.expr(part, depth + 1))

    def _reduce(self, kind: Any, order: Any, source: Any, *limits: Any) -> x.Reduce:
        axes = tuple(self.axes[self.index(i, self.axes)] for i in self.items(order))
        self.require(all(a.kind == "reduce" for a in axes), "a spatial axis is reduced")
        term = self.expr(source, 1)
        ends = tuple(self._limit(e, axes) for e in self.items(limits[0] if limits else []))
        return x.Reduce(term.dtype, self.text(kind, x.REDUCTIONS), term, axes, ends)

    def _limit(self, entry: Any, axes: Sequence[x.Axis]) -> tuple[x.Axis, x.Expr]:
        """The limit of a reduce axis, ``[axis, expression]``."""
        number, end = self.items(entry, 2)
        axis, limit = self.axes[self.index(number, self.axes)], self.expr(end, 1)
        inside = any(n in axes for n in x.walk(limit))
        good = axis in axes and limit.dtype == "int32" and not inside
        self.require(good, "a limit is an int32 expression of spatial axes")
        return axis, limit


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, dict):
        return {k: _frozen(v) for k, v in value.items()}
    return value
