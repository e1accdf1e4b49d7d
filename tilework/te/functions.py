"""Functions of the tensor-expression language: reductions, selection, math.

They carry the field's names, which shadow Python builtins; import the module as ``te``.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence

from tilework.te.expr import (
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    ExprLike,
    IfThenElse,
    Logic,
    Not,
    Reduce,
    Select,
    binary,
    compare,
    dtype_bytes,
    is_float,
    wrap,
)


def _reduce(kind: str, expr: ExprLike, axis: Axis | Sequence[Axis]) -> Expr:
    axes = (axis,) if isinstance(axis, Axis) else tuple(axis)
    if not axes or builtins.any(a.kind != "reduce" for a in axes):
        raise ValueError(f"te.{kind} needs reduce axes made by te.reduce_axis")
    source = wrap(expr, "float32")
    if kind == "sum" and source.dtype == "bfloat16":
        raise TypeError("te.sum is not defined for bfloat16, a type to store: te.cast to float32")
    return Reduce(source.dtype, kind, source, axes)


def sum(expr: ExprLike, axis: Axis | Sequence[Axis]) -> Expr:
    """Sum of ``expr`` over ``axis``."""
    return _reduce("sum", expr, axis)


def max(expr: ExprLike, axis: Axis | Sequence[Axis]) -> Expr:
    """Maximum of ``expr`` over ``axis``."""
    return _reduce("max", expr, axis)


def min(expr: ExprLike, axis: Axis | Sequence[Axis]) -> Expr:
    """Minimum of ``expr`` over ``axis``."""
    return _reduce("min", expr, axis)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """Elementwise maximum."""
    return binary("max", a, b)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """Elementwise minimum."""
    return binary("min", a, b)


def floordiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounding down."""
    return binary("//", a, b)


def floormod(a: ExprLike, b: ExprLike) -> Expr:
    """Remainder of `floordiv`."""
    return binary("%", a, b)


def _branches(cond: Expr, a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    if cond.dtype != "bool":
        raise TypeError(f"the condition has dtype {cond.dtype}, expected bool")
    dtype = a.dtype if isinstance(a, Expr) else b.dtype if isinstance(b, Expr) else "float32"
    x, y = wrap(a, dtype), wrap(b, dtype)
    if x.dtype != y.dtype:
        raise TypeError(f"the two branches have dtypes {x.dtype} and {y.dtype}; use te.cast")
    return x, y


def if_then_else(cond: Expr, a: ExprLike, b: ExprLike) -> Expr:
    """``a`` where ``cond`` holds, else ``b``; the side not taken is never read."""
    x, y = _branches(cond, a, b)
    return IfThenElse(x.dtype, cond, x, y)


def select(cond: Expr, a: ExprLike, b: ExprLike) -> Expr:
    """``a`` where ``cond`` holds, else ``b``; both are evaluated."""
    x, y = _branches(cond, a, b)
    return Select(x.dtype, cond, x, y)


def all(*conds: Expr) -> Expr:
    """Conjunction of predicates, left to right."""
    out = conds[0]
    for c in conds[1:]:
        out = Logic("bool", "and", out, c)
    return out


def any(*conds: Expr) -> Expr:
    """Disjunction of predicates, left to right."""
    out = conds[0]
    for c in conds[1:]:
        out = Logic("bool", "or", out, c)
    return out


def logical_not(cond: Expr) -> Expr:
    """Negation of a predicate."""
    return Not("bool", cond)


def equal(a: ExprLike, b: ExprLike) -> Expr:
    """Predicate ``a == b``."""
    return compare("==", a, b)


def not_equal(a: ExprLike, b: ExprLike) -> Expr:
    """Predicate ``a != b``."""
    return compare("!=", a, b)


def const(value: float | int | bool, dtype: str = "float32") -> Expr:
    """A literal of ``dtype``."""
    return Const(dtype, value)


def cast(dtype: str, expr: ExprLike) -> Expr:
    """Convert to ``dtype``."""
    dtype_bytes(dtype)  # refuses unknown types
    e = wrap(expr, dtype)
    return e if e.dtype == dtype else Cast(dtype, e)


MATH_FUNCTIONS = (
    "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "abs", "floor", "ceil", "round",
    "sin", "cos", "pow",
)  # fmt: skip


def call(name: str, *args: ExprLike) -> Expr:
    """A math function by name; see `MATH_FUNCTIONS`."""
    if name not in MATH_FUNCTIONS:
        raise ValueError(f"unknown math function {name!r}; known: {', '.join(MATH_FUNCTIONS)}")
    dtype = next((a.dtype for a in args if isinstance(a, Expr)), "float32")
    exprs = tuple(wrap(a, dtype) for a in args)
    if not is_float(dtype) or dtype == "bfloat16":
        raise TypeError(f"te.{name} needs floating-point arguments, got {dtype}; use te.cast")
    return Call(dtype, name, exprs)


def _unary(name: str) -> Callable[[ExprLike], Expr]:
    def fn(a: ExprLike) -> Expr:
        return call(name, a)

    fn.__name__ = name
    fn.__doc__ = f"Elementwise ``{name}``."
    return fn


exp, log, sqrt, rsqrt = _unary("exp"), _unary("log"), _unary("sqrt"), _unary("rsqrt")
tanh, erf, sigmoid = _unary("tanh"), _unary("erf"), _unary("sigmoid")
abs, floor, ceil, round = _unary("abs"), _unary("floor"), _unary("ceil"), _unary("round")
sin, cos = _unary("sin"), _unary("cos")


def pow(a: ExprLike, b: ExprLike) -> Expr:
    """``a`` to the power ``b``."""
    return call("pow", a, b)


def relu(a: Expr) -> Expr:
    """``max(a, 0)``."""
    return binary("max", a, Const(a.dtype, 0.0))
