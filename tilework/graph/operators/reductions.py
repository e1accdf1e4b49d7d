"""Reductions: sums, extrema, means, norms, positions of extrema.

Attributes of all: ``axes`` (dimensions, none given: all of them), ``keepdims``; of ``argmax`` and
``argmin``: ``axis``, ``keepdims``, ``last`` (which of several equal elements is meant).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilework import ops, te
from tilework.graph.operators.base import (
    FLOATS,
    NUMBERS,
    Attrs,
    Operator,
    Pattern,
    Shape,
    ValueType,
    common_dtype,
    moved_axes,
    normal_axis,
    shaped,
)
from tilework.ops.reductions import REDUCTIONS, reduced_shape

_ORDERED = ("max", "min")  # also of bool
_FLOATS_ONLY = ("l2", "log_sum", "log_sum_exp")


def axes_of(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """The reduced dimensions, in order, counted from the front.

    Raises:
        ValueError: a dimension does not exist, or is named twice.
    """
    given = attrs.get("axes")
    axes = range(rank) if given is None else [normal_axis(d, rank) for d in given]
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes {list(axes)} name a dimension twice")
    return tuple(sorted(axes))


def _infer(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (x,) = shapes
    return reduced_shape(x, axes_of(attrs, len(x)), attrs["keepdims"])


def _infer_position(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    (x,) = types
    common_dtype(types, NUMBERS)
    axes = (normal_axis(attrs["axis"], len(x.shape)),)
    return ValueType(reduced_shape(x.shape, axes, attrs["keepdims"]), "int64")


def _declare(kind: str, a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.reduce(t[0], kind, axes_of(a, t[0].ndim), a["keepdims"])


def _declare_position(kind: str, a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    axis = normal_axis(a["axis"], t[0].ndim)
    return ops.arg_extremum(t[0], kind, axis, a["keepdims"], a.get("last", False))


def _reduction(kind: str) -> Operator:
    dtypes: Sequence[str] = FLOATS if kind in _FLOATS_ONLY else NUMBERS
    if kind in _ORDERED:
        dtypes = (*NUMBERS, "bool")
    return Operator(
        f"reduce_{kind}",
        shaped(_infer, dtypes),
        partial(_declare, kind),
        Pattern.REDUCE,
        permute=moved_axes("axes"),
    )


def _position(kind: str) -> Operator:
    declare = partial(_declare_position, kind)
    return Operator(f"arg{kind}", _infer_position, declare, Pattern.REDUCE, moved_axes("axis"))


OPERATORS = (
    *(_reduction(kind) for kind in REDUCTIONS),
    _position("max"),
    _position("min"),
)
