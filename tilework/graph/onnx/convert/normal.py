"""Normalisation along channels, and of distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.numbers import Numbers
from tilework.graph.onnx.protos import NodeProto
from tilework.index.extents import Extent, known, known_shape


def like(c: OnnxContext, number: float, value: str) -> str:
    """A constant of rank 0 with the element type of ``value``."""
    return c.b.constant(np.asarray(number).astype(c.b.types[value].dtype), "scalar")


def _batch_norm(c: OnnxContext, node: NodeProto) -> Result:
    a = attributes(node)
    if c.rank(node.input[0]) < 2:
        raise Unsupported("the input has no channel dimension")
    epsilon = float(a.get("epsilon", 1e-5))
    if a.get("training_mode", 0):
        return _trained_batch_norm(c, node, epsilon, float(a.get("momentum", 0.9)))
    x, *stats = (c.value(i) for i in node.input[:5])
    known = [_constant(c, s) for s in stats]
    if all(k is not None for k in known):
        values = [s if k is None else k for s, k in zip(stats, known, strict=True)]
        return c.op("batch_norm", x, *values, name=node.output[0], axis=1, epsilon=epsilon)
    gamma, beta, mean, var = (channels(c, s, c.rank(node.input[0])) for s in stats)
    return _scaled(c, node, c.op("subtract", x, mean), var, gamma, beta, epsilon)


def _constant(c: OnnxContext, value: str) -> str | None:
    """A constant of the numbers of a value that is one, or that constants are dequantised to."""
    b = c.b
    if value in b.constants:
        return value
    node = b.node(value, "dequantize")
    if node is None or any(v not in b.constants for v in node.inputs):
        return None
    numbers, scale, zero = (b.constants[v].astype(np.float32) for v in node.inputs)
    return b.constant((numbers - zero) * scale, value)


def _scaled(
    c: OnnxContext,
    node: NodeProto,
    centred: str,
    var: str,
    gamma: str,
    beta: str,
    epsilon: float,
) -> str:
    deviation = c.op("sqrt", c.op("add", var, like(c, epsilon, var)))
    y = c.op("multiply", c.op("divide", centred, deviation), gamma)
    return c.op("add", y, beta, name=node.output[0])


def _trained_batch_norm(
    c: OnnxContext, node: NodeProto, epsilon: float, momentum: float
) -> Result:
    """Batch norm by the data's own mean and variance; also the running ones, updated."""
    x, *stats = (c.value(i) for i in node.input[:5])
    rank = c.rank(node.input[0])
    axes = tuple(d for d in range(rank) if d != 1)
    mean, centred, var = _moments(c, x, axes)
    gamma, beta, *running = (channels(c, s, rank) for s in stats)
    outputs: list[str | np.ndarray | Numbers | None] = [
        _scaled(c, node, centred, var, gamma, beta, epsilon)
    ]
    for old, new in zip(running, (mean, var), strict=True):
        kept = c.op("multiply", old, like(c, momentum, old))
        added = c.op("multiply", new, like(c, 1.0 - momentum, new))
        shape = c.b.shape(stats[0])
        outputs.append(c.op("reshape", c.op("add", kept, added), shape=shape))
    return outputs


def _moments(c: OnnxContext, x: str, axes: tuple[int, ...]) -> tuple[str, str, str]:
    """The mean of ``x`` over some dimensions, ``x`` without it, and the variance."""
    mean = c.op("reduce_mean", x, axes=axes, keepdims=True)
    centred = c.op("subtract", x, mean)
    var = c.op("reduce_mean", c.op("multiply", centred, centred), axes=axes, keepdims=True)
    return mean, centred, var


def channels(c: OnnxContext, value: str, rank: int) -> str:
    """A vector of channels at the place of the second of ``rank`` dimensions."""
    shape = (1, math.prod(c.b.shape(value)), *(1 for _ in range(rank - 2)))
    if value in c.b.constants:
        return c.b.constant(c.b.constants[value].reshape(known_shape(shape)), value)
    return c.op("reshape", value, shape=shape)


def _softmax(op: str, c: OnnxContext, node: NodeProto) -> str:
    shape = c.shape(node.input[0])
    x, name = c.value(node.input[0]), node.output[0]
    axis = attributes(node).get("axis", -1 if c.opset >= 13 else 1)
    if not -len(shape) <= axis < max(len(shape), 1):
        raise Unsupported(f"axis {axis} does not exist: there are {len(shape)} dimensions")
    axis %= len(shape)
    if c.opset >= 13 or axis == len(shape) - 1:
        return c.op(op, x, name=name, axis=axis)
    # before opset 13 everything from the axis on counts as one dimension
    flat = c.op("reshape", x, shape=(math.prod(shape[:axis]), math.prod(shape[axis:])))
    return c.op("reshape", c.op(op, flat, axis=1), name=name, shape=shape)


def _layer_norm(c: OnnxContext, node: NodeProto) -> Result:
    y, axes, epsilon = _normalized(c, node, center=True)
    if optional(node, 2):
        y = c.op("add", y, c.value(node.input[2]), name=node.output[0])
    outputs: list[str | np.ndarray | Numbers | None] = [y]
    if len(node.output) > 1:
        mean, _, var = _moments(c, c.value(node.input[0]), axes)
        deviation = c.op("sqrt", c.op("add", var, like(c, epsilon, var)))
        outputs += [mean, c.op("reciprocal", deviation)]
    return outputs


