"""Operators that treat all elements alike: arithmetic, comparisons, logic, selection, casts."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tilework.dtypes import is_float, is_integer
from tilework.graph.aten.context import AtenContext, Converter, Unsupported, Value, plain
from tilework.graph.aten.convert.promotion import operands
from tilework.graph.aten.convert.quantised import whole_numbers
from tilework.graph.aten.dtypes import dtype_name


def _unary(op: str, c: AtenContext, x: Any) -> Value:
    """A function of floats; integers become floats first."""
    (v,) = operands(c, x, to_float=True)
    return c.op(op, v)


def _rounded(op: str, c: AtenContext, x: Any) -> Value:
    """Rounding, which leaves integers as they are."""
    v = c.value(x)
    return c.op(op, v) if is_float(c.dtype(v)) else v


def _trunc(c: AtenContext, x: Any) -> Value:
    v = c.value(x)
    return _towards_zero(c, v) if is_float(c.dtype(v)) else v


def _towards_zero(c: AtenContext, v: Value) -> Value:
    negative = c.op("less", v, c.number(0, c.dtype(v)))
    return c.op("where", negative, c.op("ceil", v), c.op("floor", v))


def _logarithm(base: float, c: AtenContext, x: Any) -> Value:
    (v,) = operands(c, x, to_float=True)
    return c.op("multiply", c.op("log", v), c.number(1.0 / math.log(base), c.dtype(v)))


def _exp_minus_one(c: AtenContext, x: Any) -> Value:
    """``tanh(x / 2) * (exp(x) + 1)``, which loses nothing near 0."""
    (v,) = operands(c, x, to_float=True)
    dtype = c.dtype(v)
    half = c.op("tanh", c.op("multiply", v, c.number(0.5, dtype)))
    return c.op("multiply", half, c.op("add", c.op("exp", v), c.number(1, dtype)))


def _log_of_more_than_one(c: AtenContext, x: Any) -> Value:
    """``log(u) * x / (u - 1)`` with ``u = x + 1``: what rounding took off ``u`` cancels."""
    (v,) = operands(c, x, to_float=True)
    one = c.number(1, c.dtype(v))
    u = c.op("add", v, one)
    y = c.op("multiply", c.op("log", u), c.op("divide", v, c.op("subtract", u, one)))
    itself = c.op("logical_or", c.op("equal", u, one), c.op("isinf", v, **_BOTH))
    return c.op("where", itself, v, y)


def _add(c: AtenContext, a: Any, b: Any, alpha: Any = 1) -> Value:
    x, y = operands(c, a, b)
    if c.dtype(x) == "bool":
        return c.op("logical_or", x, y)
    return c.op("add", x, _times(c, y, alpha))


def _subtract(c: AtenContext, a: Any, b: Any, alpha: Any = 1) -> Value:
    x, y = operands(c, a, b)
    return c.op("subtract", x, _times(c, y, alpha))


def _reversed_subtract(c: AtenContext, a: Any, b: Any, alpha: Any = 1) -> Value:
    x, y = operands(c, a, b)
    return c.op("subtract", y, _times(c, x, alpha))


def _times(c: AtenContext, x: Value, factor: Any) -> Value:
    return x if factor == 1 else c.op("multiply", x, c.number(factor, c.dtype(x)))


def _multiply(c: AtenContext, a: Any, b: Any) -> Value:
    x, y = operands(c, a, b)
    return c.op("logical_and" if c.dtype(x) == "bool" else "multiply", x, y)


def _divide(c: AtenContext, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    x, y = operands(c, a, b, to_float=rounding_mode is None)
    if rounding_mode is None:
        return c.op("divide", x, y)
    if is_float(c.dtype(x)):
        if rounding_mode == "floor":
            return _floor_quotient(c, x, y)
        return _towards_zero(c, c.op("divide", x, y))
    known = c.known(y)
    if known is None or (known == 0).any():
        raise Unsupported("a division of integers by what may be 0")
    if rounding_mode == "trunc":
        return c.op("divide", x, y)
    # what is left, with the divisor's sign, divides without a rest
    return c.op("divide", c.op("subtract", x, c.op("floor_mod", x, y)), y)


def _floor_quotient(c: AtenContext, x: Value, y: Value) -> Value:
    """Of floats, rounded as PyTorch does: no more than the rest is missing to a whole number."""
    zero = c.number(0, c.dtype(x))
    rest = c.op("truncated_mod", x, y)
    less = c.op("logical_xor", c.op("less", rest, zero), c.op("less", y, zero))
    less = c.op("logical_and", less, c.op("not_equal", rest, zero))
    near = c.op("divide", c.op("subtract", x, rest), y)
    near = c.op("subtract", near, c.cast(less, c.dtype(x)))
    whole = c.op("floor", near)
    more = c.op("greater", c.op("subtract", near, whole), c.number(0.5, c.dtype(x)))
    whole = c.op("add", whole, c.cast(more, c.dtype(x)))
    return c.op("where", c.op("equal", y, zero), c.op("divide", x, y), whole)


def _remainder(op: str, c: AtenContext, a: Any, b: Any) -> Value:
    x, y = operands(c, a, b)
    known = c.known(y)
    if not is_float(c.dtype(x)) and (known is None or (known == 0).any()):
        raise Unsupported("a division of integers by what may be 0")
    return c.op(op, x, y)


def _power(c: AtenContext, a: Any, b: Any) -> Value:
    x, y = operands(c, a, b)
    dtype = c.dtype(x)
    if isinstance(b, (int, float)) and not isinstance(b, bool):
        if b == 1:
            return x
        if b == 2:
            return c.op("multiply", x, x)
        if b == 3 and not is_float(dtype):
            return c.op("multiply", c.op("multiply", x, x), x)
        if b == 0.5 and is_float(dtype):
            return c.op("sqrt", x)
        if b == -0.5 and is_float(dtype):
            return c.op("rsqrt", x)
        if b == -1 and is_float(dtype):
            return c.op("reciprocal", x)
    if not is_float(dtype):
        raise Unsupported("a power of integers")
    return c.op("power", x, y)


def _binary(op: str, c: AtenContext, a: Any, b: Any) -> Value:
    return c.op(op, *operands(c, a, b))


def _extremum(op: str, of_bool: str, c: AtenContext, a: Any, b: Any) -> Value:
    x, y = operands(c, a, b)
    return c.op(of_bool if c.dtype(x) == "bool" else op, x, y)


def _logical(op: str, c: AtenContext, *given: Any) -> Value:
    return c.op(op, *(c.value(x, "bool") for x in given))


def _bitwise(name: str, c: AtenContext, *given: Any) -> Value:
    values = operands(c, *given)
    kind = "logical" if c.dtype(values[0]) == "bool" else "bitwise"
    return c.op(f"{kind}_{name}", *values)


def _where(c: AtenContext, condition: Any, a: Any, b: Any) -> Value:
    dtype = c.output_dtype()
    return c.op("where", c.value(condition, "bool"), c.value(a, dtype), c.value(b, dtype))


def _clamp(c: AtenContext, x: Any, low: Any = None, high: Any = None) -> Value:
    dtype = c.output_dtype()
    v = c.value(x, dtype)
    if dtype == "bool":
        raise Unsupported("limits of bool")
    numbers = [n for n in (low, high) if isinstance(n, (int, float))]
    if any(n != n for n in numbers):
        raise Unsupported("a limit that is NaN")
    if is_float(dtype) and len(numbers) == sum(n is not None for n in (low, high)):
        lower = -math.inf if low is None else float(low)
        upper = math.inf if high is None else float(high)
        if lower == 0.0 and upper == math.inf:
            return c.op("relu", v)
        return c.op("clip", v, low=min(lower, upper), high=upper)
    for limit, op in ((low, "maximum"), (high, "minimum")):
        if limit is not None:
            v = c.op(op, v, c.value(limit, dtype))
    return v


def _isfinite(c: AtenContext, x: Any) -> Value:
    v = c.value(x)
    if not is_float(c.dtype(v)):
        raise Unsupported("of integers")
    outside = c.op("logical_or", c.op("isnan", v), c.op("isinf", v, **_BOTH))
    return c.op("logical_not", outside)


_BOTH = {"positive": True, "negative": True}


def _to_copy(c: AtenContext, x: Any, dtype: Any = None, **kwargs: Any) -> Value:
    device = kwargs.get("device")
    if device is not None and str(device).split(":")[0] != "cpu":
        raise Unsupported(f"a copy to device {device}")
    v, to = c.value(x), c.output_dtype()
    whole = whole_numbers(c, v) if to == "float32" else None
    if whole is not None:
        return whole
    if is_integer(to) and is_float(c.dtype(v)) and to in ("uint8", "int8", "int16"):
        # numbers that are too large wrap around there, as those of int32 do
        v = c.cast(v, "int32")
    return c.cast(v, to)


def _same(c: AtenContext, x: Any, *args: Any, **kwargs: Any) -> Value:
    return c.value(x)


def _full_like(c: AtenContext, like: Any, value: Any, **kwargs: Any) -> Value:
    """Numbers in the shape of the node's example, which follows from ``like``, or is given so."""
    return c.expand(c.number(value, c.output_dtype()), c.result_shape())


