"""Operators that treat all elements alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilework.graph.onnx.context import Context, Converter, attributes, optional, scalar

if TYPE_CHECKING:
    import onnx


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


CONVERTERS: dict[str, Converter] = {
    "Abs": _unary("abs"),
    "Add": _binary("add"),
    "Ceil": _unary("ceil"),
    "Clip": _clip,
    "Div": _binary("divide"),
    "Erf": _unary("erf"),
    "Exp": _unary("exp"),
    "Floor": _unary("floor"),
    "Log": _unary("log"),
    "Max": _binary("maximum"),
    "Min": _binary("minimum"),
    "Mul": _binary("multiply"),
    "Neg": _negate,
    "Reciprocal": _reciprocal,
    "Relu": _unary("relu"),
    "Sigmoid": _unary("sigmoid"),
    "Sqrt": _unary("sqrt"),
    "Sub": _binary("subtract"),
    "Sum": _binary("add"),
    "Tanh": _unary("tanh"),
}
