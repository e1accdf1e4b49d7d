"""Matrix products."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tilework.graph.onnx.context import (
    Context,
    Converter,
    Unsupported,
    attributes,
    optional,
    scalar,
)

if TYPE_CHECKING:
    import onnx


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


CONVERTERS: dict[str, Converter] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
}
