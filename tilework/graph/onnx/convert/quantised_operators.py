"""Operators on quantised numbers: dequantised, computed, and quantised again.

That is the form in which `tilework.graph.passes.integer_products` finds products of bytes, as in
files that are written so. Inputs come in threes: numbers, their scale and their zero point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.matrices import product
from tilework.graph.onnx.convert.scales import check_parameters
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.convert.windows import averages, convolution
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, constant, value
from tilework.index.extents import Extent


def constant_parameters(c: OnnxContext, names: Sequence[str]) -> bool:
    """Whether scales and zero points are known at import, and the scales are float32."""
    known = [c.constants.get(n) for n in names if n]
    return all(a is not None for a in known) and all(
        a.dtype == np.float32 for a in known if a is not None and a.dtype.kind == "f"
    )


def read(c: OnnxContext, numbers: str, scale: str, zero: str, dim: int | None = None) -> Value:
    """Three inputs as real numbers.

    Args:
        c: the context.
        numbers, scale, zero: ONNX names; the zero point may be left out.
        dim: the dimension that scales are along, if there are several.

    Raises:
        Unsupported: the parameters are none, or do not fit.
    """
    check_parameters(c, scale, zero, numbers)
    x = value(c, numbers)
    point = c.constants[zero] if zero else np.zeros((), x.dtype)
    parts = (_along(c, a, x.shape, dim) for a in (c.constants[scale], point))
    return x.op("dequantize", *parts)


def written(c: OnnxContext, y: Value, scale: str, zero: str) -> str:
    """Real numbers as quantised ones; uint8 without a zero point.

    Raises:
        Unsupported: the parameters are none.
    """
    check_parameters(c, scale, zero, None)
    point = c.constants[zero] if zero else np.zeros((), np.uint8)
    parts = (_along(c, a, y.shape, None) for a in (c.constants[scale], point))
    return y.op("quantize", *parts).name


def _along(c: OnnxContext, array: np.ndarray, shape: Sequence[Extent], dim: int | None) -> Value:
    if array.size == 1:
        return constant(c, array.reshape(()))
    if dim is None or array.shape != tuple(shape[dim : dim + 1]):
        raise Unsupported(f"a scale or zero point of shape {list(array.shape)} for {list(shape)}")
    return constant(c, array.reshape([-1 if d == dim else 1 for d in range(len(shape))]))


def quantised_conv(c: OnnxContext, node: NodeProto) -> str:
    """``QLinearConv`` of constant weights and parameters."""
    i = node.input
    x, w = read(c, i[0], i[1], i[2]), read(c, i[3], i[4], i[5], 0)
    y = Value(c, convolution(c, attributes(node), x.name, w.name, "", f"{node.output[0]}_real"))
    if optional(node, 8):
        y = y + _bias(c, i[8], i[1], i[4]).reshape(-1, *(1,) * (len(y.shape) - 2))
    return written(c, y, i[6], i[7])


def _bias(c: OnnxContext, bias: str, data: str, weights: str) -> Value:
    """A bias: its scale is the product of the factors', by channel along its last axis."""
    numbers, held = value(c, bias), c.constants.get(bias)
    scale = (c.constants[data].reshape(()) * c.constants[weights]).astype(np.float32)
    if held is not None and held.shape[-1:] == (1,) and scale.size > 1:
        numbers = constant(c, held.repeat(scale.size, -1))
    zero = constant(c, np.zeros((), np.int32))
    channels = max(len(numbers.shape) - 1, 0)
    return numbers.op("dequantize", _along(c, scale, numbers.shape, channels), zero)


def quantised_matmul(c: OnnxContext, node: NodeProto) -> str:
    """``QLinearMatMul`` of a constant matrix and constant parameters."""
    i = node.input
    x, w = read(c, i[0], i[1], i[2]), read(c, i[3], i[4], i[5], 1)
    y = Value(c, product(c, x.name, w.name, f"{node.output[0]}_real"))
    return written(c, y, i[6], i[7])


