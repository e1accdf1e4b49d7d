"""Functions of the tensor-expression language: reductions, selection, math.

They carry the field's names, which shadow Python builtins; import the module as ``te``.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from tilework.dtypes import (
    NARROW_FLOATS,
    dtype_bytes,
    integer_range,
    is_float,
    is_integer,
    is_unsigned,
    wrapped,
)
from tilework.index.symbols import Symbolic
from tilework.te import expr as x

__all__ = [
    "MATH_FUNCTIONS", "abs", "acos", "acosh", "all", "any", "asin", "asinh", "atan", "atanh",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "call", "cast", "ceil", "const",
    "cos", "cosh", "equal", "erf", "exp", "expm1", "floor", "floordiv", "floormod", "fmod",
    "highest", "if_then_else", "isinf", "isnan", "log", "log1p", "logical_not", "logical_xor",
    "lowest", "max", "maximum", "min", "minimum", "not_equal", "pow", "prod", "quotient",
    "reduced", "relu", "round", "round_tf32", "rounded", "rsqrt", "select", "shift_left",
    "shift_right", "sigmoid", "sign", "sin", "sinh", "sqrt", "sum", "tan", "tanh", "trunc",
    "truncdiv", "truncmod",
]  # fmt: skip

Limits = Mapping[x.Axis, x.ExprLike] | None
"""Numbers of terms that data decide, by axis: ``{k: indptr[i + 1] - indptr[i]}``. The axis then
runs over ``0 <= k < min(limit, k.extent)``."""


def reduced(
    kind: str, expr: x.ExprLike, axis: x.Axis | Sequence[x.Axis], limits: Limits = None
) -> x.Expr:
    """``expr`` over ``axis`` by its ``kind``: ``sum``, ``max``, ``min`` or ``prod``.

    For ``limits`` see `Limits`.
    """
    axes = (axis,) if isinstance(axis, x.Axis) else tuple(axis)
    if not axes or builtins.any(a.kind != "reduce" for a in axes):
        raise ValueError(f"te.{kind} needs reduce axes made by te.reduce_axis")
    source = x.wrap(expr, "float32")
    if kind in ("sum", "prod") and source.dtype in (*NARROW_FLOATS, "bool"):
        raise TypeError(
            f"te.{kind} is not defined for {source.dtype}, a type to store: te.cast to float32"
        )
    bounds = tuple((a, x.wrap(limit)) for a, limit in (limits or {}).items())
    for a, limit in bounds:
        if a not in axes:
            raise ValueError(f"te.{kind}: {a.name} has a limit but is not reduced over")
        if limit.dtype != "int32" or builtins.any(n in axes for n in x.walk(limit)):
            raise ValueError(
                f"te.{kind}: the limit of {a.name} must be an int32 expression of spatial axes"
            )
    return x.Reduce(source.dtype, kind, source, axes, bounds)


def sum(expr: x.ExprLike, axis: x.Axis | Sequence[x.Axis], limits: Limits = None) -> x.Expr:
    """Sum of ``expr`` over ``axis``; for ``limits`` see `Limits`."""
    return reduced("sum", expr, axis, limits)


def max(expr: x.ExprLike, axis: x.Axis | Sequence[x.Axis], limits: Limits = None) -> x.Expr:
    """Maximum of ``expr`` over ``axis``; for ``limits`` see `Limits`, for NaN `Reduce`."""
    return reduced("max", expr, axis, limits)


def min(expr: x.ExprLike, axis: x.Axis | Sequence[x.Axis], limits: Limits = None) -> x.Expr:
    """Minimum of ``expr`` over ``axis``; for ``limits`` see `Limits`, for NaN `Reduce`."""
    return reduced("min", expr, axis, limits)


def prod(expr: x.ExprLike, axis: x.Axis | Sequence[x.Axis]) -> x.Expr:
    """Product of ``expr`` over ``axis``."""
    return reduced("prod", expr, axis)


def maximum(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """``a < b ? b : a``: the larger number (of predicates: either).

    NaN compares with nothing: where either is NaN the result is ``a``, so that a NaN in ``a``
    stays and one in ``b`` does not. Of zeros with different signs it is ``a``, too. That is one
    instruction on every CPU; `ops.maximum` keeps the NaN of either side.
    """
    return x.binary("max", a, b)


def minimum(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """``a > b ? b : a``: the smaller number (of predicates: both). For NaN see `maximum`."""
    return x.binary("min", a, b)


def floordiv(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Integer division rounding down; a divisor of 0 counts as 1."""
    return x.binary("//", a, b)


