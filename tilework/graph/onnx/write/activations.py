"""Activation functions; what the written operator set lacks is spelled out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple


def scalar(w: Writer, node: Node, value: float, hint: str) -> str:
    """An initializer of rank 0 with the element type of ``node``."""
    dtype = np.dtype(w.net.types[node.name].dtype)
    return w.constant(f"{w.names[node.name]}_{hint}", np.asarray(value, dtype))


def _silu(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    (x,) = inputs
    inner = x
    if node.attrs.get("alpha", 1.0) != 1.0:
        inner = f"{out}_scaled"
        w.add("Mul", [x, scalar(w, node, node.attrs["alpha"], "alpha")], inner)
    w.add("Sigmoid", [inner], f"{out}_gate")
    w.add("Mul", [x, f"{out}_gate"], out)


def _mish(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Softplus", inputs, f"{out}_softplus")
    w.add("Tanh", [f"{out}_softplus"], f"{out}_gate")
    w.add("Mul", [*inputs, f"{out}_gate"], out)


def _gelu(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    (x,) = inputs
    one, half = scalar(w, node, 1.0, "one"), scalar(w, node, 0.5, "half")
    if node.attrs.get("approximate", "none") == "tanh":
        three = scalar(w, node, 3.0, "three")
        small = scalar(w, node, 0.044715, "cubic")
        root = scalar(w, node, math.sqrt(2.0 / math.pi), "root")
        w.add("Pow", [x, three], f"{out}_cube")
        w.add("Mul", [f"{out}_cube", small], f"{out}_bend")
        w.add("Add", [x, f"{out}_bend"], f"{out}_bent")
        w.add("Mul", [f"{out}_bent", root], f"{out}_inner")
        w.add("Tanh", [f"{out}_inner"], f"{out}_odd")
    else:
        w.add("Mul", [x, scalar(w, node, math.sqrt(0.5), "root")], f"{out}_inner")
        w.add("Erf", [f"{out}_inner"], f"{out}_odd")
    w.add("Add", [f"{out}_odd", one], f"{out}_twice")
    w.add("Mul", [f"{out}_twice", half], f"{out}_gate")
    w.add("Mul", [x, f"{out}_gate"], out)


WRITERS: dict[str, Write] = {
    "celu": simple("Celu", "alpha"),
    "elu": simple("Elu", "alpha"),
    "gelu": _gelu,
    "hard_sigmoid": simple("HardSigmoid", "alpha", "beta"),
    "hard_swish": simple("HardSwish"),
    "leaky_relu": simple("LeakyRelu", "alpha"),
    "mish": _mish,
    "relu": simple("Relu"),
    "selu": simple("Selu", "alpha", "gamma"),
    "shrink": simple("Shrink", "lambd", "bias"),
    "sigmoid": simple("Sigmoid"),
    "silu": _silu,
    "softplus": simple("Softplus"),
    "softsign": simple("Softsign"),
    "tanh": simple("Tanh"),
    "thresholded_relu": simple("ThresholdedRelu", "alpha"),
}
