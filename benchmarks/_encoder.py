"""Transformer encoders as exporters write them: norms, gelu, attention in small operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def encoder(layers: int, width: int, heads: int, sequence: int, batch: int = 1) -> onnx.ModelProto:
    """BERT's layers with random weights; inputs: hidden states ``x`` and an additive ``mask``.

    Args:
        layers: attention and two dense layers each, the inner one four times as wide.
        width: elements of a hidden state; 768 in BERT-base.
        heads: they share the width; 12 in BERT-base.
        sequence: number of hidden states.
        batch: number of sequences.
    """
    g = _Graph()
    x = "x"
    for _ in range(layers):
        query, key, value = (
            g.node("Reshape", g.linear(x, width, width), g.ints(batch, sequence, heads, -1))
            for _ in range(3)
        )
        query = g.node("Transpose", query, perm=[0, 2, 1, 3])
        key = g.node("Transpose", key, perm=[0, 2, 3, 1])
        value = g.node("Transpose", value, perm=[0, 2, 1, 3])
        scores = g.node("Div", g.node("MatMul", query, key), g.number(math.sqrt(width // heads)))
        shares = g.node("Softmax", g.node("Add", scores, "mask"), axis=-1)
        mixed = g.node("Transpose", g.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        mixed = g.node("Reshape", mixed, g.ints(batch, sequence, width))
        x = g.layer_norm(g.node("Add", g.linear(mixed, width, width), x), width)
        inner = g.gelu(g.linear(x, width, 4 * width))
        x = g.layer_norm(g.node("Add", g.linear(inner, 4 * width, width), x), width)
    g.nodes[-1].output[0] = "y"
    shapes = {"x": (batch, sequence, width), "mask": (batch, 1, 1, sequence)}
    ends = {
        n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in {**shapes, "y": shapes["x"]}.items()
    }
    graph = helper.make_graph(
        g.nodes, f"encoder-{layers}-{width}", [ends["x"], ends["mask"]], [ends["y"]], g.weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


class _Graph:
    """Collects nodes and weights; methods return value names."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.asarray(value, np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.asarray(values, np.int64))

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=f"/{op}_{out}", **attrs))
        return out

    def linear(self, x: str, fan_in: int, fan_out: int) -> str:
        weight = self.rng.standard_normal((fan_in, fan_out), np.float32) / math.sqrt(fan_in)
        bias = self.rng.normal(0, 0.1, fan_out).astype(np.float32)
        product = self.node("MatMul", x, self.constant(weight.astype(np.float32)))
        return self.node("Add", self.constant(bias), product)

    def layer_norm(self, x: str, width: int) -> str:
        gain = self.rng.uniform(0.8, 1.2, width).astype(np.float32)
        shift = self.rng.normal(0, 0.1, width).astype(np.float32)
        d = self.node("Sub", x, self.node("ReduceMean", x, axes=[-1]))
        variance = self.node("ReduceMean", self.node("Pow", d, self.number(2)), axes=[-1])
        deviation = self.node("Sqrt", self.node("Add", variance, self.number(1e-5)))
        scaled = self.node("Mul", self.node("Div", d, deviation), self.constant(gain))
        return self.node("Add", scaled, self.constant(shift))

    def gelu(self, x: str) -> str:
        curve = self.node("Erf", self.node("Div", x, self.number(math.sqrt(2))))
        return self.node(
            "Mul", self.node("Mul", x, self.node("Add", curve, self.number(1))), self.number(0.5)
        )
