"""What operators make of tensors without elements.

There is only one such tensor of a type, so a result without elements is a constant, and no kernel
ever has an extent of 0. What is here is the rest: results with elements of inputs without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.operators.base import Attrs, ValueType
from tilework.index.extents import known_shape

MAY_BE_EMPTY = ("expand", "slice", "tile", "top_k")
"""Operators whose results may have no elements though all inputs have some."""

_NAN = math.nan


def _lowest(kind: ValueType) -> float:
    dtype = numpy_dtype(kind.dtype)
    return np.iinfo(dtype).min if dtype.kind in "iu" else False if dtype.kind == "b" else -math.inf


def _highest(kind: ValueType) -> float:
    dtype = numpy_dtype(kind.dtype)
    return np.iinfo(dtype).max if dtype.kind in "iu" else True if dtype.kind == "b" else math.inf


def _mean(kind: ValueType) -> float:
    return 0 if numpy_dtype(kind.dtype).kind in "iu" else _NAN


def _number(value: float) -> Callable[[ValueType], float]:
    return lambda kind: value


# what each element of the result is, by the result's type
_FILLED: dict[str, Callable[[ValueType], float]] = {
    **dict.fromkeys(
        (
            "conv1d", "conv2d", "conv3d", "dense", "einsum", "matmul", "reduce_l1", "reduce_l2",
            "reduce_sum", "reduce_sum_square",
        ),
        _number(0),
    ),
    **dict.fromkeys(("reduce_log_sum", "reduce_log_sum_exp"), _number(-math.inf)),
    **dict.fromkeys(("global_avg_pool", "reduce_mean"), _mean),
    "reduce_max": _lowest,
    "reduce_min": _highest,
    "reduce_prod": _number(1),
}  # fmt: skip

# without what is to be written they give their first input
_WRITING = ("replace_rows", "scatter_elements", "scatter_rows")


def of_empty(
    op: str, types: Sequence[ValueType], attrs: Attrs, result: ValueType
) -> np.ndarray | tuple[int, ...]:
    """What an operator gives of which an input has no elements, and whose result has some.

    Args:
        types: of the inputs.
        result: the result's type.

    Returns:
        The result; or numbers of the inputs that are enough: alone, one of them is the result.

    Raises:
        ValueError: there is no result.
    """
    if op == "concat":
        return tuple(i for i, t in enumerate(types) if 0 not in t.shape)
    if op in _WRITING and 0 not in types[0].shape:
        return (0,)
    if op == "pad":
        return np.full(known_shape(result.shape), attrs["value"], numpy_dtype(result.dtype))
    if op not in _FILLED:
        raise ValueError("an input has no elements, and the result would have some")
    return np.full(known_shape(result.shape), _FILLED[op](result), numpy_dtype(result.dtype))
