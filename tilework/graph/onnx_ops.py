"""What each ONNX operator becomes in a network.

A converter takes the importer's context and the ONNX node, and returns the name of the value that
it built, or an array where the result is known at import.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilework.graph.onnx_context import (
    Context,
    Converter,
    Unsupported,
    attributes,
    optional,
    scalar,
)
from tilework.graph.onnx_views import VIEW_CONVERTERS

if TYPE_CHECKING:
    import onnx

# operators of small constants (shape arithmetic, transposed weights) that are evaluated at import
FOLDABLE = (
    "Add", "Cast", "Ceil", "Concat", "Div", "Floor", "Gather", "Identity", "Mul", "Neg",
    "Reshape", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze",
)  # fmt: skip


# ---------------------------------------------------------------- windows


def _window(
    a: dict[str, Any], size: Sequence[int], kernel: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Strides, pads and dilation of a sliding window, with automatic padding made explicit."""
    rank = len(size)
    strides = tuple(a.get("strides", (1,) * rank))
    dilation = tuple(a.get("dilations", (1,) * rank))
    pads = list(a.get("pads", (0,) * (2 * rank)))
    if not len(strides) == len(dilation) == len(kernel) == rank or len(pads) != 2 * rank:
        raise Unsupported(f"kernel, strides, dilations and pads do not fit {rank} spatial axes")
    if min(*strides, *dilation, *kernel) < 1:
        raise Unsupported("kernel, strides and dilation must be positive")
    mode = a.get("auto_pad", "NOTSET")
    if mode == "VALID":
        pads = [0] * (2 * rank)
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        for d in range(rank):
            out = -(-size[d] // strides[d])
            reach = dilation[d] * (kernel[d] - 1) + 1
            total = max((out - 1) * strides[d] + reach - size[d], 0)
            small, large = total // 2, total - total // 2
            pads[d], pads[d + rank] = (small, large) if mode == "SAME_UPPER" else (large, small)
    elif mode != "NOTSET":
        raise Unsupported(f"unknown auto_pad '{mode}'")
    if min(pads) < 0:
        raise Unsupported("negative pads are not supported")
    return strides, tuple(pads), dilation


def _conv(c: Context, node: onnx.NodeProto) -> str:
    a = attributes(node)
    x, w = c.shape(node.input[0]), c.shape(node.input[1])
    rank = _spatial_rank(x)
    if len(w) != len(x):
        raise Unsupported(f"the weights {list(w)} do not fit {rank} spatial axes")
    groups = int(a.get("group", 1))
    strides, pads, dilation = _window(a, x[2:], w[2:])
    y = c.op(
        f"conv{rank}d",
        c.value(node.input[0]),
        c.value(node.input[1]),
        name=node.output[0],
        strides=strides,
        pads=pads,
        dilation=dilation,
        layout="NCHW",
        **({"groups": groups} if groups != 1 else {}),
    )
    bias = optional(node, 2)
    if not bias:
        return y
    return c.op("add", y, _channels(c, bias, rank), name=f"{node.output[0]}_biased")


def _spatial_rank(shape: Sequence[int]) -> int:
    """Number of spatial axes of feature maps [N, C, ...]."""
    if not 3 <= len(shape) <= 5:
        raise Unsupported(f"only one to three spatial axes are supported, not {list(shape)}")
    return len(shape) - 2


def _channels(c: Context, name: str, rank: int) -> str:
    """A vector of channels as [1, C, 1, ...] before ``rank`` spatial axes."""
    shape = (1, math.prod(c.shape(name)), *(1 for _ in range(rank)))
    if name in c.constants:
        c.value(name)  # checks the dtype
        return c.b.constant(c.constants[name].reshape(shape), name)
    return c.op("reshape", c.value(name), shape=shape)


def _pool(op: str) -> Converter:
    def convert(c: Context, node: onnx.NodeProto) -> str:
        a = attributes(node)
        shape = c.shape(node.input[0])
        rank = _spatial_rank(shape)
        kernel = tuple(a["kernel_shape"])
        strides, pads, dilation = _window(a, shape[2:], kernel)
        count = bool(a.get("count_include_pad", 0))
        if a.get("ceil_mode", 0):
            wider = _ceil_pads(shape[2:], kernel, strides, pads, dilation)
            if op == "avg_pool" and count and wider != pads:
                raise Unsupported("ceil_mode with count_include_pad is not supported")
            pads = wider
        attrs: dict[str, Any] = {"dilation": dilation}
        if op == "avg_pool":
            if max(dilation) > 1:
                raise Unsupported("dilated average pooling is not supported")
            attrs = {"count_include_pad": count}
        return c.op(
            f"{op}{rank}d",
            c.value(node.input[0]),
            name=node.output[0],
            kernel=kernel,
            strides=strides,
            pads=pads,
            layout="NCHW",
            **attrs,
        )

    return convert


def _ceil_pads(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Pads that make a rounded-down window count equal the rounded-up one."""
    rank = len(size)
    ends = []
    for d in range(rank):
        reach = dilation[d] * (kernel[d] - 1) + 1
        room = size[d] + pads[d] + pads[d + rank]
        out = -(-(room - reach) // strides[d]) + 1
        if (out - 1) * strides[d] >= size[d] + pads[d]:
            out -= 1  # the last window would start in the padding
        ends.append(pads[d + rank] + max((out - 1) * strides[d] + reach - room, 0))
    return (*pads[:rank], *ends)


def _global_pool(op: str) -> Converter:
    def convert(c: Context, node: onnx.NodeProto) -> str:
        shape = c.shape(node.input[0])
        rank = _spatial_rank(shape)
        x, name = c.value(node.input[0]), node.output[0]
        if op == "global_avg_pool":
            return c.op(op, x, name=name, layout="NCHW")
        ones = (1,) * rank
        attrs = {"strides": ones, "pads": (0,) * (2 * rank), "dilation": ones, "layout": "NCHW"}
        return c.op(f"max_pool{rank}d", x, name=name, kernel=shape[2:], **attrs)

    return convert


def _reduce_mean(c: Context, node: onnx.NodeProto) -> str:
    a = attributes(node)
    shape = c.shape(node.input[0])
    axes = a.get("axes")
    if optional(node, 1):
        axes = c.ints(node.input[1], "axes")
    spatial = list(range(2, len(shape)))
    if (
        axes is None
        or not 3 <= len(shape) <= 5
        or any(not -len(shape) <= d < len(shape) for d in axes)
        or sorted(d % len(shape) for d in axes) != spatial
    ):
        raise Unsupported("only the mean over all spatial axes of feature maps is supported")
    y = c.op("global_avg_pool", c.value(node.input[0]), name=node.output[0], layout="NCHW")
    if a.get("keepdims", 1):
        return y
    return c.op("reshape", y, name=node.output[0], shape=shape[:2])


# ---------------------------------------------------------------- matrices


def _gemm(c: Context, node: onnx.NodeProto) -> str:
    a = attributes(node)
    x, w = node.input[0], node.input[1]
    name = node.output[0]
    alpha, beta = float(a.get("alpha", 1.0)), float(a.get("beta", 1.0))
    trans_a, trans_b = bool(a.get("transA", 0)), bool(a.get("transB", 0))
    if c.rank(x) != 2 or c.rank(w) != 2:
        raise Unsupported("both operands must be matrices")
    if w in c.constants and not trans_a:
        y = _dense(c, c.value(x), w, trans_b, alpha, name)
    else:
        y = c.op(
            "matmul",
            c.value(x),
            c.value(w),
            name=name,
            transpose_a=trans_a,
            transpose_b=trans_b,
        )
        if alpha != 1.0:
            y = c.op("multiply", y, scalar(c, alpha))
    bias = optional(node, 2)
    if not bias or beta == 0.0:
        return y
    if beta == 1.0:
        return c.op("add", y, c.value(bias), name=f"{name}_biased")
    if bias in c.constants:
        c.value(bias)
        scaled = (c.constants[bias].astype(np.float64) * beta).astype(np.float32)
        return c.op("add", y, c.b.constant(scaled, bias), name=f"{name}_biased")
    return c.op("add", y, c.op("multiply", c.value(bias), scalar(c, beta)))


def _dense(c: Context, x: str, weight: str, transposed: bool, scale: float, name: str) -> str:
    """Product with a constant matrix, kept as [out, in]."""
    c.value(weight)  # checks the dtype
    array = c.constants[weight]
    array = np.ascontiguousarray(array if transposed else array.T)
    if scale != 1.0:
        array = (array * np.float32(scale)).astype(np.float32)
    return c.op("dense", x, c.b.constant(array, weight), name=name)


def _matmul(c: Context, node: onnx.NodeProto) -> str:
    x, w = node.input[0], node.input[1]
    shape, name = c.shape(x), node.output[0]
    if c.rank(w) != 2 or len(shape) < 2:
        raise Unsupported(
            f"a product of {list(shape)} and {list(c.shape(w))}: the second must be a matrix"
        )
    flat = c.value(x)
    if len(shape) > 2:
        flat = c.op("reshape", flat, shape=(math.prod(shape[:-1]), shape[-1]))
    if w in c.constants:
        y = _dense(c, flat, w, False, 1.0, name)
    else:
        y = c.op("matmul", flat, c.value(w), name=name, transpose_a=False, transpose_b=False)
    if len(shape) == 2:
        return y
    return c.op("reshape", y, name=name, shape=(*shape[:-1], c.shape(w)[1]))


# ---------------------------------------------------------------- normalisation, elementwise


def _batch_norm(c: Context, node: onnx.NodeProto) -> str:
    a = attributes(node)
    if a.get("training_mode", 0):
        raise Unsupported("training mode is not supported")
    if c.rank(node.input[0]) < 2:
        raise Unsupported("the input has no channel dimension")
    for i in node.input[1:5]:
        c.array(i, "scale, shift, mean and variance")
    values = [c.value(i) for i in node.input[:5]]
    epsilon = float(a.get("epsilon", 1e-5))
    return c.op("batch_norm", *values, name=node.output[0], axis=1, epsilon=epsilon)


def _unary(op: str) -> Converter:
    return lambda c, node: c.op(op, c.value(node.input[0]), name=node.output[0])


def _binary(op: str) -> Converter:
    """An operator of two or more operands (``Sum``, ``Max``, ``Min`` take any number)."""

    def convert(c: Context, node: onnx.NodeProto) -> str:
        y = c.value(node.input[0])
        for other in node.input[1:]:
            y = c.op(op, y, c.value(other), name=node.output[0])
        return y

    return convert


def _negate(c: Context, node: onnx.NodeProto) -> str:
    return c.op("multiply", c.value(node.input[0]), scalar(c, -1.0), name=node.output[0])


def _reciprocal(c: Context, node: onnx.NodeProto) -> str:
    return c.op("divide", scalar(c, 1.0), c.value(node.input[0]), name=node.output[0])


def _clip(c: Context, node: onnx.NodeProto) -> str:
    a = attributes(node)
    ends = {"low": a.get("min", -np.inf), "high": a.get("max", np.inf)}
    for i, end in ((1, "low"), (2, "high")):
        if optional(node, i):
            ends[end] = c.array(node.input[i], "the limits").item()
    largest = float(np.finfo(np.float32).max)
    if ends["low"] > -largest or ends["high"] < largest:
        # older exporters write the largest finite number for "no limit"
        high = np.inf if ends["high"] >= largest else float(ends["high"])
        low = -np.inf if ends["low"] <= -largest else float(ends["low"])
        return c.op("clip", c.value(node.input[0]), name=node.output[0], low=low, high=high)
    return c.value(node.input[0])


def _softmax(c: Context, node: onnx.NodeProto) -> str:
    shape = c.shape(node.input[0])
    x, name = c.value(node.input[0]), node.output[0]
    if c.opset >= 13:
        return c.op("softmax", x, name=name, axis=int(attributes(node).get("axis", -1)))
    # before opset 13 everything from the axis on counts as one dimension
    axis = attributes(node).get("axis", 1) % max(len(shape), 1)
    if axis == len(shape) - 1:
        return c.op("softmax", x, name=name, axis=axis)
    flat = c.op("reshape", x, shape=(math.prod(shape[:axis]), math.prod(shape[axis:])))
    return c.op("reshape", c.op("softmax", flat, axis=1), name=name, shape=shape)


CONVERTERS: dict[str, Converter] = {
    **VIEW_CONVERTERS,
    "Abs": _unary("abs"),
    "Add": _binary("add"),
    "AveragePool": _pool("avg_pool"),
    "BatchNormalization": _batch_norm,
    "Ceil": _unary("ceil"),
    "Clip": _clip,
    "Conv": _conv,
    "Div": _binary("divide"),
    "Erf": _unary("erf"),
    "Exp": _unary("exp"),
    "Floor": _unary("floor"),
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool("global_avg_pool"),
    "GlobalMaxPool": _global_pool("max_pool"),
    "Log": _unary("log"),
    "MatMul": _matmul,
    "Max": _binary("maximum"),
    "MaxPool": _pool("max_pool"),
    "Min": _binary("minimum"),
    "Mul": _binary("multiply"),
    "Neg": _negate,
    "Reciprocal": _reciprocal,
    "ReduceMean": _reduce_mean,
    "Relu": _unary("relu"),
    "Sigmoid": _unary("sigmoid"),
    "Softmax": _softmax,
    "Sqrt": _unary("sqrt"),
    "Sub": _binary("subtract"),
    "Sum": _binary("add"),
    "Tanh": _unary("tanh"),
}
