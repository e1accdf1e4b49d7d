"""Normalisation along channels, and of distributions."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tilework.dtypes import NARROW_FLOATS, numpy_dtype
from tilework.graph.aten.context import AtenContext, Converter, Value, first_of
from tilework.index.extents import known


def channels(c: AtenContext, x: Value, rank: int) -> Value:
    """A vector of channels at the place of the second of ``rank`` dimensions."""
    return c.reshape(x, (1, math.prod(c.shape(x)), *(1 for _ in range(rank - 2))))


def _batch_norm(
    c: AtenContext,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    momentum: float,
    epsilon: float,
) -> Value:
    v = c.value(x)
    dtype, size = c.dtype(v), (known(c.shape(v)[1]),)
    gamma = c.constant(np.ones(size, numpy_dtype(dtype))) if weight is None else weight
    beta = c.constant(np.zeros(size, numpy_dtype(dtype))) if bias is None else bias
    stats = [c.value(s, dtype) for s in (gamma, beta, mean, var)]
    if all(c.known(s) is not None for s in stats) and dtype not in NARROW_FLOATS:
        return c.op("batch_norm", v, *stats, axis=1, epsilon=float(epsilon))
    gain, shift, centre, spread = (channels(c, s, c.rank(v)) for s in stats)
    deviation = c.op("sqrt", c.op("add", spread, c.number(epsilon, dtype)))
    y = c.op("multiply", c.op("divide", c.op("subtract", v, centre), deviation), gain)
    return c.op("add", y, shift)


def _own_batch_norm(
    c: AtenContext,
    x: Any,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: float,
    epsilon: float,
) -> Value:
    """By the data's own mean and variance: what instance norm is written as."""
    v = c.value(x)
    rank, shape = c.rank(v), c.shape(v)
    if shape[0] == 1 and 3 <= rank <= 5:
        attrs = {"groups": shape[1], "epsilon": float(epsilon), "layout": "NCHW"}
        y = c.op("group_norm", v, **attrs)
    else:
        axes = tuple(d for d in range(rank) if d != 1)
        y = c.op("normalize", v, axes=axes, epsilon=float(epsilon), center=True)
    return _scaled(c, y, weight, bias, rank)


def _scaled(c: AtenContext, y: Value, weight: Any, bias: Any, rank: int) -> Value:
    if weight is not None:
        y = c.op("multiply", y, channels(c, c.value(weight, c.dtype(y)), rank))
    if bias is not None:
        y = c.op("add", y, channels(c, c.value(bias, c.dtype(y)), rank))
    return y


def _layer_norm(
    c: AtenContext, x: Any, shape: Any, weight: Any, bias: Any, epsilon: float
) -> Value:
    v = c.value(x)
    dtype = c.dtype(v)
    wide = c.cast(v, "float32") if dtype in NARROW_FLOATS else v
    rank = c.rank(v)
    axes = tuple(range(rank - len(shape), rank))
    y = c.op("normalize", wide, axes=axes, epsilon=float(epsilon), center=True)
    if weight is not None:
        y = c.op("multiply", y, c.value(weight, c.dtype(y)))
    if bias is not None:
        y = c.op("add", y, c.value(bias, c.dtype(y)))
    return c.cast(y, dtype)


def _group_norm(
    c: AtenContext,
    x: Any,
    weight: Any,
    bias: Any,
    n: int,
    channel_count: int,
    pixels: int,
    groups: int,
    epsilon: float,
) -> Value:
    v = c.value(x)
    shape, rank = c.shape(v), c.rank(v)
    flat = v if 3 <= rank <= 5 else c.reshape(v, (shape[0], shape[1], math.prod(shape[2:])))
    attrs = {"groups": int(groups), "epsilon": float(epsilon), "layout": "NCHW"}
    y = c.op("group_norm", flat, **attrs)
    return c.reshape(_scaled(c, y, weight, bias, c.rank(y)), shape)


def _softmax(op: str, c: AtenContext, x: Any, dim: int, half_to_float: bool = False) -> Value:
    v = c.value(x, c.output_dtype())
    if not c.rank(v):
        return c.reshape(c.op(op, c.reshape(v, (1,)), axis=0), ())
    return c.op(op, v, axis=c.axis(dim, c.rank(v)))


_STATISTICS = "its saved statistics are not offered"
_MOMENTS = "its mean and deviation are not offered"

CONVERTERS: dict[str, Converter] = {
    "_native_batch_norm_legit_no_training": first_of(3, _batch_norm, _STATISTICS),
    "_native_batch_norm_legit.no_stats": first_of(3, _own_batch_norm, _STATISTICS),
    "native_layer_norm": first_of(3, _layer_norm, _MOMENTS),
    "native_group_norm": first_of(3, _group_norm, _MOMENTS),
    "_softmax": partial(_softmax, "softmax"),
    "_log_softmax": partial(_softmax, "log_softmax"),
}