def _arange(c: AtenContext, start: Any, end: Any, step: Any = 1, **kwargs: Any) -> Value:
    """Numbers in order, up to a size that a run decides."""
    dtype = c.output_dtype()
    if any(isinstance(x, (float, Value)) for x in (start, step)):
        raise Unsupported("of fractions")
    attrs = {"shape": c.result_shape(), "start": start, "step": step, "axis": 0}
    return c.cast(c.op("arange", dtype=dtype if is_integer(dtype) else "int64", **attrs), dtype)


def _scalar(c: AtenContext, x: Any, **kwargs: Any) -> Value:
    return c.value(x, c.output_dtype())


def _quotient(c: AtenContext, a: Any, b: Any) -> Any:
    """Of sizes, or of what follows from them, as a number of floats."""
    if all(isinstance(x, (int, float)) for x in (a, b)):
        return a / b
    return c.op("divide", c.value(a, "float32"), c.value(b, "float32"))


def _filled(number: float) -> Converter:
    return lambda c, x, **kwargs: _full_like(c, x, number)


def _convert_type(c: AtenContext, x: Any, dtype: Any) -> Value:
    if dtype_name(dtype) is None:
        raise Unsupported(f"element type {dtype}")
    return _to_copy(c, x, dtype)


_FLOATING = (
    "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "reciprocal",
)  # fmt: skip
_COMPARED = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal",
}  # fmt: skip

