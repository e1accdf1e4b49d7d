"""Arithmetic and predicates of single elements that tensor expressions spell in several words."""

from __future__ import annotations

from tilework import te
from tilework.dtypes import is_float
from tilework.index.extents import Extent
from tilework.index.symbols import Symbolic


def literal(extent: Extent, dtype: str) -> te.Expr:
    """An extent as a number to compute with; one that a run brings is converted there."""
    if not isinstance(extent, Symbolic):
        return te.const(float(extent) if is_float(dtype) else extent, dtype)
    whole = te.cast("int32", extent)
    return whole if dtype == "int32" else te.cast(dtype, whole)


def share(extent: Extent, dtype: str) -> te.Expr:
    """One part of so many, as a factor."""
    if not isinstance(extent, Symbolic):
        return te.const(1.0 / extent, dtype)
    return te.const(1.0, dtype) / literal(extent, dtype)


def neg(x: te.Expr) -> te.Expr:
    """``-x``; of a float, its sign changed."""
    return x * -1.0 if is_float(x.dtype) else te.const(0, x.dtype) - x


def reciprocal(x: te.Expr) -> te.Expr:
    """``1 / x``."""
    return te.const(1.0, x.dtype) / x


def isinf(x: te.Expr, positive: bool = True, negative: bool = True) -> te.Expr:
    """Whether ``x`` is infinite, with one of the signs asked for."""
    if positive and negative:
        return te.isinf(x)
    top, bottom = (te.const(float(v), x.dtype) for v in ("inf", "-inf"))
    if not (positive or negative):
        return te.all(x < bottom, x > top)
    return te.equal(x, top if positive else bottom)


def divide(a: te.Expr, b: te.Expr) -> te.Expr:
    """Quotient; of integers, rounded towards zero."""
    return a / b if is_float(a.dtype) else te.truncdiv(a, b)


def maximum(a: te.Expr, b: te.Expr) -> te.Expr:
    """The larger number; NaN where either is NaN (`te.maximum` keeps only that of ``a``)."""
    most = te.maximum(a, b)
    return te.select(te.isnan(b), b, most) if is_float(b.dtype) else most


def minimum(a: te.Expr, b: te.Expr) -> te.Expr:
    """The smaller number; NaN where either is NaN."""
    least = te.minimum(a, b)
    return te.select(te.isnan(b), b, least) if is_float(b.dtype) else least


def floor_mod(a: te.Expr, b: te.Expr) -> te.Expr:
    """Remainder with the sign of the divisor."""
    if not is_float(a.dtype):
        return a % b
    rest = te.fmod(a, b)
    other = te.any(te.all(rest < 0.0, b > 0.0), te.all(rest > 0.0, b < 0.0))
    return te.select(other, rest + b, rest)


def truncated_mod(a: te.Expr, b: te.Expr) -> te.Expr:
    """Remainder with the sign of the dividend, as C's ``%`` and ``fmod``."""
    return te.fmod(a, b) if is_float(a.dtype) else te.truncmod(a, b)


def power(a: te.Expr, b: te.Expr) -> te.Expr:
    """``a`` to the power ``b``, of the type of ``a``; integers by way of float64."""
    wide = a.dtype if is_float(a.dtype) and a.dtype == b.dtype else "float64"
    return te.cast(a.dtype, te.pow(te.cast(wide, a), te.cast(wide, b)))


def prelu(x: te.Expr, slope: te.Expr) -> te.Expr:
    """``x`` where positive, else ``slope * x``."""
    return te.select(x < te.const(0, x.dtype), x * slope, x)


def cast(x: te.Expr, to: str) -> te.Expr:
    """``x`` as a value of type ``to``; bool holds what is not zero."""
    return te.cast(to, x)
