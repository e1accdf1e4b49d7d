"""Normalisation along channels, and of distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilework.graph.onnx.context import Context, Converter, Unsupported, attributes

if TYPE_CHECKING:
    import onnx


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
    "BatchNormalization": _batch_norm,
    "Softmax": _softmax,
}