CONVERTERS: dict[str, Converter] = {
    **{name: partial(_unary, name) for name in _FLOATING},
    **{name: partial(_binary, op) for name, op in _COMPARED.items()},
    **{f"logical_{n}": partial(_logical, f"logical_{n}") for n in ("and", "or", "xor", "not")},
    **{f"bitwise_{n}": partial(_bitwise, n) for n in ("and", "or", "xor", "not")},
    **dict.fromkeys(
        ("clone", "alias", "detach", "lift_fresh_copy", "contiguous", "dropout"), _same
    ),
    **{n: partial(_rounded, n) for n in ("floor", "ceil")},
    "round.default": partial(_rounded, "round"),
    "trunc": _trunc,
    "expm1": _exp_minus_one,
    "log1p": _log_of_more_than_one,
    "log2": partial(_logarithm, 2.0),
    "log10": partial(_logarithm, 10.0),
    **{name: plain(name) for name in ("abs", "neg", "sign", "isnan")},
    **dict.fromkeys(("add.Tensor", "add.Scalar"), _add),
    **dict.fromkeys(("sub.Tensor", "sub.Scalar"), _subtract),
    "rsub": _reversed_subtract,
    "mul": _multiply,
    "div": _divide,
    "true_divide": _divide,
    "remainder": partial(_remainder, "floor_mod"),
    "fmod": partial(_remainder, "truncated_mod"),
    "pow": _power,
    "maximum": partial(_extremum, "maximum", "logical_or"),
    "minimum": partial(_extremum, "minimum", "logical_and"),
    "where.self": _where,
    "clamp": _clamp,
    "clamp_min": lambda c, x, low: _clamp(c, x, low),
    "clamp_max": lambda c, x, high: _clamp(c, x, None, high),
    "isinf": plain("isinf", **_BOTH),
    "isfinite": _isfinite,
    "_to_copy": _to_copy,
    "convert_element_type": _convert_type,
    "arange.start_step": _arange,
    "scalar_tensor": _scalar,
    "truediv": _quotient,
    "full.default": _full_like,
    "full_like": _full_like,
    "zeros_like": _filled(0),
    "ones_like": _filled(1),
}
