"""A loop program as a plain JSON document, and back: the code of machines that interpret it.

Loop variables, buffers and expressions are numbered, and named by their numbers. An expression
names earlier ones only, so that what several statements share is written once. Loading checks
everything and executes nothing.

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
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tilework.dtypes import dtype_bytes, is_integer
from tilework.errors import TileworkError
from tilework.lower.ir import (
    SCOPES,
    Buffer,
    Claim,
    Dot,
    For,
    If,
    Let,
    Load,
    Program,
    Region,
    Seq,
    Stmt,
    Store,
)
from tilework.te.expr import (
    BINARY,
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
    Select,
)
from tilework.te.functions import MATH_FUNCTIONS

FORMAT = "tilework-program-1"
_COMPARE = ("<", "<=", ">", ">=", "==", "!=")
_LOGIC = ("and", "or")
_LOOPS = ("serial", "unroll", "vector")
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_MAX_DEPTH = 200
"""Deepest statement that is read: far beyond any schedule, far below Python's stack."""

T = TypeVar("T")


class ProgramFormatError(TileworkError):
    """A document that does not describe a loop program."""


def program_to_json(program: Program) -> str:
    """The program as a JSON document (one line). Equal programs give equal text."""
    return json.dumps(_Writer(program).document, separators=(",", ":"), allow_nan=False)


