"""Normalisation along channels, and of distributions."""

from __future__ import annotations

from collections.abc import Sequence

from tilework import ops, te
from tilework.graph.operators.base import (
    FLOATS,
    Attrs,
    Operator,
    Pattern,
    Shape,
    moved_axes,
    normal_axis,
    shaped,
)


def _batch_norm(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    x, *stats = shapes
    channels = x[attrs["axis"]]
    if any(s != (channels,) for s in stats) or len(stats) != 4:
        raise ValueError(f"gamma, beta, mean and variance must have shape [{channels}]")
    return x


def _softmax(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    normal_axis(attrs["axis"], len(shapes[0]))
    return shapes[0]


def _lower_softmax(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.softmax(t[0], a["axis"])


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
        shaped(_softmax, FLOATS),
        _lower_softmax,
        Pattern.ANCHOR,
        permute=moved_axes("axis"),
    ),
)
