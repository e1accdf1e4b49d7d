"""The arithmetic and the math functions of tensor expressions in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilework.dtypes import round_tf32


def _erf(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), dtype=x.dtype)


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(np.asarray(x).dtype)


MATH: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "trunc": np.trunc,
    "pow": np.power,
    "fmod": np.fmod,
    "round_tf32": round_tf32,
    "rounded": np.asarray,
    "quotient": lambda a, b, inverse: np.true_divide(a, b),
}


def maximum(a: Any, b: Any) -> Any:
    """``a < b ? b : a``, as kernels compute it: NaN compares with nothing, so that ``a`` stays."""
    return np.where(np.less(a, b), b, a)


def minimum(a: Any, b: Any) -> Any:
    """``a > b ? b : a``; see `maximum`."""
    return np.where(np.greater(a, b), b, a)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "max": maximum,
    "min": minimum,
}
"""Arithmetic, by operator; of integers see `WHOLE`."""


def divisor(b: np.ndarray) -> np.ndarray:
    """``b``, and 1 for each 0, as kernels divide."""
    return np.where(b == 0, b.dtype.type(1), b)


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    b = divisor(b)
    down = np.floor_divide(a, b)
    inexact = (down * b != a) & ((a < 0) != (b < 0))
    return np.asarray(down + inexact.astype(down.dtype))


def _shifted(shift: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def apply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        bits = 8 * a.dtype.itemsize
        far = b.astype(np.dtype(f"u{a.dtype.itemsize}")) >= bits
        if not far.any():
            return np.asarray(shift(a, b))
        out = shift(a, np.where(far, 0, b).astype(b.dtype))
        gone = np.where(a < 0, -1, 0).astype(a.dtype) if shift is np.right_shift else a * 0
        return np.asarray(np.where(far, gone, out))

    return apply


WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    **ARITHMETIC,
    "quot": _truncated,
    "rem": lambda a, b: a - _truncated(a, b) * divisor(b),
    "//": lambda a, b: np.floor_divide(a, divisor(b)),
    "%": lambda a, b: np.mod(a, divisor(b)),
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": _shifted(np.left_shift),
    ">>": _shifted(np.right_shift),
}
"""Arithmetic of integers, which wraps around."""
