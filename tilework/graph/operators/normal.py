"""Normalisation along channels, and of distributions.

batch_norm(x, gamma, beta, mean, var; axis, epsilon)
normalize(x; axes, epsilon, center)          layer norm, root-mean-square norm, without scale
group_norm(x; groups, epsilon, layout)       of feature maps; instance norm: a group a channel
local_response_norm(x; axis, size, alpha, beta, bias)
softmax, log_softmax, hardmax (x; axis)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilework import ops, te
from tilework.graph.operators.base import (
    FLOATS,
    Attrs,
    Declare,
    Operator,
    Pattern,
    Shape,
    declared,
    moved_axes,
    normal_axis,
    shaped,
)
from tilework.graph.operators.layouts import channels_last
from tilework.graph.operators.reductions import axes_of


def _batch_norm(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    x, *stats = shapes
    channels = x[attrs["axis"]]
    if any(s != (channels,) for s in stats) or len(stats) != 4:
        raise ValueError(f"gamma, beta, mean and variance must have shape [{channels}]")
    return x


def _along_axis(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (x,) = shapes
    normal_axis(attrs["axis"], len(x))
    return x


def _normalize(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (x,) = shapes
    if not axes_of(attrs, len(x)):
        raise ValueError("there is no dimension to normalise over")
    _not_negative(attrs["epsilon"])
    return x


def _group_norm(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (x,) = shapes
    channels, groups = channels_last(x, attrs)[-1], attrs["groups"]
    if groups < 1 or channels % groups:
        raise ValueError(f"{groups} groups do not divide {channels} channels")
    _not_negative(attrs["epsilon"])
    return x


def _local_response(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    if not 1 <= attrs["size"] <= 2**16:
        raise ValueError(f"a window of {attrs['size']} channels makes no sense")
    return _along_axis(shapes, attrs)


def _not_negative(epsilon: float) -> None:
    if not epsilon >= 0:
        raise ValueError(f"epsilon is {epsilon}; it must not be negative")


def _declare_normalize(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    axes = axes_of(a, t[0].ndim)
    return ops.normalize(t[0], axes, a["epsilon"], center=a["center"])


def _declare_local_response(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    axis = normal_axis(a["axis"], t[0].ndim)
    return ops.local_response_norm(t[0], axis, a["size"], a["alpha"], a["beta"], a["bias"])


def _declare_along(function: Callable[[te.Tensor, int], te.Tensor]) -> Declare:
    return lambda a, t, free: function(t[0], normal_axis(a["axis"], t[0].ndim))


def _along(name: str, function: Callable[[te.Tensor, int], te.Tensor]) -> Operator:
    declare = _declare_along(function)
    return Operator(name, shaped(_along_axis, FLOATS), declare, Pattern.REDUCE, moved_axes("axis"))


OPERATORS = (
    # passes turn it into a product and a sum
    Operator(
        "batch_norm",
        shaped(_batch_norm, FLOATS),
        None,
        Pattern.OPAQUE,
        permute=moved_axes("axis"),
        permuted_inputs=1,
    ),
    Operator(
        "softmax",
        shaped(_along_axis, FLOATS),
        _declare_along(ops.softmax),
        Pattern.ANCHOR,
        permute=moved_axes("axis"),
    ),
    _along("log_softmax", ops.log_softmax),
    _along("hardmax", ops.hardmax),
    Operator(
        "normalize",
        shaped(_normalize, FLOATS),
        _declare_normalize,
        Pattern.ANCHOR,
        permute=moved_axes("axes"),
    ),
    Operator(
        "group_norm",
        shaped(_group_norm, FLOATS),
        declared(ops.group_norm, "groups", "epsilon"),
        Pattern.ANCHOR,
    ),
    Operator(
        "local_response_norm",
        shaped(_local_response, FLOATS),
        _declare_local_response,
        Pattern.ANCHOR,
        permute=moved_axes("axis"),
    ),
)
