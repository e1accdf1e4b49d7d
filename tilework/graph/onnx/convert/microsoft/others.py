"""Operators that the standard took over, or has under another name."""

from __future__ import annotations

from tilework.graph.onnx.context import Converter, OnnxContext
from tilework.graph.onnx.convert import indexing, normal, quantised, slices
from tilework.graph.onnx.protos import NodeProto


def _expand_dims(c: OnnxContext, node: NodeProto) -> str:
    shape = list(c.shape(node.input[0]))
    axis = int(c.array(node.input[1], "the axis").item())
    shape.insert(slices.normal(axis, len(shape) + 1), 1)
    return c.op("reshape", c.value(node.input[0]), name=node.output[0], shape=tuple(shape))


IN_THE_STANDARD_DOMAIN: dict[str, Converter] = {
    "SimplifiedLayerNormalization": normal.CONVERTERS["RMSNormalization"],
}
"""What ONNX Runtime adds there."""

CONVERTERS: dict[str, Converter] = {
    "DequantizeLinear": quantised.CONVERTERS["DequantizeLinear"],
    "ExpandDims": _expand_dims,
    "GatherND": indexing.CONVERTERS["GatherND"],
    "Pad": slices.CONVERTERS["Pad"],
    "QuantizeLinear": quantised.CONVERTERS["QuantizeLinear"],
    "Trilu": indexing.CONVERTERS["Trilu"],
}
