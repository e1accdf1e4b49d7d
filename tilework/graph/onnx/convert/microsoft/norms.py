"""Layer norms with what is added before them, and group norms with channels last."""

from __future__ import annotations

from functools import partial
from typing import Any

from tilework.graph.onnx.context import (
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.normal import wide
from tilework.graph.onnx.protos import NodeProto


def normalized(c: OnnxContext, x: str, epsilon: float, *, center: bool) -> str:
    """Layer norm of the last dimension without scale; root-mean-square norm without ``center``."""
    axes = (len(c.b.shape(x)) - 1,)
    return wide(c, "normalize", x, {}, axes=axes, epsilon=epsilon, center=center)


def scaled(c: OnnxContext, y: str, gamma: str, beta: str, name: str) -> str:
    """``y`` times ``gamma`` plus ``beta``, ONNX names; ``beta`` may be empty."""
    y = c.op("multiply", y, c.value(gamma), name=name)
    return c.op("add", y, c.value(beta), name=name) if beta else y


def _skip_norm(c: OnnxContext, node: NodeProto, *, center: bool) -> Result:
    """Norm of ``input + skip + bias``; further outputs: two that no CPU computes, and the sum."""
    bias, beta = (4, 3) if center else (3, -1)
    x = c.op("add", *(c.value(i) for i in node.input[:2]), name=f"{node.output[0]}_sum")
    if c.b.shape(x) != c.shape(node.input[0]):
        raise Unsupported(
            f"skip of shape {list(c.shape(node.input[1]))} does not fit the input "
            f"{list(c.shape(node.input[0]))}"
        )
    if optional(node, bias):
        x = c.op("add", x, c.value(node.input[bias]), name=f"{node.output[0]}_sum")
    y = normalized(c, x, float(attributes(node).get("epsilon", 1e-12)), center=center)
    shift = optional(node, beta) if beta >= 0 else ""
    return [scaled(c, y, node.input[2], shift, node.output[0]), None, None, x]


def _group_norm(c: OnnxContext, node: NodeProto) -> Result:
    return _grouped(c, node, c.value(node.input[0]), attributes(node))


def _skip_group_norm(c: OnnxContext, node: NodeProto) -> Result:
    """Group norm of ``x + skip + bias``; also the sum."""
    a = attributes(node)
    x, skip = c.value(node.input[0]), c.value(node.input[3])
    shape = c.b.shape(x)
    channels = (shape[0], 1, 1, shape[-1]) if a.get("channels_last", 1) else (*shape[:2], 1, 1)
    if len(c.b.shape(skip)) == 2:
        skip = c.op("reshape", skip, shape=channels)
    x = c.op("add", x, skip, name=f"{node.output[0]}_sum")
    if optional(node, 4):
        bias = c.op("reshape", c.value(node.input[4]), shape=(1, *channels[1:]))
        x = c.op("add", x, bias, name=f"{node.output[0]}_sum")
    return [_grouped(c, node, x, a), x]


def _grouped(c: OnnxContext, node: NodeProto, x: str, a: dict[str, Any]) -> str:
    shape, name = c.b.shape(x), node.output[0]
    last = bool(a.get("channels_last", 1))
    if len(shape) != 4:
        raise Unsupported(f"its input has {len(shape)} dimensions instead of 4")
    groups, epsilon = int(a["groups"]), float(a.get("epsilon", 1e-5))
    layout = "NHWC" if last else "NCHW"
    y = wide(c, "group_norm", x, a, groups=groups, epsilon=epsilon, layout=layout)
    channels = (1, 1, 1, shape[3]) if last else (1, shape[1], 1, 1)
    for op, i in (("multiply", 1), ("add", 2)):
        vector = c.op("reshape", c.value(node.input[i]), shape=channels)
        if c.b.types[vector].dtype != c.b.types[y].dtype:  # parameters may be wider
            vector = c.op("cast", vector, to=c.b.types[y].dtype)
        y = c.op(op, y, vector, name=name)
    activation = int(a.get("activation", 0))
    if activation not in (0, 1):
        raise Unsupported(f"activation is {activation}; it must be 0 (none) or 1 (SiLU)")
    return c.op("silu", y, name=name) if activation else y


CONVERTERS: dict[str, Converter] = {
    "GroupNorm": _group_norm,
    "SkipGroupNorm": _skip_group_norm,
    "SkipLayerNormalization": partial(_skip_norm, center=True),
    "SkipSimplifiedLayerNormalization": partial(_skip_norm, center=False),
}