def program_from_json(text: str | bytes) -> Program:
    """The program that a document describes.

    Raises:
        ProgramFormatError: the text is no such document, is of another version, or is
            inconsistent; the message says where.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramFormatError(f"a loop program's document is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise ProgramFormatError(
            f"not a loop program of this version: its format is {found!r}, not {FORMAT!r}"
        )
    return _Reader(document).program()


# --- writing ---------------------------------------------------------------------------------


def _number(value: Any) -> Any:
    value = getattr(value, "item", lambda: value)()  # a NumPy scalar
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _parts(e: Expr) -> tuple[Expr, ...]:
    """The expressions that a node is made of."""
    match e:
        case Binary() | Compare() | Logic():
            return (e.a, e.b)
        case Not() | Cast():
            return (e.a,)
        case Select() | IfThenElse():
            return (e.cond, e.a, e.b)
        case Dot():
            return (e.meaning,)
        case Call():
            return e.args
        case Load() | Lookup():
            return e.indices
        case _:
            return ()


class _Writer:
    """Numbers what a program is made of, in the order of first use."""

    def __init__(self, program: Program) -> None:
        self._axes: dict[Axis, int] = {}
        self._buffers: dict[Buffer, int] = {}
        self._nodes: dict[Expr, int] = {}
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
            "axes": [[a.name, a.extent, a.kind] for a in self._axes],
            "buffers": [
                [b.name, list(b.shape), b.dtype, b.scope, b.streamed, b.apart and list(b.apart)]
                for b in self._buffers
            ],
            **dict(zip(("inputs", "outputs", "temporaries"), io, strict=True)),
            "nodes": self._lines,
            "regions": regions,
        }

    def _axis(self, axis: Axis) -> int:
        return self._axes.setdefault(axis, len(self._axes))

    def _buffer(self, buffer: Buffer) -> int:
        return self._buffers.setdefault(buffer, len(self._buffers))

    def _node(self, root: Expr) -> int:
        """The number of an expression, after those of its parts; no recursion, so any depth."""
        stack = [root]
        while stack:
            e = stack[-1]
            waiting = [p for p in _parts(e) if p not in self._nodes]
            if e not in self._nodes and waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            if isinstance(e, Dot):
                self._nodes[e] = self._nodes[e.meaning]
            elif e not in self._nodes:
                self._lines.append(self._line(e))
                self._nodes[e] = len(self._nodes)
        return self._nodes[root]

    def _line(self, e: Expr) -> list[Any]:
        parts = [self._nodes[p] for p in _parts(e)]
        match e:
            case Const():
                return ["const", e.dtype, _number(e.value)]
            case Axis():
                return ["axis", self._axis(e)]
            case Load():
                return ["load", self._buffer(e.buffer), *parts]
            case Binary():
                return ["binary", e.dtype, e.op, *parts]
            case Compare():
                return ["compare", e.op, *parts]
            case Logic():
                return ["logic", e.op, *parts]
            case Not():
                return ["not", *parts]
            case Select():
                return ["select", e.dtype, *parts]
            case IfThenElse():
                return ["if", e.dtype, *parts]
            case Cast():
                return ["cast", e.dtype, *parts]
            case Call():
                return ["call", e.dtype, e.name, *parts]
            case Lookup():
                values = [_number(v) for v in e.values]
                return ["lookup", e.dtype, e.name, values, list(e.shape), *parts]
        raise ProgramFormatError(f"an expression of type {type(e).__name__} cannot be kept")

    def _bound(self, value: int | Expr) -> Any:
        return [self._node(value)] if isinstance(value, Expr) else int(value)

    def _indices(self, indices: Sequence[Expr]) -> list[int]:
        return [self._node(i) for i in indices]

    def _stmt(self, s: Stmt) -> list[Any]:
        match s:
            case Store():
                at = self._indices(s.indices)
                return ["store", self._buffer(s.buffer), at, self._node(s.value)]
            case Claim():
                return ["claim", self._buffer(s.buffer), self._indices(s.indices)]
            case For():
                bounds = self._bound(s.extent), self._bound(s.start)
                return ["for", self._axis(s.var), bounds[0], s.kind, self._stmt(s.body), bounds[1]]
            case If():
                orelse = None if s.orelse is None else self._stmt(s.orelse)
                return ["if", self._node(s.cond), self._stmt(s.then), orelse]
            case Let():
                return ["let", self._axis(s.var), self._node(s.value), self._stmt(s.body)]
            case Seq():
                return ["seq", *map(self._stmt, s.stmts)]
        raise ProgramFormatError(f"a statement of type {type(s).__name__} cannot be kept")


# --- reading ---------------------------------------------------------------------------------


def _require(condition: bool, where: str, what: str) -> None:
    if not condition:
        raise ProgramFormatError(f"a loop program's document is wrong at {where}: {what}")


def _list(value: Any, where: str, count: int | None = None) -> list[Any]:
    _require(isinstance(value, list), where, "a list is expected")
    _require(count is None or len(value) == count, where, f"{count} parts are expected")
    return list(value)


def _text(value: Any, where: str, known: Sequence[str] | None = None) -> str:
    good = isinstance(value, str) and (known is None or value in known)
    _require(good, where, f"{value!r} is unknown")
    return str(value)


def _whole(value: Any, where: str, least: int = 0, below: int = 2**62) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and least <= value < below
    _require(good, where, f"{value!r} is no whole number from {least} to {below - 1}")
    return int(value)


def _dtype(value: Any, where: str) -> str:
    text = _text(value, where)
    try:
        dtype_bytes(text)
    except (ValueError, TypeError, KeyError) as error:
        _require(False, where, f"{value!r} is no element type: {error}")
    return text


class _Reader:
    """Makes the program of a document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._axes = self._table("axes", self._axis)
        self._buffers = self._table("buffers", self._buffer)
        self._nodes: list[Expr] = []
        for i, line in enumerate(_list(document.get("nodes"), "nodes")):
            self._nodes.append(self._node(line, f"node {i}"))

    def program(self) -> Program:
        """The program itself."""
        inputs, outputs, temporaries = (
            tuple(self._named(i, key) for i in _list(self._document.get(key), key))
            for key in ("inputs", "outputs", "temporaries")
        )
        regions = self._table("regions", self._region)
        return Program(inputs, outputs, temporaries, tuple(regions))

    def _table(self, key: str, read: Callable[[Any, str], T]) -> list[T]:
        entries = _list(self._document.get(key), key)
        return [read(entry, f"{key} {i}") for i, entry in enumerate(entries)]

    def _axis(self, entry: Any, where: str) -> Axis:
        name, extent, kind = _list(entry, where, 3)
        return Axis("int32", _text(name, where), _whole(extent, where), _text(kind, where))

    def _buffer(self, entry: Any, where: str) -> Buffer:
        name, shape, dtype, scope, streamed, apart = _list(entry, where, 6)
        sizes = tuple(_whole(n, where) for n in _list(shape, where))
        _require(math.prod(sizes) < 2**48, where, "the buffer is too large")
        strides = None
        if apart is not None:
            strides = tuple(_whole(n, where) for n in _list(apart, where, len(sizes)))
        kind = _text(scope, where, SCOPES)
        return Buffer(
            _text(name, where), sizes, _dtype(dtype, where), kind, streamed is True, strides
        )

    def _named(self, value: Any, where: str) -> Buffer:
        return self._buffers[_whole(value, where, 0, len(self._buffers))]

    def _variable(self, value: Any, where: str) -> Axis:
        return self._axes[_whole(value, where, 0, len(self._axes))]

    def _at(self, value: Any, where: str) -> Expr:
        return self._nodes[_whole(value, where, 0, len(self._nodes))]

    def _all(self, values: Sequence[Any], where: str, count: int | None = None) -> list[Expr]:
        return [self._at(v, where) for v in _list(list(values), where, count)]

    def _indices(self, values: Any, rank: int, where: str) -> tuple[Expr, ...]:
        found = tuple(self._all(_list(values, where), where, rank))
        whole = all(is_integer(e.dtype) for e in found)
        _require(whole, where, "an index is no integer")
        return found

    def _predicate(self, value: Any, where: str) -> Expr:
        found = self._at(value, where)
        _require(found.dtype == "bool", where, "a predicate is expected")
        return found

    def _same(self, values: Sequence[Any], dtype: str | None, where: str) -> tuple[Expr, Expr]:
        a, b = self._all(values, where, 2)
        _require(a.dtype == b.dtype == (dtype or a.dtype), where, "types of the operands")
        return a, b

    def _node(self, line: Any, where: str) -> Expr:
        tag, *rest = _list(line, where) or [None]
        _require(len(rest) > 0, where, "an expression is expected")
        match tag:
            case "const":
                _, value = _list(rest, where, 2)
                return self._const(_dtype(rest[0], where), value, where)
            case "axis":
                return self._variable(rest[0], where)
            case "load":
                buffer = self._named(rest[0], where)
                indices = self._indices(rest[1:], len(buffer.shape), where)
                return Load(buffer.dtype, buffer, indices)
            case "compare":
                op = _text(rest[0], where, _COMPARE)
                return Compare("bool", op, *self._same(rest[1:], None, where))
            case "logic":
                op = _text(rest[0], where, _LOGIC)
                return Logic("bool", op, *self._same(rest[1:], "bool", where))
            case "not":
                return Not("bool", self._predicate(rest[0], where))
        dtype = _dtype(rest[0], where)
        match tag:
            case "binary":
                op = _text(rest[1] if len(rest) > 1 else None, where, BINARY)
                return Binary(dtype, op, *self._same(rest[2:], dtype, where))
            case "select" | "if":
                _require(len(rest) == 4, where, "a choice has three parts")
                sides = self._same(rest[2:], dtype, where)
                kind = Select if tag == "select" else IfThenElse
                return kind(dtype, self._predicate(rest[1], where), *sides)
            case "cast":
                return Cast(dtype, *self._all(rest[1:], where, 1))
            case "call":
                name = _text(rest[1] if len(rest) > 1 else None, where, MATH_FUNCTIONS)
                return Call(dtype, name, tuple(self._all(rest[2:], where)))
            case "lookup":
                return self._lookup(dtype, rest[1:], where)
        raise ProgramFormatError(f"a loop program's document is wrong at {where}: tag {tag!r}")

    def _const(self, dtype: str, value: Any, where: str) -> Const:
        if isinstance(value, str):
            value = _SPECIAL[_text(value, where, tuple(_SPECIAL))]
        _require(isinstance(value, (bool, int, float)), where, "a literal is no number")
        return Const(dtype, value)

    def _lookup(self, dtype: str, rest: list[Any], where: str) -> Lookup:
        _require(len(rest) >= 3, where, "a constant matrix has five parts or more")
        shape = tuple(_whole(n, where) for n in _list(rest[2], where))
        values = tuple(self._const(dtype, v, where).value for v in _list(rest[1], where))
        _require(len(values) == math.prod(shape), where, "a constant matrix and its shape differ")
        indices = self._indices(rest[3:], len(shape), where)
        return Lookup(dtype, _text(rest[0], where), values, shape, indices)

    def _region(self, entry: Any, where: str) -> Region:
        name, parallel, body = _list(entry, where, 3)
        axes = tuple(self._variable(i, where) for i in _list(parallel, where))
        return Region(_text(name, where), axes, self._stmt(body, where, 0))

    def _bound(self, value: Any, where: str) -> int | Expr:
        if isinstance(value, list):
            (found,) = self._indices(value, 1, where)
            return found
        return _whole(value, where)

    def _stmt(self, entry: Any, where: str, depth: int) -> Stmt:
        tag, *rest = _list(entry, where) or [None]
        _require(depth < _MAX_DEPTH, where, "a statement is nested too deeply")
        match tag:
            case "store":
                at, indices, number = _list(rest, where, 3)
                buffer, value = self._named(at, where), self._at(number, where)
                _require(value.dtype == buffer.dtype, where, f"the type of {buffer.name}")
                return Store(buffer, self._indices(indices, len(buffer.shape), where), value)
            case "claim":
                at, indices = _list(rest, where, 2)
                buffer = self._named(at, where)
                return Claim(buffer, self._indices(indices, len(buffer.shape), where))
            case "for":
                var, extent, kind, body, start = _list(rest, where, 5)
                return For(
                    self._variable(var, where),
                    self._bound(extent, where),
                    _text(kind, where, _LOOPS),
                    self._stmt(body, where, depth + 1),
                    self._bound(start, where),
                )
            case "if":
                cond, then, orelse = _list(rest, where, 3)
                other = None if orelse is None else self._stmt(orelse, where, depth + 1)
                return If(self._predicate(cond, where), self._stmt(then, where, depth + 1), other)
            case "let":
                var, value, body = _list(rest, where, 3)
                (bound,) = self._indices([value], 1, where)
                return Let(self._variable(var, where), bound, self._stmt(body, where, depth + 1))
            case "seq":
                return Seq(tuple(self._stmt(s, where, depth + 1) for s in rest))
        raise ProgramFormatError(f"a loop program's document is wrong at {where}: tag {tag!r}")
