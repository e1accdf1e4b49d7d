"""What documents of computations have in common: compute DAGs (`te.serial`) and loop programs.

An expression is a list: a tag, the plain fields of its node, then its parts, in the order of the
node's fields. `Forms` says which tag and plain fields each class has in a format, and both the
writers and the readers go by it. Reading checks everything and executes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from tilework.dtypes import dtype_bytes, is_float, is_integer
from tilework.errors import TileworkError
from tilework.te.arithmetic import BINARY, Binary, Compare, Const, Expr, undefined
from tilework.te.functions import MATH_FUNCTIONS
from tilework.te.nodes import Call, Cast, IfThenElse, Logic, Lookup, Not, Select

T = TypeVar("T")
Forms = dict[type[Expr], tuple[str, tuple[str, ...]]]
"""By class of nodes: the tag, and the plain fields that follow it; without a tag, ``op`` is it."""

OPERATORS: dict[type[Expr], tuple[str, ...]] = {
    Binary: BINARY, Compare: ("<", "<=", ">", ">=", "==", "!="), Logic: ("and", "or"),
}  # fmt: skip
_OPERANDS: dict[type[Expr], int] = {
    Const: 0, Not: 1, Cast: 1, Binary: 2, Compare: 2, Logic: 2, Select: 3, IfThenElse: 3,
}  # fmt: skip
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
MAX_DEPTH = 200
"""Deepest nesting that is read: far beyond any operator or schedule, far below Python's stack."""


def line(e: Expr, forms: Forms, parts: Sequence[Any]) -> list[Any] | None:
    """An expression as a list, given what stands for its parts; None if no form is known."""
    if type(e) not in forms:
        return None
    tag, names = forms[type(e)]
    return [*([tag] if tag else []), *(_plain(getattr(e, n)) for n in names), *parts]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    value = getattr(value, "item", lambda: value)()  # a NumPy scalar
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


