"""Single layers as ONNX models, NHWC or NCHW at their boundary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NHWC, NCHW = "NHWC", "NCHW"


@dataclass(frozen=True)
class Layer:
    """One layer to compare engines on.

    Attributes:
        name: unique, short.
        flops: operations: two per multiplication with an addition, padded taps included.
        model: makes the ONNX model with inputs and outputs in a layout.
        layouts: those that make a difference.
    """

    name: str
    flops: float
    model: Callable[[str], onnx.ModelProto]
    layouts: tuple[str, ...] = (NHWC, NCHW)


def layers() -> list[Layer]:
    """All layers, in the order of the tables."""
    return [
        _conv("conv3x3 56x56 64", 56, 64, 64, 3),
        _conv("conv3x3 28x28 128", 28, 128, 128, 3),
        _conv("conv3x3 14x14 256", 14, 256, 256, 3),
        _conv("conv3x3 7x7 512", 7, 512, 512, 3),
        _conv("conv1x1 56x56 64-256", 56, 64, 256, 1),
        _conv("conv1x1 56x56 256-64", 56, 256, 64, 1),
        _conv("conv1x1 7x7 512-2048", 7, 512, 2048, 1),
        _conv("conv1x1 s2 56x56 256-512", 56, 256, 512, 1, stride=2),
        _conv("conv7x7 s2 224x224 3-64", 224, 3, 64, 7, stride=2),
        _conv("depthwise3x3 56x56 128", 56, 128, 128, 3, groups=128),
        _conv("depthwise3x3 s2 112x112 64", 112, 64, 64, 3, stride=2, groups=64),
        _dense("dense 2048-1000", 2048, 1000),
        _product("product 128x768x768", (128, 768), (768, 768)),
        _product("product 128x768x3072", (128, 768), (768, 3072)),
        _product("product 128x3072x768", (128, 3072), (3072, 768)),
        _product("batch product 12x128x64x128", (12, 128, 64), (12, 64, 128), constant=False),
        _product("batch product 12x128x128x64", (12, 128, 128), (12, 128, 64), constant=False),
        _heads("heads' product 12x128x64x128", 12, 128, 64),
        _softmax("softmax 1000", 1000),
        _max_pool("maxpool3x3 s2 112x112 64", 112, 64, 3, 2),
        _scatter("scatter 20000 rows of 64 to 5000", 5000, 20000, 64),
        _best("best 300 of 8400", 8400, 300),
        _best("best 50 of 128256", 128256, 50),
        _sums("prefix sums 8x8192", 8, 8192),
    ]


def _conv(
    name: str, size: int, cin: int, cout: int, k: int, stride: int = 1, groups: int = 1
) -> Layer:
    """A convolution with SAME padding, bias and ReLU."""
    pad = k // 2
    out = (size + 2 * pad - k) // stride + 1

    def model(layout: str) -> onnx.ModelProto:
        rng = np.random.default_rng(0)
        fan = cin // groups * k * k
        weight = rng.standard_normal((cout, cin // groups, k, k)) * math.sqrt(2 / fan)
        g = _Graph(layout, (1, cin, size, size), (1, cout, out, out))
        g.add(
            "Conv",
            [g.weight(weight), g.weight(rng.normal(0, 0.1, cout))],
            kernel_shape=[k, k],
            pads=[pad] * 4,
            strides=[stride, stride],
            group=groups,
        )
        g.add("Relu")
        return g.finish(name)

    return Layer(name, 2.0 * out * out * cout * (cin // groups) * k * k, model)


def _max_pool(name: str, size: int, channels: int, k: int, stride: int) -> Layer:
    out = (size + 2 * (k // 2) - k) // stride + 1

    def model(layout: str) -> onnx.ModelProto:
        g = _Graph(layout, (1, channels, size, size), (1, channels, out, out))
        pool: dict[str, Any] = {"kernel_shape": [k, k], "strides": [stride] * 2}
        g.add("MaxPool", [], pads=[k // 2] * 4, **pool)
        return g.finish(name)

    return Layer(name, float(k * k * out * out * channels), model)


def _dense(name: str, fan_in: int, fan_out: int) -> Layer:
    """A dense layer with bias and ReLU on a single row."""

    def model(layout: str) -> onnx.ModelProto:
        rng = np.random.default_rng(0)
        weight = rng.standard_normal((fan_out, fan_in)) * math.sqrt(2 / fan_in)
        g = _Graph(layout, (1, fan_in), (1, fan_out))
        g.add("Gemm", [g.weight(weight), g.weight(rng.normal(0, 0.1, fan_out))], transB=1)
        g.add("Relu")
        return g.finish(name)

    return Layer(name, 2.0 * fan_in * fan_out, model, (NHWC,))


def _product(name: str, a: tuple[int, ...], b: tuple[int, ...], constant: bool = True) -> Layer:
    """A matrix product, or one for each of a batch, of an activation and weights, or another."""
    out = (*a[:-1], b[-1])

    def model(layout: str) -> onnx.ModelProto:
        rng = np.random.default_rng(0)
        g = _Graph(NHWC, a, out)
        if constant:
            g.add("MatMul", [g.weight(rng.standard_normal(b) / math.sqrt(b[-2]))])
        else:
            g.inputs["w"] = b
            g.add("MatMul", ["w"])
        return g.finish(name)

    return Layer(name, 2.0 * math.prod(out) * a[-1], model, (NHWC,))


def _heads(name: str, heads: int, sequence: int, size: int) -> Layer:
    """Attention scores of queries and keys that lie as dense layers write them."""
    shape = (1, sequence, heads, size)

    def model(layout: str) -> onnx.ModelProto:
        g = _Graph(NCHW, shape, (1, heads, sequence, sequence))
        g.inputs["w"] = shape
        g.add("Transpose", [], perm=[0, 2, 1, 3])
        g.nodes.append(helper.make_node("Transpose", ["w"], ["keys"], perm=[0, 2, 3, 1]))
        g.add("MatMul", ["keys"])
        return g.finish(name)

    return Layer(name, 2.0 * heads * sequence * sequence * size, model, (NHWC,))


def _softmax(name: str, size: int) -> Layer:
    def model(layout: str) -> onnx.ModelProto:
        g = _Graph(layout, (1, size), (1, size))
        g.add("Softmax", [], axis=-1)
        return g.finish(name)

    return Layer(name, 4.0 * size, model, (NHWC,))


def _scatter(name: str, rows: int, terms: int, width: int) -> Layer:
    def model(layout: str) -> onnx.ModelProto:
        rng = np.random.default_rng(0)
        g = _Graph(layout, (rows, width), (rows, width))
        at = g.integers(rng.integers(0, rows, (terms, 1)))
        more = g.weight(rng.standard_normal((terms, width)))
        g.add("ScatterND", [at, more], reduction="add")
        return g.finish(name)

    return Layer(name, float(terms * width), model, (NHWC,))


def _best(name: str, size: int, k: int) -> Layer:
    def model(layout: str) -> onnx.ModelProto:
        g = _Graph(layout, (1, size), (1, k))
        g.add("TopK", [g.integers([k])], axis=-1)
        g.nodes[-1].output.append("places")
        return g.finish(name)

    return Layer(name, float(size), model, (NHWC,))


def _sums(name: str, rows: int, size: int) -> Layer:
    def model(layout: str) -> onnx.ModelProto:
        g = _Graph(layout, (rows, size), (rows, size))
        g.add("CumSum", [g.integers(1)])
        return g.finish(name)

    return Layer(name, float(rows * size), model, (NHWC,))


def mlp(sizes: tuple[int, ...] = (150528, 128, 64, 1000)) -> onnx.ModelProto:
    """Dense layers with ReLU between them: the default's weights, 77 MB, fill no cache."""
    rng = np.random.default_rng(0)
    g = _Graph(NHWC, (1, sizes[0]), (1, sizes[-1]))
    for fan_in, fan_out in pairwise(sizes):
        weight = rng.standard_normal((fan_out, fan_in), np.float32) * math.sqrt(2 / fan_in)
        if len(g.nodes):
            g.add("Relu")
        g.add("Gemm", [g.weight(weight), g.weight(rng.normal(0, 0.1, fan_out))], transB=1)
    return g.finish("mlp-" + "-".join(map(str, sizes)))