def _quantised_gemm(c: OnnxContext, node: NodeProto) -> str:
    """``alpha * (a @ b + c)``: the scale of ``c`` is that of the product, `alpha` included."""
    i, a = node.input, attributes(node)
    _known(c, [i[1], i[2], i[4], i[5], optional(node, 7), optional(node, 8)])
    transposed = bool(a.get("transB", 0))
    x, w = read(c, i[0], i[1], i[2]), read(c, i[3], i[4], i[5], 0 if transposed else 1)
    if a.get("transA", 0):
        x = x.transpose(1, 0)
    w = w.transpose(1, 0) if transposed else w
    y = Value(c, product(c, x.name, w.name, f"{node.output[0]}_real"))
    if optional(node, 6):
        y = y + _bias(c, i[6], i[1], i[4])
    if a.get("alpha", 1.0) != 1.0:
        y = y * float(a["alpha"])
    return written(c, y, i[7], optional(node, 8)) if optional(node, 7) else y.name


def _known(c: OnnxContext, names: Sequence[str]) -> None:
    if not constant_parameters(c, names):
        raise Unsupported("scales and zero points must be constants, the scales float32")


def _binary(op: str, c: OnnxContext, node: NodeProto) -> str:
    i = list(node.input) + [""] * (8 - len(node.input))
    _known(c, [*i[1:3], *i[4:]])
    a, b = read(c, *i[:3]), read(c, *i[3:6])
    return written(c, a.op(op, b), i[6], i[7])


def _where(c: OnnxContext, node: NodeProto) -> str:
    i = list(node.input)
    _known(c, [*i[2:4], *i[5:]])
    a, b = read(c, *i[1:4]), read(c, *i[4:7])
    return written(c, a.where(value(c, i[0]), b), i[7], i[8])


def _unary(
    compute: Callable[[Value, dict[str, Any]], Value], c: OnnxContext, node: NodeProto
) -> str:
    """An operator whose inputs are numbers, scale, zero point, and those of the result."""
    i = list(node.input) + [""] * (5 - len(node.input))
    _known(c, i[1:])
    return written(c, compute(read(c, *i[:3]), attributes(node)), i[3], i[4])


def _leaky_relu(x: Value, a: dict[str, Any]) -> Value:
    return x.op("leaky_relu", alpha=float(a.get("alpha", 0.01)))


def _mean_of_maps(x: Value, a: dict[str, Any]) -> Value:
    if not a.get("channels_last", 0):
        return x.op("global_avg_pool", layout="NCHW")
    return x.op("reduce_mean", axes=tuple(range(1, len(x.shape) - 1)), keepdims=True)


def _average_pool(x: Value, a: dict[str, Any]) -> Value:
    last = len(x.shape) - 1
    channels_last = bool(a.get("channels_last", 0))
    first = x.transpose(0, last, *range(1, last)) if channels_last else x
    y = Value(x.c, averages(x.c, a, first.name, f"{x.name}_averages"))
    return y.transpose(0, *range(2, last + 1), 1) if channels_last else y


def _softmax(x: Value, a: dict[str, Any]) -> Value:
    """Before version 13 of the standard's operator, over all dimensions from ``axis`` on."""
    axis = normal(int(a.get("axis", -1)), len(x.shape))
    if int(a.get("opset", 13)) >= 13 or axis == len(x.shape) - 1:
        return x.op("softmax", axis=axis)
    flat = x.reshape(*x.shape[:axis], -1)
    return flat.op("softmax", axis=axis).reshape(*x.shape)


def _quantised_concat(c: OnnxContext, node: NodeProto) -> str:
    i = node.input
    _known(c, [*i[:2], *i[3::3], *i[4::3]])
    parts = [read(c, *i[at : at + 3]) for at in range(2, len(i), 3)]
    axis = normal(int(attributes(node)["axis"]), len(parts[0].shape))
    y = parts[0].op("concat", *parts[1:], axis=axis)
    return written(c, y, i[0], i[1])


CONVERTERS: dict[str, Converter] = {
    "QGemm": _quantised_gemm,
    "QLinearAdd": partial(_binary, "add"),
    "QLinearAveragePool": partial(_unary, _average_pool),
    "QLinearConcat": _quantised_concat,
    "QLinearGlobalAveragePool": partial(_unary, _mean_of_maps),
    "QLinearLeakyRelu": partial(_unary, _leaky_relu),
    "QLinearMul": partial(_binary, "multiply"),
    "QLinearSigmoid": partial(_unary, lambda x, a: x.op("sigmoid")),
    "QLinearSoftmax": partial(_unary, _softmax),
    "QLinearWhere": _where,
}
"""Those of the domain ``com.microsoft``."""