class Reader:
    """Reads one kind of document; whatever is wrong with it is one error, which says where.

    Attributes:
        kind: of what these are documents.
        format: the version that is read.
        error: what is raised.
        forms: of expressions.
        where: the place in the document that is being read.
    """

    kind: ClassVar[str]
    format: ClassVar[str]
    error: ClassVar[type[TileworkError]]
    forms: ClassVar[Forms]
    _tags: ClassVar[dict[str, tuple[type[Expr], tuple[str, ...]]]]
    where: str = ""

    def __init_subclass__(cls) -> None:
        cls._tags = {
            word: (kind, names)
            for kind, (tag, names) in cls.forms.items()
            for word in ([tag] if tag else OPERATORS[kind])
        }

    @classmethod
    def parsed(cls, text: str | bytes) -> dict[str, Any]:
        """The object that a text is."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise cls.error(f"a {cls.kind}'s document is not JSON: {error}") from error
        said = document.get("format") if isinstance(document, dict) else None
        if not isinstance(document, dict) or said != cls.format:
            raise cls.error(
                f"not a {cls.kind} of this version: its format is {said!r}, not {cls.format!r}"
            )
        return document

    # -- plain parts --------------------------------------------------------------------------

    def wrong(self, what: str) -> TileworkError:
        """The error that says what is wrong here."""
        return self.error(f"a {self.kind}'s document is wrong at {self.where}: {what}")

    def require(self, condition: bool, what: str) -> None:
        """Raise the error unless a condition holds."""
        if not condition:
            raise self.wrong(what)

    def wrapped(self, make: Callable[[], T]) -> T:
        """What a function makes; what it refuses is wrong here."""
        try:
            return make()
        except (ValueError, TypeError) as error:
            raise self.wrong(str(error)) from error

    def items(self, value: Any, count: int | None = None) -> list[Any]:
        """The parts of a list, so many of them."""
        if not isinstance(value, list):
            raise self.wrong("a list is expected")
        if count not in (None, len(value)):
            raise self.wrong(f"{count} parts are expected")
        return value

    def text(self, value: Any, known: Sequence[str] | None = None) -> str:
        """A text, one of those known."""
        good = isinstance(value, str) and (known is None or value in known)
        self.require(good, f"{value!r} is unknown")
        return str(value)

    def whole(self, value: Any, least: int = 0, below: int = 2**62, what: str = "") -> int:
        """A whole number of a range."""
        good = isinstance(value, int) and not isinstance(value, bool) and least <= value < below
        if not good:
            raise self.wrong(
                f"{value!r} is {what or f'no whole number from {least} to {below - 1}'}"
            )
        return int(value)

    def dtype(self, value: Any) -> str:
        """An element type."""
        text = self.text(value)
        try:
            dtype_bytes(text)
        except TypeError as error:
            raise self.wrong(f"{text!r} is no element type: {error}") from error
        return text

    def number(self, value: Any) -> float:
        """A literal's value."""
        if isinstance(value, str):
            return _SPECIAL[self.text(value, tuple(_SPECIAL))]
        self.require(isinstance(value, (bool, int, float)), "a literal is no number")
        number: float = value
        return number

    def indices(self, indices: Sequence[Expr], rank: int) -> tuple[Expr, ...]:
        """Indices of something that has so many dimensions."""
        self.require(len(indices) == rank, f"dimensions: there are {rank}")
        self.require(all(is_integer(e.dtype) for e in indices), "an index is no integer")
        return tuple(indices)

    # -- expressions --------------------------------------------------------------------------

    def node(self, entry: Any, part: Callable[[Any], Expr]) -> Expr:
        """An expression of the forms; ``part`` reads what stands for a part of it."""
        tag, *rest = self.items(entry)
        if not (isinstance(tag, str) and tag in self._tags):
            raise self.wrong(f"tag {tag!r}")
        kind, names = self._tags[tag]
        rest = rest if self.forms[kind][0] else [tag, *rest]
        self.require(len(rest) >= len(names), "fields are missing")
        plain = {n: self._field(kind, n, v) for n, v in zip(names, rest, strict=False)}
        return self._new_node(kind, plain, [part(p) for p in rest[len(names) :]])

    def _field(self, kind: type[Expr], name: str, value: Any) -> Any:
        match name:
            case "dtype":
                return self.dtype(value)
            case "op":
                return self.text(value, OPERATORS[kind])
            case "value":
                return self.number(value)
            case "values":
                return tuple(self.number(v) for v in self.items(value))
            case "shape":
                return tuple(self.whole(n, 1) for n in self.items(value))
        return self.text(value, MATH_FUNCTIONS if kind is Call else None)

    def _new_node(self, kind: type[Expr], plain: dict[str, Any], parts: list[Expr]) -> Expr:
        stated, types = plain.pop("dtype", None), [p.dtype for p in parts]
        if kind is Lookup:
            fits = len(plain["values"]) == math.prod(plain["shape"])
            self.require(fits, "a constant matrix and its shape differ")
            self.indices(parts, len(plain["shape"]))
        elif kind is not Call:
            self.items(parts, _OPERANDS[kind])
        if kind in (Const, Cast, Lookup):
            dtype = stated
        else:
            self._match(kind, plain, types)
            dtype = "bool" if kind in (Compare, Logic, Not) else types[-1]
            self.require(stated in (None, dtype), "types of the operands")
        return kind(dtype, *plain.values(), *([tuple(parts)] if kind in (Call, Lookup) else parts))

    def _match(self, kind: type[Expr], plain: dict[str, Any], types: list[str]) -> None:
        """Whether operands of these types may meet."""
        if kind in (Select, IfThenElse):
            self.require(types[0] == "bool" and types[1] == types[2], "types of a choice")
        else:
            self.require(len(set(types)) == 1, "operands have two types")
        if kind in (Logic, Not):
            self.require(types[0] == "bool", "a predicate is expected")
        if kind is Call:
            self.require(is_float(types[0]), "types of a call")
        if kind is Binary:
            why = undefined(plain["op"], types[0])
            self.require(not why, why)