def _rms_norm(c: OnnxContext, node: NodeProto) -> str:
    return _normalized(c, node, center=False)[0]


def _normalized(
    c: OnnxContext, node: NodeProto, *, center: bool
) -> tuple[str, tuple[int, ...], float]:
    """What is normalized from an axis on, times its scale; the axes, and the epsilon."""
    a, rank = attributes(node), c.rank(node.input[0])
    axes = tuple(range(normal(int(a.get("axis", -1)), rank), rank))
    epsilon = float(a.get("epsilon", 1e-5))
    x = c.value(node.input[0])
    y = wide(c, "normalize", x, a, axes=axes, epsilon=epsilon, center=center)
    return c.op("multiply", y, c.value(node.input[1]), name=node.output[0]), axes, epsilon


def wide(c: OnnxContext, op: str, x: str, a: dict[str, Any], **attrs: Any) -> str:
    """``op`` of ``x``, computed in float32 if ``x`` is narrower (``stash_type``)."""
    dtype = c.b.types[x].dtype
    if dtype in ("float16", "bfloat16") and a.get("stash_type", 1) == 1:
        y = c.op(op, c.op("cast", x, to="float32"), **attrs)
        return c.op("cast", y, to=dtype)
    return c.op(op, x, **attrs)


def _instance_norm(c: OnnxContext, node: NodeProto) -> str:
    x = c.value(node.input[0])
    shape = c.b.shape(x)
    epsilon = float(attributes(node).get("epsilon", 1e-5))
    if len(shape) < 3:
        raise Unsupported("the input has no spatial dimensions")
    y = c.op("group_norm", x, groups=shape[1], epsilon=epsilon, layout="NCHW")
    scale, bias = (channels(c, c.value(i), len(shape)) for i in node.input[1:3])
    return c.op("add", c.op("multiply", y, scale), bias, name=node.output[0])


def _group_norm(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x = c.value(node.input[0])
    shape = c.b.shape(x)
    groups, epsilon = int(a["num_groups"]), float(a.get("epsilon", 1e-5))
    if len(shape) < 3:
        raise Unsupported("the input has no spatial dimensions")
    y = wide(c, "group_norm", x, a, groups=groups, epsilon=epsilon, layout="NCHW")
    scale, bias = (_each_channel(c, c.value(i), groups, shape) for i in node.input[1:3])
    return c.op("add", c.op("multiply", y, scale), bias, name=node.output[0])


def _each_channel(c: OnnxContext, value: str, groups: int, shape: Sequence[Extent]) -> str:
    """Parameters of groups (operator set 18) or channels (later), one for each channel."""
    count = known(shape[1])
    if c.b.shape(value) == (groups,) and groups != count:
        width = count // groups
        if value in c.b.constants:
            value = c.b.constant(np.repeat(c.b.constants[value], width), value)
        else:
            ones = c.b.constant(np.ones((1, width), c.b.types[value].dtype), "ones")
            wide = c.op("multiply", c.op("reshape", value, shape=(groups, 1)), ones)
            value = c.op("reshape", wide, shape=(count,))
    return channels(c, value, len(shape))


def _mean_variance(c: OnnxContext, node: NodeProto) -> str:
    rank = c.rank(node.input[0])
    axes = tuple(sorted(d % rank for d in attributes(node).get("axes", (0, 2, 3))))
    # 1e-9 is added to the deviation: the same where there is none, and nothing elsewhere
    x = c.value(node.input[0])
    return c.op("normalize", x, name=node.output[0], axes=axes, epsilon=1e-18, center=True)


def _local_response(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    if c.rank(node.input[0]) < 2:
        raise Unsupported("the input has no channel dimension")
    defaults = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    attrs = {key: float(a.get(key, value)) for key, value in defaults.items()}
    x, size = c.value(node.input[0]), int(a["size"])
    return c.op("local_response_norm", x, name=node.output[0], axis=1, size=size, **attrs)


def _lp_norm(c: OnnxContext, node: NodeProto) -> str:
    a, rank = attributes(node), c.rank(node.input[0])
    axis, p = int(a.get("axis", -1)), int(a.get("p", 2))
    if p not in (1, 2):
        raise Unsupported(f"p is {p}; it must be 1 or 2")
    x = c.value(node.input[0])
    norm = c.op(f"reduce_l{p}", x, axes=(normal(axis, rank),), keepdims=True)
    zero = like(c, 0.0, norm)
    # a vector of zeros stays one
    scale = c.op("where", c.op("equal", norm, zero), zero, c.op("reciprocal", norm))
    return c.op("multiply", x, scale, name=node.output[0])


CONVERTERS: dict[str, Converter] = {
    "BatchNormalization": _batch_norm,
    "GroupNormalization": _group_norm,
    "Hardmax": partial(_softmax, "hardmax"),
    "InstanceNormalization": _instance_norm,
    "LRN": _local_response,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": partial(_softmax, "log_softmax"),
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mean_variance,
    "RMSNormalization": _rms_norm,
    "Softmax": partial(_softmax, "softmax"),
}
