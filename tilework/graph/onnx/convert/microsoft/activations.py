"""Activation functions, with a bias before them, or behind another operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes, optional
from tilework.graph.onnx.convert.activations import SELU
from tilework.graph.onnx.convert.slices import along
from tilework.graph.onnx.protos import NodeProto
from tilework.index.extents import known

# activation of a fused operator -> the network's operator, and its parameters in order
_FUSED: dict[str, tuple[str, dict[str, float]]] = {
    "Clip": ("clip", {"low": float("-inf"), "high": float("inf")}),
    "Elu": ("elu", {"alpha": 1.0}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": ("hard_swish", {}),
    "LeakyRelu": ("leaky_relu", {"alpha": 0.01}),
    "Relu": ("relu", {}),
    "Selu": ("selu", SELU),
    "Sigmoid": ("sigmoid", {}),
    "Softplus": ("softplus", {}),
    "Softsign": ("softsign", {}),
    "Tanh": ("tanh", {}),
    "ThresholdedRelu": ("thresholded_relu", {"alpha": 1.0}),
}


def activated(
    c: OnnxContext, y: str, a: Mapping[str, Any], name: str, parameters: Sequence[float] = ()
) -> str:
    """The activation that the attributes of a fused operator name, of ``y``.

    Args:
        a: ``activation``, and its parameters as ``activation_alpha`` and so on.
        parameters: those that have a place instead.

    Raises:
        Unsupported: no such activation is known.
    """
    kind = a.get("activation", "")
    if not kind:
        return y
    if kind not in _FUSED:
        raise Unsupported(f"activation '{kind}' is not one of {', '.join(_FUSED)}")
    op, defaults = _FUSED[kind]
    attrs = {k: float(a.get(f"activation_{k}", v)) for k, v in defaults.items()}
    attrs |= {k: float(v) for k, v in zip(defaults, parameters, strict=False)}
    return c.op(op, y, name=name, **attrs)


def _gelu(how: str, c: OnnxContext, node: NodeProto) -> str:
    """GELU of the sum of one or two inputs."""
    x = c.value(node.input[0])
    if optional(node, 1):
        x = c.op("add", x, c.value(node.input[1]))
    return c.op("gelu", x, name=node.output[0], approximate=how)


def _quick_gelu(c: OnnxContext, node: NodeProto) -> str:
    alpha = float(attributes(node).get("alpha", 1.702))
    return c.op("silu", c.value(node.input[0]), name=node.output[0], alpha=alpha)


def _bias_add(c: OnnxContext, node: NodeProto) -> str:
    x, bias, skip = (c.value(i) for i in node.input)
    return c.op("add", c.op("add", x, bias), skip, name=node.output[0])


def _bias_split_gelu(c: OnnxContext, node: NodeProto) -> str:
    """The left half of the sum times GELU of its right half."""
    x = c.op("add", *(c.value(i) for i in node.input))
    axis = len(c.b.shape(x)) - 1
    width, odd = divmod(known(c.b.shape(x)[axis]), 2)
    if odd:
        raise Unsupported(f"{2 * width + 1} channels do not make two halves")
    left, right = (along(c, x, axis, i * width, width, f"{node.output[0]}_{i}") for i in range(2))
    return c.op("multiply", left, c.op("gelu", right, approximate="none"), name=node.output[0])


CONVERTERS: dict[str, Converter] = {
    "BiasAdd": _bias_add,
    "BiasGelu": partial(_gelu, "none"),
    "BiasSplitGelu": _bias_split_gelu,
    "FastGelu": partial(_gelu, "tanh"),
    "Gelu": partial(_gelu, "none"),
    "QuickGelu": _quick_gelu,
}
