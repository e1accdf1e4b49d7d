"""Sums of products of integers, with constant weights: products of bytes.

``sum (x - zx) (w - zw) = sum x w - zw sum x - zx sum (w - zw)`` for weights with a sign and data
without one. The zero point of the data may be computed while the network runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.onnx.context import OnnxContext, attributes, optional
from tilework.graph.onnx.convert.matrices import reshaped
from tilework.graph.onnx.convert.windows import convolution, window
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, constant, value
from tilework.index.extents import known_shape
from tilework.index.symbols import is_static

_FLIP = 128
_GROUP = 4
"""Products that one instruction sums."""


def product_of_bytes(c: OnnxContext, node: NodeProto) -> str | None:
    """``MatMulInteger`` of a constant matrix; None if it is none, or zero points are by row."""
    weights = _weights(c, node, 1)
    zero = _zero(c, node)
    if weights is None or zero is None or weights[0].ndim != 2 or not c.rank(node.input[0]) > 1:
        return None
    x = _unsigned(value(c, node.input[0]))
    shape = x.shape
    flat = Value(c, reshaped(c, x.name, (math.prod(shape[:-1]), shape[-1])))
    y = matrix_of_bytes(flat, zero, *weights)
    return reshaped(c, y.name, (*shape[:-1], weights[0].shape[1]), node.output[0])


def matrix_of_bytes(
    x: Value, zero: Value, weights: NDArray[np.int8], points: NDArray[np.int64]
) -> Value:
    """``(x - zero) @ (weights - points)`` [M, N] as int32.

    Args:
        x: uint8 [M, K].
        zero: int32, the zero point of ``x``.
        weights, points: [K, N]: see `signed_weights`.
    """
    c, w, points = x.c, weights.T, points.T
    short = -w.shape[1] % _GROUP
    wide = np.pad(w, ((0, 0), (0, short)))
    data = x.op("pad", before=(0, 0), after=(0, short), value=0) if short else x
    y = data.op("dense", constant(c, np.ascontiguousarray(wide)), sums="int32")
    if points.any():
        total = x.cast("int32").op("reduce_sum", axes=(1,), keepdims=True)
        y = y - total * constant(c, points[:, 0].astype(np.int32))
    of_zero = (w.astype(np.int64) - points).sum(1).astype(np.int32)
    return y - zero * constant(c, of_zero)


def conv_of_bytes(c: OnnxContext, node: NodeProto) -> str | None:
    """``ConvInteger`` of constant weights; None if they are none."""
    weight, zero, a = _weights(c, node, 0), _zero(c, node), attributes(node)
    if weight is None or zero is None or not 3 <= c.rank(node.input[0]) <= 5:
        return None
    w, points = weight
    groups = int(a.get("group", 1))
    if groups > 1:  # sums of windows would be as much work as the product
        w, points = w.astype(np.int16) - points.astype(np.int16), np.zeros_like(points)
    x = _surrounded(c, a, _unsigned(value(c, node.input[0])), zero, w)
    inner = {k: v for k, v in a.items() if k not in ("pads", "auto_pad")}
    rank = w.ndim - 2
    short = -w.shape[1] % _GROUP if groups == 1 else 0
    wide, data = w, x
    if short:
        wide = np.pad(w, ((0, 0), (0, short), *((0, 0),) * rank))
        ends = (0, short, *(0,) * rank)
        data = x.op("pad", before=(0,) * (rank + 2), after=ends, value=0)
    weights = constant(c, np.ascontiguousarray(wide)).name
    y = Value(c, convolution(c, inner, data.name, weights, "", node.output[0], sums="int32"))
    by_channel = (-1, *(1,) * rank)
    if points.any():
        total = x.cast("int32").op("reduce_sum", axes=(1,), keepdims=True)
        ones = constant(c, np.ones((1, 1, *w.shape[2:]), np.int32)).name
        sums = Value(c, convolution(c, inner, total.name, ones, "", f"{node.output[0]}_windows"))
        point = points.reshape(len(w), -1)[:, 0].astype(np.int32)
        y = y - sums * constant(c, point.reshape(by_channel))
    of_zero = (w.astype(np.int64) - points).reshape(len(w), -1).sum(1).astype(np.int32)
    return (y - zero * constant(c, of_zero.reshape(by_channel))).name


def _weights(
    c: OnnxContext, node: NodeProto, axis: int
) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
    """Constant weights as int8, and their zero points, broadcast to them."""
    w, name = c.constants.get(node.input[1]), optional(node, 3)
    zero = c.constants.get(name) if name else np.zeros((), np.int8)
    if w is None or zero is None or w.dtype.name not in ("int8", "uint8"):
        return None
    if zero.size > 1:
        if w.ndim <= axis or zero.shape != w.shape[axis : axis + 1]:
            return None
        zero = zero.reshape([-1 if d == axis else 1 for d in range(w.ndim)])
    return signed_weights(w, zero)


def signed_weights(
    w: NDArray[Any], zero: NDArray[Any]
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Weights of bytes as int8, and their zero points, broadcast to them."""
    points = np.broadcast_to(zero.astype(np.int64), w.shape)
    whole = w.astype(np.int64) - points
    if whole.size and whole.min() >= -_FLIP and whole.max() < _FLIP:
        return whole.astype(np.int8), np.zeros_like(whole)
    by = _FLIP if w.dtype == np.uint8 else 0
    return (w.astype(np.int64) - by).astype(np.int8), points - by


def _zero(c: OnnxContext, node: NodeProto) -> Value | None:
    """The zero point of the data as a number of int32, as of uint8; None if there are several."""
    name, signed = optional(node, 2), c.dtype(node.input[0]) == "int8"
    if c.dtype(node.input[0]) not in ("int8", "uint8"):
        return None
    if not name:
        return constant(c, np.asarray(_FLIP if signed else 0, np.int32))
    if math.prod(c.shape(name)) != 1:
        return None
    point = value(c, name).reshape().cast("int32")
    return point + _FLIP if signed else point


def _unsigned(x: Value) -> Value:
    return x.op("flip_sign") if x.dtype == "int8" else x


def _surrounded(
    c: OnnxContext, a: dict[str, Any], x: Value, zero: Value, w: NDArray[Any]
) -> Value:
    """Data with their zero point around the spatial axes, as far as the convolution pads them."""
    _, pads, _ = window(a, x.shape[2:], known_shape(w.shape[2:]))
    rank = len(pads) // 2
    if not any(pads):
        return x
    before, after = (0, 0, *pads[:rank]), (0, 0, *pads[rank:])
    wide = x.op("pad", before=before, after=after, value=0)
    if is_static(x.shape[2:]):
        inside = np.ones((1, 1, *known_shape(x.shape[2:])), np.bool_)
        mask = constant(c, np.pad(inside, list(zip(before, after, strict=True))))
    else:
        one = constant(c, np.ones((1,) * (rank + 2), np.uint8))
        mask = one.op("expand", shape=(1, 1, *x.shape[2:]))
        mask = mask.op("pad", before=before, after=after, value=0).cast("bool")
    return wide.where(mask, zero.cast("uint8"))
