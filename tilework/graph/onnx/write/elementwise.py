"""Operators that treat all elements alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.graph.ir import Node
from tilework.graph.onnx.write.writer import Write, Writer, simple


def _clip(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    ends = [
        w.constant(f"{out}_{end}", np.asarray(node.attrs[end], np.float32))
        for end in ("low", "high")
    ]
    w.add("Clip", [*inputs, *ends], out)


def _rsqrt(w: Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Sqrt", inputs, f"{out}_sqrt")
    w.add("Reciprocal", [f"{out}_sqrt"], out)


WRITERS: dict[str, Write] = {
    "clip": _clip,
    "rsqrt": _rsqrt,
    "add": simple("Add"),
    "subtract": simple("Sub"),
    "multiply": simple("Mul"),
    "divide": simple("Div"),
    "maximum": simple("Max"),
    "minimum": simple("Min"),
    "relu": simple("Relu"),
    "identity": simple("Identity"),
    "exp": simple("Exp"),
    "log": simple("Log"),
    "sqrt": simple("Sqrt"),
    "tanh": simple("Tanh"),
    "sigmoid": simple("Sigmoid"),
    "abs": simple("Abs"),
    "erf": simple("Erf"),
    "floor": simple("Floor"),
    "ceil": simple("Ceil"),
}
