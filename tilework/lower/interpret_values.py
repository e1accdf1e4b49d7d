"""What single nodes of expressions mean to the interpreter of loop programs.

Index arithmetic is that of Python integers, which are exact; everything else is that of NumPy, in
the node's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import is_float, is_integer, numpy_dtype, wrapped
from tilework.index.symbols import Point, Symbolic, value_at
from tilework.index.whole import COMPARE, FOLD
from tilework.te import expr as x
from tilework.te.numeric import ARITHMETIC, WHOLE


def poisoned(shape: Sequence[int], dtype: str) -> NDArray[Any]:
    """An array full of values that spoil every result they reach: NaN, or a large odd integer."""
    kind = numpy_dtype(dtype)
    if is_float(dtype):
        return np.full(tuple(shape), np.nan, kind)
    return np.full(tuple(shape), 1 if kind.kind == "b" else np.iinfo(kind).max // 3, kind)


def literal(e: x.Const, at: Point) -> Any:
    """Index literals as Python integers, others as elements of their type."""
    value = value_at(e.value, at) if isinstance(e.value, Symbolic) else e.value
    if is_integer(e.dtype) and e.dtype not in ("int32", "int64"):
        return numpy_dtype(e.dtype).type(wrapped(int(value), e.dtype))
    if is_integer(e.dtype):
        return value
    return numpy_dtype(e.dtype).type(value)


def select(
    e: x.Select,
    cond: Callable[[], Any],
    a: Callable[[], Any],
    b: Callable[[], Any],
    tables: set[x.Expr],
) -> Callable[[], Any]:
    """A selection as a function: both sides are evaluated, unless they are numbers alone.

    Args:
        e: the node.
        cond, a, b: its parts as functions.
        tables: the nodes that choose among numbers, to which this one is added if it is one.
    """
    kind = numpy_dtype(e.dtype)
    if not is_float(e.dtype) or not all(isinstance(n, x.Const) or n in tables for n in (e.a, e.b)):
        return lambda: _chosen(cond(), a(), b(), kind)
    tables.add(e)

    def entry() -> Any:
        which = cond()
        if np.ndim(which):
            return _chosen(which, a(), b(), kind)
        return a() if which else b()

    return entry


def _chosen(cond: Any, a: Any, b: Any, kind: np.dtype[Any]) -> Any:
    """``cond ? a : b``, element by element."""
    if np.ndim(cond) == 0:
        if isinstance(a, int) and isinstance(b, int):
            return a if cond else b  # an index stays a Python integer
        if isinstance(a, np.generic) and isinstance(b, np.generic) and a.dtype == b.dtype == kind:
            return a if cond else b
    return np.asarray(np.where(cond, a, b)).astype(kind)[()]


def operator(e: x.Binary | x.Compare | x.Logic) -> Callable[[Any, Any], Any]:
    """What a node of two operands does with their values."""
    if isinstance(e, x.Compare):
        return COMPARE[e.op]
    if isinstance(e, x.Logic):
        return np.logical_and if e.op == "and" else np.logical_or
    return _whole(e.op, numpy_dtype(e.dtype)) if is_integer(e.dtype) else ARITHMETIC[e.op]


def _whole(op: str, kind: np.dtype[Any]) -> Callable[[Any, Any], Any]:
    """Integer arithmetic that wraps around; Python integers are indices and stay exact."""
    exact, wraps = FOLD.get(op), WHOLE[op]

    def apply(a: Any, b: Any) -> Any:
        if exact is not None and isinstance(a, int) and isinstance(b, int):
            return exact(a, b)
        return np.asarray(wraps(typed(a), typed(b)))[()]

    def typed(a: Any) -> Any:
        return a if getattr(a, "dtype", None) == kind else np.asarray(a).astype(kind)

    return apply
