"""Expressions of numbers: their base class with its operators, literals, arithmetic, comparisons.

Operators fold integer literals; indices stay short that way.
"""

from __future__ import annotations

from functools import cache
from typing import Union

from tilework.dtypes import NARROW_FLOATS, integer_range, is_float, wrapped
from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.index.symbols import Symbolic, Whole, range_of
from tilework.index.whole import folded

ExprLike = Union["Expr", int, float, bool, Symbolic]  # also NumPy scalars, which `wrap` unpacks

INTEGER_OPS = ("//", "%", "quot", "rem", "&", "|", "^", "<<", ">>")
BINARY = ("+", "-", "*", "/", "max", "min", *INTEGER_OPS)


@frozen(eq=False)
class Expr:
    """Base of all expression nodes; ``dtype`` is the NumPy name of the value's type."""

    dtype: str

    def __add__(self, other: ExprLike) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("//", self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return binary("//", other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("%", self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return binary("%", other, self)

    def __neg__(self) -> Expr:
        return binary("-", Const(self.dtype, 0), self)

    def __lt__(self, other: ExprLike) -> Expr:
        return compare("<", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return compare("<=", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return compare(">", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return compare(">=", self, other)

    def __bool__(self) -> bool:
        raise TypeError(
            "a tensor expression has no truth value while the computation is declared; "
            "use te.all / te.any / te.if_then_else instead of and / or / if"
        )


@frozen(eq=False)
class Const(Expr):
    """A literal. That of an integer may be an extent that a run brings."""

    value: float | int | bool | Symbolic

    @property
    def real(self) -> float:
        """The value as a float; that of an integer has to be known."""
        return float(known(self.value) if isinstance(self.value, Symbolic) else self.value)

    @property
    def whole(self) -> Whole:
        """The value as an integer."""
        return self.value if isinstance(self.value, Symbolic) else int(self.value)


@frozen(eq=False)
class Binary(Expr):
    """Arithmetic, of the operators `BINARY`; both sides have the node's dtype.

    ``//`` and ``%`` round down, ``quot`` and ``rem`` towards zero; integers wrap around.
    """

    op: str
    a: Expr
    b: Expr


@frozen(eq=False)
class Compare(Expr):
    """A comparison ``< <= > >= == !=``; dtype ``bool``."""

    op: str
    a: Expr
    b: Expr


def wrap(value: ExprLike, dtype: str = "int32") -> Expr:
    """Turn a Python number into a `Const` of ``dtype``; expressions pass through."""
    if isinstance(value, Expr):
        return value
    unpack = getattr(value, "item", None)
    if unpack is not None:  # a NumPy scalar
        return wrap(unpack(), dtype)
    if isinstance(value, Symbolic):
        if is_float(dtype):
            raise TypeError(f"the extent {value} is an integer; te.cast it to {dtype}")
        for end in range_of(value):
            _in_range(end, dtype)
        return Const(dtype, value)
    if isinstance(value, bool):
        return Const("bool", value)
    if isinstance(value, int):
        return Const(dtype, float(value) if is_float(dtype) else _in_range(value, dtype))
    if isinstance(value, float):
        return Const(dtype if is_float(dtype) else "float32", value)
    raise TypeError(f"cannot use {value!r} of type {type(value).__name__} in a tensor expression")


def _in_range(value: int, dtype: str) -> int:
    low, high = integer_range(dtype)
    if not low <= value <= high:
        raise ValueError(f"{value} is no {dtype}, which goes from {low} to {high}")
    return value


@cache
def undefined(op: str, dtype: str) -> str:
    """Why an operator of `BINARY` is not defined for a type; empty where it is."""
    if dtype in NARROW_FLOATS and op not in ("max", "min"):
        return f"'{op}' is not defined for {dtype}, a type to store: te.cast to float32"
    if op == "/" and not is_float(dtype):
        return f"'/' is not defined for {dtype}; use // or te.cast"
    if dtype == "bool" and op not in ("max", "min"):
        return f"'{op}' is not defined for bool; use te.all, te.any or te.cast"
    if is_float(dtype) and op in INTEGER_OPS:
        return f"'{op}' is not defined for {dtype}; it works on integers"
    return ""


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build ``a op b``, matching dtypes of literals and folding integer literals."""
    a, b = _operands(op, a, b)
    if why := undefined(op, a.dtype):
        raise TypeError(why)
    if isinstance(a, Const) and isinstance(b, Const) and not is_float(a.dtype):
        value = folded(op, a.whole, b.whole)
        if isinstance(value, Symbolic):
            return wrap(value, a.dtype)
        if value is not None:
            return Const(a.dtype, wrapped(value, a.dtype))
    if not is_float(a.dtype):
        if op in "+-" and isinstance(b, Const) and b.value == 0:
            return a
        if op == "+" and isinstance(a, Const) and a.value == 0:
            return b
        if op in ("*", "//", "quot") and isinstance(b, Const) and b.value == 1:
            return a
        if op == "*" and isinstance(a, Const) and a.value == 1:
            return b
    return Binary(a.dtype, op, a, b)


def compare(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """Build the predicate ``a op b``."""
    return Compare("bool", op, *_operands(op, a, b))


def _operands(op: str, a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both operands as expressions of one type: literals take that of the other."""
    dtype = a.dtype if isinstance(a, Expr) else b.dtype if isinstance(b, Expr) else "int32"
    left, right = wrap(a, dtype), wrap(b, dtype)
    if left.dtype != right.dtype:
        raise TypeError(
            f"operands of '{op}' have dtypes {left.dtype} and {right.dtype}; use te.cast"
        )
    return left, right