def floormod(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Remainder of `floordiv`: it has the sign of ``b``, and is 0 where that is 0."""
    return x.binary("%", a, b)


def truncdiv(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Integer division rounding towards zero, as C and ONNX divide; by 0 as by 1."""
    return x.binary("quot", a, b)


def truncmod(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Remainder of `truncdiv`: it has the sign of ``a``, and is 0 where ``b`` is 0."""
    return x.binary("rem", a, b)


def bitwise_and(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Bits that both integers have."""
    return x.binary("&", a, b)


def bitwise_or(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Bits that either integer has."""
    return x.binary("|", a, b)


def bitwise_xor(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Bits that one integer has and the other has not."""
    return x.binary("^", a, b)


def bitwise_not(a: x.Expr) -> x.Expr:
    """All bits of an integer inverted."""
    return x.binary("^", a, x.Const(a.dtype, wrapped(-1, a.dtype)))


def shift_left(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """``a`` times two to the power ``b``, without the bits that leave at the top.

    ``b`` is read as an unsigned number; all bits leave if it is as large as the type is wide.
    """
    return x.binary("<<", a, b)


def shift_right(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """``a`` divided by two to the power ``b``, rounding down; see `shift_left`."""
    return x.binary(">>", a, b)


def _branches(cond: x.Expr, a: x.ExprLike, b: x.ExprLike) -> tuple[str, x.Expr, x.Expr, x.Expr]:
    """The fields of a choice."""
    if cond.dtype != "bool":
        raise TypeError(f"the condition has dtype {cond.dtype}, expected bool")
    dtype = a.dtype if isinstance(a, x.Expr) else b.dtype if isinstance(b, x.Expr) else "float32"
    yes, no = x.wrap(a, dtype), x.wrap(b, dtype)
    if yes.dtype != no.dtype:
        raise TypeError(f"the two branches have dtypes {yes.dtype} and {no.dtype}; use te.cast")
    return yes.dtype, cond, yes, no


def if_then_else(cond: x.Expr, a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """``a`` where ``cond`` holds, else ``b``; the side not taken is never read."""
    return x.IfThenElse(*_branches(cond, a, b))


def select(cond: x.Expr, a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """``a`` where ``cond`` holds, else ``b``; both are evaluated."""
    return x.Select(*_branches(cond, a, b))


def all(*conds: x.Expr) -> x.Expr:
    """Conjunction of predicates, left to right."""
    return reduce(partial(x.Logic, "bool", "and"), conds)


def any(*conds: x.Expr) -> x.Expr:
    """Disjunction of predicates, left to right."""
    return reduce(partial(x.Logic, "bool", "or"), conds)


def logical_not(cond: x.Expr) -> x.Expr:
    """Negation of a predicate."""
    return x.Not("bool", cond)


def logical_xor(a: x.Expr, b: x.Expr) -> x.Expr:
    """Whether one of two predicates holds and the other does not."""
    return x.compare("!=", a, b)


def equal(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Predicate ``a == b``."""
    return x.compare("==", a, b)


def not_equal(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Predicate ``a != b``."""
    return x.compare("!=", a, b)


def const(value: float | int | bool, dtype: str = "float32") -> x.Expr:
    """A literal of ``dtype``.

    Raises:
        ValueError: the type does not go that far.
    """
    if is_integer(dtype):
        return x.wrap(int(value), dtype)
    return x.Const(dtype, value)


def cast(dtype: str, expr: x.ExprLike) -> x.Expr:
    """Convert to ``dtype``."""
    dtype_bytes(dtype)  # refuses unknown types
    e = x.wrap(expr, "int32" if isinstance(expr, Symbolic) else dtype)
    return e if e.dtype == dtype else x.Cast(dtype, e)


MATH_FUNCTIONS = (
    "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "abs", "floor", "ceil", "round",
    "trunc", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
    "atanh", "expm1", "log1p", "pow", "fmod", "round_tf32", "rounded", "quotient",
)  # fmt: skip


def call(name: str, *args: x.ExprLike) -> x.Expr:
    """A math function by name; see `MATH_FUNCTIONS`."""
    if name not in MATH_FUNCTIONS:
        raise ValueError(f"unknown math function {name!r}; known: {', '.join(MATH_FUNCTIONS)}")
    dtype = next((a.dtype for a in args if isinstance(a, x.Expr)), "float32")
    exprs = tuple(x.wrap(a, dtype) for a in args)
    if not is_float(dtype) or dtype in NARROW_FLOATS:
        raise TypeError(f"te.{name} needs floating-point arguments, got {dtype}; use te.cast")
    if name == "round_tf32" and dtype != "float32":
        raise TypeError(f"te.{name} needs a float32 argument, got {dtype}")
    odd = [e.dtype for e in exprs if e.dtype != dtype]
    if odd:
        raise TypeError(f"arguments of te.{name} have dtypes {dtype} and {odd[0]}; use te.cast")
    return x.Call(dtype, name, exprs)


def _unary(name: str) -> Callable[[x.ExprLike], x.Expr]:
    def fn(a: x.ExprLike) -> x.Expr:
        return call(name, a)

    fn.__name__ = name
    fn.__doc__ = f"Elementwise ``{name}``."
    return fn


exp, log, sqrt, rsqrt = _unary("exp"), _unary("log"), _unary("sqrt"), _unary("rsqrt")
expm1, log1p = _unary("expm1"), _unary("log1p")
tanh, erf, sigmoid = _unary("tanh"), _unary("erf"), _unary("sigmoid")
floor, ceil, round, trunc = _unary("floor"), _unary("ceil"), _unary("round"), _unary("trunc")
sin, cos, tan = _unary("sin"), _unary("cos"), _unary("tan")
asin, acos, atan = _unary("asin"), _unary("acos"), _unary("atan")
sinh, cosh = _unary("sinh"), _unary("cosh")
asinh, acosh, atanh = _unary("asinh"), _unary("acosh"), _unary("atanh")


def abs(a: x.ExprLike) -> x.Expr:
    """Magnitude; the least number of a signed integer type, which has none, stays as it is."""
    e = x.wrap(a, "float32")
    if is_float(e.dtype):
        return call("abs", e)
    return e if is_unsigned(e.dtype) else x.binary("max", e, x.binary("-", x.Const(e.dtype, 0), e))


def sign(a: x.Expr) -> x.Expr:
    """1 for positive numbers, -1 for negative ones; 0 and NaN stay."""
    one, zero = x.Const(a.dtype, 1), x.Const(a.dtype, 0)
    low = a if is_unsigned(a.dtype) else select(a < zero, x.Const(a.dtype, -1), a)
    return select(a > zero, one, low)


def isnan(a: x.Expr) -> x.Expr:
    """Predicate: ``a`` is NaN."""
    return x.compare("!=", a, a) if is_float(a.dtype) else x.Const("bool", False)


def isinf(a: x.Expr) -> x.Expr:
    """Predicate: ``a`` is an infinity."""
    if not is_float(a.dtype):
        return x.Const("bool", False)
    top, bottom = x.Const(a.dtype, float("inf")), x.Const(a.dtype, float("-inf"))
    return any(x.compare("==", a, top), x.compare("==", a, bottom))


def pow(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """``a`` to the power ``b``."""
    return call("pow", a, b)


def round_tf32(a: x.ExprLike) -> x.Expr:
    """The nearest number with 11 bits of significand, ties away from zero (tf32).

    Raises:
        TypeError: ``a`` is not float32.
    """
    return call("round_tf32", a)


def rounded(a: x.ExprLike) -> x.Expr:
    """``a``, rounded to its type before it is used.

    A product so marked is no part of a fused multiply-add, and its factors are multiplied in the
    order in which they stand.
    """
    return call("rounded", a)


def quotient(a: x.ExprLike, b: x.ExprLike, inverse: x.ExprLike) -> x.Expr:
    """``a / b``, exactly rounded, where ``inverse`` is ``1 / b``, exactly rounded.

    ``b`` is between 1e-30 and 1e30. A machine with fused multiply-adds need not divide.
    """
    return call("quotient", a, b, inverse)


def fmod(a: x.ExprLike, b: x.ExprLike) -> x.Expr:
    """Remainder of ``a / b`` rounded towards zero: it has the sign of ``a``."""
    return call("fmod", a, b)


def relu(a: x.Expr) -> x.Expr:
    """``max(a, 0)``."""
    return x.binary("max", a, x.Const(a.dtype, 0.0 if is_float(a.dtype) else 0))


def lowest(dtype: str) -> x.Expr:
    """The least value of a type: minus infinity for floating-point numbers."""
    return x.Const(dtype, float("-inf") if is_float(dtype) else integer_range(dtype)[0])


def highest(dtype: str) -> x.Expr:
    """The greatest value of a type: infinity for floating-point numbers."""
    return x.Const(dtype, float("inf") if is_float(dtype) else integer_range(dtype)[1])
