"""Write the files in the style of other exporters: ``python tests/data/models/others.py``.

They are made by hand, operator by operator as those exporters write them, since neither TensorFlow
nor MXNet is among the development tools: ``tensorflow_style.onnx`` as tf2onnx writes a Keras
network (NHWC in and out, transposes around NCHW operators, SAME padding as explicit pads at one
side, shape arithmetic in front of reshapes, names with slashes and colons), ``mxnet_style.onnx``
as MXNet 1.9 writes a Gluon network (opset 11; initialisers also listed as inputs, int64 shapes as
initialisers, Flatten before Gemm, BatchNormalization with explicit momentum, Pad before pooling).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parent


class Graph:
    """Collects nodes and weights; weights have a fixed seed."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, out: str, **attrs: object) -> str:
        """Append a node; the name of its output."""
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=out, **attrs))
        return out

    def const(self, name: str, array: object, dtype: type = np.float32) -> str:
        """Add an initialiser."""
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def random(self, name: str, *shape: int, low: float = -0.5, high: float = 0.5) -> str:
        """Add an initialiser of random numbers."""
        return self.const(name, self.rng.uniform(low, high, shape))


def tensorflow_style() -> onnx.ModelProto:
    """Convolutions with SAME padding, depthwise, residual, mean, dense, softmax; NHWC outside."""
    g = Graph()
    x = g.node("Transpose", "input_1:0", out="m/conv1/Conv2D__6:0", perm=[0, 3, 1, 2])
    w = g.random("m/conv1/Conv2D/ReadVariableOp:0", 8, 3, 3, 3)
    b = g.random("m/conv1/BiasAdd:0", 8)
    # SAME with stride 2 on an even extent pads only at the end
    x = g.node(
        "Conv", x, w, b, out="m/conv1/Conv2D:0", strides=[2, 2], pads=[0, 0, 1, 1],
        kernel_shape=[3, 3], dilations=[1, 1], group=1,
    )  # fmt: skip
    x = g.node("Clip", x, g.const("zero", 0.0), g.const("six", 6.0), out="m/relu6/Relu6:0")
    y = g.node(
        "Conv", x, g.random("m/dw/depthwise:0", 8, 1, 3, 3), out="m/dw/depthwise:0_out",
        auto_pad="SAME_UPPER", group=8, strides=[1, 1], dilations=[1, 1], kernel_shape=[3, 3],
    )  # fmt: skip
    stats = [g.random(f"m/bn/{n}:0", 8, low=0.7, high=1.3) for n in ("gamma", "var")]
    stats += [g.random(f"m/bn/{n}:0", 8) for n in ("beta", "mean")]
    gamma, var, beta, mean = stats
    y = g.node("BatchNormalization", y, gamma, beta, mean, var, out="m/bn/Fused:0", epsilon=0.001)
    x = g.node("Add", x, y, out="m/add/add:0")
    x = g.node(
        "MaxPool", x, out="m/pool/MaxPool:0", kernel_shape=[2, 2], strides=[2, 2],
        auto_pad="SAME_UPPER",
    )  # fmt: skip
    x = g.node("Transpose", x, out="m/pool/MaxPool__20:0", perm=[0, 2, 3, 1])
    x = g.node("LeakyRelu", x, out="m/leaky/LeakyRelu:0", alpha=0.3)
    shape = g.node("Shape", x, out="m/flatten/Shape:0")
    batch = g.node(
        "Slice", shape, g.const("c0", [0], np.int64), g.const("c1", [1], np.int64),
        g.const("c0b", [0], np.int64), out="m/flatten/strided_slice:0",
    )  # fmt: skip
    batch = g.node("Cast", batch, out="m/flatten/cast:0", to=TensorProto.INT64)
    rest = g.const("m/flatten/Const:0", [4 * 4 * 8], np.int64)
    shape = g.node("Concat", batch, rest, out="m/flatten/packed:0", axis=0)
    x = g.node("Reshape", x, shape, out="m/flatten/Reshape:0")
    x = g.node("MatMul", x, g.random("m/dense/MatMul:0_w", 128, 10), out="m/dense/MatMul:0")
    x = g.node("Add", x, g.random("m/dense/Bias:0", 10), out="m/dense/BiasAdd:0")
    g.node("Softmax", x, out="Identity:0", axis=1)
    return _model(g, "tf2onnx", "input_1:0", ("unk__1", 16, 16, 3), "Identity:0", 13, 7)


def mxnet_style() -> onnx.ModelProto:
    """A Gluon classifier: convolution, batch norm, activation, padding, pooling, dense layers."""
    g = Graph()
    w, b = g.random("conv0_weight", 8, 3, 3, 3), g.random("conv0_bias", 8)
    x = g.node(
        "Conv", "data", w, b, out="conv0_fwd", kernel_shape=[3, 3], strides=[1, 1],
        pads=[1, 1, 1, 1], dilations=[1, 1], group=1,
    )  # fmt: skip
    gamma = g.random("bn0_gamma", 8, low=0.7, high=1.3)
    beta, mean = g.random("bn0_beta", 8), g.random("bn0_running_mean", 8)
    var = g.random("bn0_running_var", 8, low=0.7, high=1.3)
    x = g.node(
        "BatchNormalization", x, gamma, beta, mean, var, out="bn0_fwd", epsilon=1e-5, momentum=0.9
    )
    x = g.node("PRelu", x, g.const("prelu0_alpha", np.full((8, 1, 1), 0.25)), out="prelu0_fwd")
    pads = g.const("pool0_pads", [0, 0, 0, 0, 0, 0, 1, 1], np.int64)
    low = g.const("pool0_value", -3e38)
    x = g.node("Pad", x, pads, low, out="pool0_pad", mode="constant")
    x = g.node("MaxPool", x, out="pool0_fwd", kernel_shape=[3, 3], strides=[2, 2], pads=[0] * 4)
    y = g.node("GlobalAveragePool", x, out="pool1_fwd")
    x = g.node("Mul", x, g.node("Sigmoid", y, out="gate"), out="scaled")
    x = g.node("Flatten", x, out="flatten0", axis=1)
    w, b = g.random("dense0_weight", 10, 8 * 8 * 8), g.random("dense0_bias", 10)
    x = g.node("Gemm", x, w, b, out="dense0_fwd", alpha=1.0, beta=1.0, transA=0, transB=1)
    x = g.node("Dropout", x, out="dropout0_fwd", ratio=0.5)
    x = g.node("Reshape", x, g.const("shape", [0, 2, -1], np.int64), out="reshape0")
    g.node("LogSoftmax", x, out="output", axis=-1)
    model = _model(g, "mxnet", "data", (1, 3, 16, 16), "output", 11, 6)
    for t in g.weights:
        model.graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    return model


def _model(
    g: Graph, name: str, x: str, shape: tuple[int | str, ...], y: str, opset: int, ir: int
) -> onnx.ModelProto:
    graph = helper.make_graph(
        g.nodes,
        name,
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
        g.weights,
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def main() -> None:
    """Write both files."""
    for name, make in (("tensorflow_style", tensorflow_style), ("mxnet_style", mxnet_style)):
        (FOLDER / f"{name}.onnx").write_bytes(make().SerializeToString())


if __name__ == "__main__":
    main()