class _Graph:
    """A chain of nodes from ``x`` to ``y``, in NCHW inside, transposed at both ends if wanted."""

    def __init__(self, layout: str, shape: tuple[int, ...], out: tuple[int, ...]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: dict[str, tuple[int, ...]] = {}  # further ones
        self._at = "x"
        self._turned = layout == NHWC and len(shape) == 4
        self._shapes = [_turn(s) if self._turned else s for s in (shape, out)]
        if self._turned:
            self.add("Transpose", [], perm=[0, 3, 1, 2])

    def weight(self, array: np.ndarray) -> str:
        """Add a float32 constant; its name."""
        name = f"w{len(self.weights)}"
        whole = np.ascontiguousarray(array, np.float32)
        self.weights.append(numpy_helper.from_array(whole, name))
        return name

    def integers(self, numbers: Any) -> str:
        """Add an int64 constant; its name."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(numbers, np.int64), name))
        return name

    def add(self, op: str, inputs: list[str] | None = None, **attrs: Any) -> None:
        """Append a node that reads the last one's output, and ``inputs``."""
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self._at, *(inputs or [])], [out], **attrs))
        self._at = out

    def finish(self, name: str) -> onnx.ModelProto:
        """The model."""
        if self._turned:
            self.add("Transpose", [], perm=[0, 2, 3, 1])
        self.nodes[-1].output[0] = "y"
        ends = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in zip("xy", self._shapes, strict=True)
        ]
        ends[1:1] = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in self.inputs.items()
        ]
        graph = helper.make_graph(self.nodes, name, ends[:-1], ends[-1:], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model


def _turn(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], *shape[2:], shape[1])
