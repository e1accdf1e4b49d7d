"""ONNX models built by hand, for tests: torchvision-style ResNets and multi-layer perceptrons.

The ResNets are post-activation, NCHW, with the operators and the graph that a PyTorch export of
torchvision's models has (batch norm not folded, bottlenecks striding in their 3 x 3 convolution).
Weights are random, with batch-norm statistics that keep activations of order one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class GraphMaker:
    """Collects nodes and weights of an ONNX graph; methods return value names."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(self, op: str, *inputs: str, output: str = "", **attrs: object) -> str:
        output = output or f"v{len(self.nodes)}"
        name = f"/{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=name, **attrs))
        return output

    def conv(
        self, x: str, cin: int, cout: int, k: int, stride: int = 1, bias: bool = False
    ) -> str:
        w = self.rng.standard_normal((cout, cin, k, k), dtype=np.float32)
        w *= np.float32(math.sqrt(2 / (cin * k * k)))
        inputs = [x, self.weight(w)]
        if bias:
            inputs.append(self.weight(self.rng.normal(0, 0.1, cout).astype(np.float32)))
        return self.node(
            "Conv",
            *inputs,
            dilations=[1, 1],
            group=1,
            kernel_shape=[k, k],
            pads=[k // 2] * 4,
            strides=[stride, stride],
        )

    def batch_norm(self, x: str, channels: int, gain: float = 1.0) -> str:
        stats = (
            gain * self.rng.uniform(0.7, 1.3, channels),
            self.rng.normal(0, 0.1, channels),
            self.rng.normal(0, 0.1, channels),
            self.rng.uniform(0.7, 1.4, channels),
        )
        weights = [self.weight(s.astype(np.float32)) for s in stats]
        return self.node("BatchNormalization", x, *weights, epsilon=1e-5, momentum=0.9)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def gemm(self, x: str, fan_in: int, fan_out: int, output: str = "") -> str:
        w = self.rng.standard_normal((fan_out, fan_in), dtype=np.float32)
        w *= np.float32(math.sqrt(2 / fan_in))
        b = self.rng.normal(0, 0.1, fan_out).astype(np.float32)
        inputs = (x, self.weight(w), self.weight(b))
        return self.node("Gemm", *inputs, output=output, alpha=1.0, beta=1.0, transB=1)

    def model(
        self,
        inputs: Mapping[str, tuple[int | str, ...]],
        outputs: Mapping[str, tuple[int | str, ...] | None],
        opset: int = 17,
    ) -> onnx.ModelProto:
        """The model; an output shape of None is left to whoever reads it."""
        infos = [
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in values.items()]
            for values in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "main_graph", *infos, self.weights)
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        if None not in outputs.values():
            onnx.checker.check_model(model)
        return model


def resnet(
    depth: int = 18,
    image: int = 224,
    classes: int = 1000,
    batch: int | str = 1,
    opset: int = 17,
    seed: int = 0,
    width: int = 64,
) -> onnx.ModelProto:
    """torchvision-style ResNet-18, -34 or -50; ``width`` scales all channels (64 is the real one).

    The input is ``input`` [batch, 3, image, image], the output ``output`` [batch, classes].
    """
    units = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
    expansion = 4 if depth == 50 else 1
    g = GraphMaker(seed)
    x = g.relu(g.batch_norm(g.conv("input", 3, width, 7, 2), width))
    pool: dict[str, object] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    if opset >= 10:
        pool["ceil_mode"] = 0
    x = g.node("MaxPool", x, **pool)
    cin = width
    for stage, count in enumerate(units):
        inner = width * 2**stage
        cout = inner * expansion
        for unit in range(count):
            stride = 2 if stage and not unit else 1
            x = _unit(g, x, cin, inner, cout, stride)
            cin = cout
    x = g.node("Flatten", g.node("GlobalAveragePool", x), axis=1)
    g.gemm(x, cin, classes, output="output")
    shapes = {"input": (batch, 3, image, image)}, {"output": (batch, classes)}
    return g.model(*shapes, opset=opset)


def _unit(g: GraphMaker, x: str, cin: int, inner: int, cout: int, stride: int) -> str:
    if inner == cout:
        y = g.relu(g.batch_norm(g.conv(x, cin, inner, 3, stride), inner))
        y = g.batch_norm(g.conv(y, inner, cout, 3), cout, gain=0.5)
    else:
        y = g.relu(g.batch_norm(g.conv(x, cin, inner, 1), inner))
        y = g.relu(g.batch_norm(g.conv(y, inner, inner, 3, stride), inner))
        y = g.batch_norm(g.conv(y, inner, cout, 1), cout, gain=0.5)
    if cin != cout or stride != 1:
        x = g.batch_norm(g.conv(x, cin, cout, 1, stride), cout, gain=0.8)
    return g.relu(g.node("Add", y, x))


def mlp(
    sizes: tuple[int, ...] = (784, 128, 64, 10),
    batch: int | str = 1,
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """Dense layers with ReLU between them; ``input`` [batch, sizes[0]] -> ``output``."""
    g = GraphMaker(seed)
    x = "input"
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        last = i == len(sizes) - 2
        x = g.gemm(x, fan_in, fan_out, output="output" if last else "")
        x = x if last else g.relu(x)
    return g.model({"input": (batch, sizes[0])}, {"output": (batch, sizes[-1])}, opset=opset)


def save(model: onnx.ModelProto, path: Path) -> Path:
    """Write ``model`` and return its path."""
    onnx.save(model, path)
    return path
