"""Activation functions."""

from __future__ import annotations

import numpy as np

from tilework.graph.onnx.context import Converter, OnnxContext, attributes
from tilework.graph.onnx.protos import NodeProto


def _activation(op: str, **defaults: float) -> Converter:
    """An activation whose attributes have the operator's names; ``defaults`` are ONNX's."""

    def convert(c: OnnxContext, node: NodeProto) -> str:
        a = attributes(node)
        attrs = {k: float(a.get(k, default)) for k, default in defaults.items()}
        return c.op(op, c.value(node.input[0]), name=node.output[0], **attrs)

    return convert


def _gelu(c: OnnxContext, node: NodeProto) -> str:
    how = attributes(node).get("approximate", "none")
    return c.op("gelu", c.value(node.input[0]), name=node.output[0], approximate=how)


SELU = {"alpha": float(np.float32(1.67326324)), "gamma": float(np.float32(1.05070102))}

CONVERTERS: dict[str, Converter] = {
    "Celu": _activation("celu", alpha=1.0),
    "Elu": _activation("elu", alpha=1.0),
    "Gelu": _gelu,
    "HardSigmoid": _activation("hard_sigmoid", alpha=0.2, beta=0.5),
    "HardSwish": _activation("hard_swish"),
    "LeakyRelu": _activation("leaky_relu", alpha=0.01),
    "Mish": _activation("mish"),
    "Relu": _activation("relu"),
    "Selu": _activation("selu", **SELU),
    "Shrink": _activation("shrink", lambd=0.5, bias=0.0),
    "Sigmoid": _activation("sigmoid"),
    "Softplus": _activation("softplus"),
    "Softsign": _activation("softsign"),
    "Swish": _activation("silu", alpha=1.0),
    "Tanh": _activation("tanh"),
    "ThresholdedRelu": _activation("thresholded_relu", alpha=1.0),
}
