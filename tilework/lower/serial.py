"""A loop program as a plain JSON document, and back: the code of machines that interpret it.

Loop variables, buffers and expressions are numbered, and named by their numbers. An expression
names earlier ones only, so that what several statements share is written once. Loading checks
everything and executes nothing. A program of numbers that a run brings has a table of them,
``symbols``, and extents as `tilework.index.documents` writes them.

    {"format": "tilework-program-1",
     "axes": [["i", 8, "spatial"]],
     "buffers": [["A", [8], "float32", "input", false, null],
                 ["B", [8], "float32", "output", false, null]],
     "inputs": [0], "outputs": [1], "temporaries": [],
     "nodes": [["axis", 0], ["load", 0, 0], ["const", "float32", 2.0],
               ["binary", "float32", "*", 1, 2]],
     "regions": [["B", [], ["for", 0, 8, "vector", ["store", 1, [0], 3], 0]]]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tilework.errors import TileworkError
from tilework.index.documents import extent_document, extent_of, symbol_document, symbol_of
from tilework.index.extents import Extent, size
from tilework.index.symbols import Symbol, Symbolic, range_of
from tilework.lower import ir
from tilework.te import expr as x
from tilework.te.documents import MAX_DEPTH, Forms, Reader, line

FORMAT = "tilework-program-1"
_FORMS: Forms = {
    x.Const: ("const", ("dtype", "value")), x.Binary: ("binary", ("dtype", "op")),
    x.Compare: ("compare", ("op",)), x.Logic: ("logic", ("op",)), x.Not: ("not", ()),
    x.Select: ("select", ("dtype",)), x.IfThenElse: ("if", ("dtype",)),
    x.Cast: ("cast", ("dtype",)), x.Call: ("call", ("dtype", "name")),
    x.Lookup: ("lookup", ("dtype", "name", "values", "shape")),
}  # fmt: skip
_LOOPS = ("serial", "unroll", "vector")

T = TypeVar("T")


class ProgramFormatError(TileworkError):
    """A document that does not describe a loop program."""


def program_to_json(program: ir.Program) -> str:
    """The program as a JSON document (one line). Equal programs give equal text."""
    return json.dumps(_Writer(program).document, separators=(",", ":"), allow_nan=False)


def program_from_json(text: str | bytes) -> ir.Program:
    """The program that a document describes.

    Raises:
        ProgramFormatError: the text is no such document, is of another version, or is
            inconsistent; the message says where.
    """
    return _Reader(_Reader.parsed(text)).program()


# --- writing ---------------------------------------------------------------------------------


def _extents(several: Sequence[Extent] | None) -> list[Any] | None:
    return None if several is None else [extent_document(n) for n in several]


def _parts(e: x.Expr) -> tuple[x.Expr, ...]:
    """The expressions that a node is made of; an instruction is written as what it means."""
    return (e.meaning,) if isinstance(e, ir.Dot) else x.children(e)


class _Writer:
    """Numbers what a program is made of, in the order of first use."""

    def __init__(self, program: ir.Program) -> None:
        self._axes: dict[x.Axis, int] = {}
        self._buffers: dict[ir.Buffer, int] = {}
        self._nodes: dict[x.Expr, int] = {}
        self._lines: list[list[Any]] = []
        io = [
            [self._buffer(b) for b in buffers]
            for buffers in (program.inputs, program.outputs, program.temporaries)
        ]
        regions = [
            [r.name, [self._axis(v) for v in r.parallel], self._stmt(r.body)]
            for r in program.regions
        ]
        self.document = {
            "format": FORMAT,
            **self._symbols(program),
            "axes": [[a.name, extent_document(a.extent), a.kind] for a in self._axes],
            "buffers": [
                [
                    b.name,
                    _extents(b.shape),
                    b.dtype,
                    b.scope,
                    isinstance(b.streamed, int) and b.streamed > 0,
                    _extents(b.own_strides),
                ]
                for b in self._buffers
            ],
            **dict(zip(("inputs", "outputs", "temporaries"), io, strict=True)),
            "nodes": self._lines,
            "regions": regions,
        }

    def _symbols(self, program: ir.Program) -> dict[str, Any]:
        table = [symbol_document(s) for s in program.symbols]
        return {"symbols": table} if table else {}

    def _axis(self, axis: x.Axis) -> int:
        return self._axes.setdefault(axis, len(self._axes))

    def _buffer(self, buffer: ir.Buffer) -> int:
        return self._buffers.setdefault(buffer, len(self._buffers))

    def _node(self, root: x.Expr) -> int:
        """The number of an expression, after those of its parts; no recursion, so any depth."""
        stack = [root]
        while stack:
            e = stack[-1]
            waiting = [p for p in _parts(e) if p not in self._nodes]
            if e not in self._nodes and waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            if isinstance(e, ir.Dot):
                self._nodes[e] = self._nodes[e.meaning]
            elif e not in self._nodes:
                self._nodes[e] = len(self._lines)
                self._lines.append(self._line(e))
        return self._nodes[root]

    def _line(self, e: x.Expr) -> list[Any]:
        if isinstance(e, x.Axis):
            return ["axis", self._axis(e)]
        if isinstance(e, x.Const) and isinstance(e.value, Symbolic):
            return ["extent", e.dtype, extent_document(e.value)]
        parts = [self._nodes[p] for p in x.children(e)]
        if isinstance(e, ir.Load):
            return ["load", self._buffer(e.buffer), *parts]
        written = line(e, _FORMS, parts)
        if written is None:
            raise ProgramFormatError(f"an expression of type {type(e).__name__} cannot be kept")
        return written

    def _bound(self, value: Extent | x.Expr) -> Any:
        return [self._node(value)] if isinstance(value, x.Expr) else extent_document(value)

    def _indices(self, indices: Sequence[x.Expr]) -> list[int]:
        return [self._node(i) for i in indices]

    def _stmt(self, s: ir.Stmt) -> list[Any]:
        match s:
            case ir.Store():
                at = self._indices(s.indices)
                return ["store", self._buffer(s.buffer), at, self._node(s.value)]
            case ir.Claim():
                return ["claim", self._buffer(s.buffer), self._indices(s.indices)]
            case ir.For():
                bounds = self._bound(s.extent), self._bound(s.start)
                active = [] if s.active is None else [self._node(s.active)]
                body = self._stmt(s.body)
                return ["for", self._axis(s.var), bounds[0], s.kind, body, bounds[1], *active]
            case ir.If():
                orelse = None if s.orelse is None else self._stmt(s.orelse)
                return ["if", self._node(s.cond), self._stmt(s.then), orelse]
            case ir.Let():
                return ["let", self._axis(s.var), self._node(s.value), self._stmt(s.body)]
            case ir.Seq():
                return ["seq", *map(self._stmt, s.stmts)]
            case ir.Matrix():
                return self._stmt(s.body)
        raise ProgramFormatError(f"a statement of type {type(s).__name__} cannot be kept")


# --- reading ---------------------------------------------------------------------------------


class _Reader(Reader):
    """Makes the program of a document."""

    kind, format, error, forms = "loop program", FORMAT, ProgramFormatError, _FORMS

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._symbols: dict[str, Symbol] = {}
        if "symbols" in document:
            self._table("symbols", self._symbol)
        self._axes = self._table("axes", self._axis)
        self._buffers = self._table("buffers", self._buffer)
        self._nodes: list[x.Expr] = []
        self._table("nodes", lambda entry: self._nodes.append(self._node(entry)))

    def program(self) -> ir.Program:
        """The program itself."""
        named = []
        for self.where in ("inputs", "outputs", "temporaries"):
            numbers = self.items(self._document.get(self.where))
            named.append(tuple(self._one(i, self._buffers) for i in numbers))
        regions = self._table("regions", self._region)
        return ir.Program(named[0], named[1], named[2], tuple(regions))

    def _table(self, key: str, read: Callable[[Any], T]) -> list[T]:
        self.where, out = key, []
        for i, entry in enumerate(self.items(self._document.get(key))):
            self.where = f"{key.removesuffix('s') if key == 'nodes' else key} {i}"
            out.append(read(entry))
        return out

    def _one(self, value: Any, known: Sequence[T]) -> T:
        """What a number stands for."""
        return known[self.whole(value, below=len(known))]

    def _axis(self, entry: Any) -> x.Axis:
        name, extent, kind = self.items(entry, 3)
        return x.Axis("int32", self.text(name), self._extent(extent), self.text(kind))

    def _buffer(self, entry: Any) -> ir.Buffer:
        name, shape, dtype, scope, streamed, own = self.items(entry, 6)
        sizes = tuple(self._extent(n) for n in self.items(shape))
        self.require(range_of(size(sizes))[1] < 2**48, "the buffer is too large")
        strides = None
        if own is not None:
            strides = tuple(self._extent(n) for n in self.items(own, len(sizes)))
        kind = self.text(scope, ir.SCOPES)
        return ir.Buffer(
            self.text(name), sizes, self.dtype(dtype), kind, int(streamed is True), strides
        )

    def _at(self, value: Any) -> x.Expr:
        return self._one(value, self._nodes)

    def _indices(self, values: Any, rank: int) -> tuple[x.Expr, ...]:
        return self.indices([self._at(v) for v in self.items(values)], rank)

    def _predicate(self, value: Any) -> x.Expr:
        predicate = self._at(value)
        self.require(predicate.dtype == "bool", "a predicate is expected")
        return predicate

    def _node(self, entry: Any) -> x.Expr:
        self.require(isinstance(entry, list) and len(entry) > 1, "an expression is expected")
        match entry:
            case ["axis", number, *_]:
                return self._one(number, self._axes)
            case ["extent", dtype, extent]:
                return self.wrapped(
                    lambda: x.wrap(self._extent(extent, -(2**62)), self.dtype(dtype))
                )
            case ["load", number, *rest]:
                buffer = self._one(number, self._buffers)
                return ir.Load(buffer.dtype, buffer, self._indices(rest, len(buffer.shape)))
        return self.node(entry, self._at)

    def _region(self, entry: Any) -> ir.Region:
        name, parallel, body = self.items(entry, 3)
        axes = tuple(self._one(i, self._axes) for i in self.items(parallel))
        return ir.Region(self.text(name), axes, self._stmt(body, 0))

    def _bound(self, value: Any) -> Extent | x.Expr:
        match value:
            case [int() as node]:
                return self._indices([node], 1)[0]
        return self._extent(value)

    def _extent(self, value: Any, least: int = 0) -> Extent:
        if not isinstance(value, list):
            return self.whole(value, least)
        extent = self.wrapped(lambda: extent_of(value, self._symbols))
        low, high = range_of(extent)
        self.require(least <= low and high < 2**62, f"an extent goes from {low} to {high}")
        return extent

    def _symbol(self, entry: Any) -> None:
        symbol = self.wrapped(lambda: symbol_of(entry))
        self.require(symbol.name not in self._symbols, f"two symbols are called {symbol.name}")
        self._symbols[symbol.name] = symbol

    def _stmt(self, entry: Any, depth: int) -> ir.Stmt:
        tag, *rest = self.items(entry) or [None]
        self.require(depth < MAX_DEPTH, "a statement is nested too deeply")
        match tag:
            case "store":
                at, indices, number = self.items(rest, 3)
                buffer, value = self._one(at, self._buffers), self._at(number)
                self.require(value.dtype == buffer.dtype, f"the type of {buffer.name}")
                return ir.Store(buffer, self._indices(indices, len(buffer.shape)), value)
            case "claim":
                at, indices = self.items(rest, 2)
                buffer = self._one(at, self._buffers)
                return ir.Claim(buffer, self._indices(indices, len(buffer.shape)))
            case "for":
                var, extent, kind, body, start = self.items(rest[:5], 5)
                active = self._indices(rest[5:], len(rest[5:]))
                self.require(len(active) <= 1, "parts of a loop")
                return ir.For(
                    self._one(var, self._axes),
                    self._bound(extent),
                    self.text(kind, _LOOPS),
                    self._stmt(body, depth + 1),
                    self._bound(start),
                    active=active[0] if active else None,
                )
            case "if":
                cond, then, orelse = self.items(rest, 3)
                other = None if orelse is None else self._stmt(orelse, depth + 1)
                return ir.If(self._predicate(cond), self._stmt(then, depth + 1), other)
            case "let":
                var, value, body = self.items(rest, 3)
                (bound,) = self._indices([value], 1)
                return ir.Let(self._one(var, self._axes), bound, self._stmt(body, depth + 1))
            case "seq":
                return ir.Seq(tuple(self._stmt(s, depth + 1) for s in rest))
        raise self.wrong(f"tag {tag!r}")
