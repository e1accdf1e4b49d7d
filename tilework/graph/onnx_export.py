"""Write a network as an ONNX file, so that other engines can run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.ir import Network, Node
from tilework.graph.passes.convert_layout import convert_layout
from tilework.graph.shapes import AVG_POOLS, CONVOLUTIONS, MAX_POOLS

if TYPE_CHECKING:
    import onnx

OPSET = 17
IR_VERSION = 8


def to_onnx(net: Network, path: str | PathLike[str]) -> None:
    """Write ``net`` to ``path``; see `Network.to_onnx`.

    ONNX convolutions have channels first, so an NHWC network is written in NCHW with transposes
    at its boundary: its inputs and outputs keep their shapes.
    """
    import onnx

    model = to_model(net)
    try:
        onnx.save(model, path)
    except OSError as e:
        raise NetworkError(f"cannot write the ONNX file '{path}': {e.strerror or e}") from e


def to_model(net: Network) -> onnx.ModelProto:
    """The network as an ONNX model in memory."""
    from onnx import TensorProto, helper

    inner = convert_layout(net, "NCHW")
    writer = _Writer(inner, net.outputs)
    for node in inner.nodes:
        writer.node(node)
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, t.shape) for n, t in net.inputs.items()
    ]
    outputs = [
        helper.make_tensor_value_info(writer.names[new], TensorProto.FLOAT, inner.types[new].shape)
        for new in inner.outputs
    ]
    graph = helper.make_graph(writer.nodes, net.name, inputs, outputs, writer.initializers)
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(
        graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="tilework"
    )


class _Writer:
    """Collects the nodes and initializers of one ONNX graph."""

    def __init__(self, net: Network, outputs: Sequence[str]) -> None:
        self.net = net
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        # the layout conversion may have moved an output's name to an inner value: swap them
        self.names = {v: f"{v}_inner" if v in outputs else v for v in net.types}
        for new, old in zip(net.outputs, outputs, strict=True):
            self.names[new] = new if new in net.inputs else old
        for name, array in net.constants.items():
            self.constant(self.names[name], array)

    def constant(self, name: str, array: np.ndarray) -> str:
        from onnx import numpy_helper

        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def add(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(op, list(inputs), [output], name=output, **attrs))

    def node(self, node: Node) -> None:
        write = _WRITERS.get(node.op)
        if write is None:
            raise NetworkError(f"node '{node.name}': operator '{node.op}' has no ONNX form")
        write(self, node, [self.names[v] for v in node.inputs], self.names[node.name])


_Write = Callable[[_Writer, Node, Sequence[str], str], None]


def _simple(op: str, *attrs: str) -> _Write:
    """An operator that ONNX has under another name; ``attrs`` are passed on as they are."""

    def write(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
        w.add(op, inputs, out, **{a: node.attrs[a] for a in attrs})

    return write


def _conv(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    w.add(
        "Conv",
        inputs,
        out,
        kernel_shape=w.net.types[node.inputs[1]].shape[2:],
        strides=a["strides"],
        pads=a["pads"],
        dilations=a["dilation"],
        group=a.get("groups", 1),
    )


def _max_pool(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    w.add(
        "MaxPool",
        inputs,
        out,
        kernel_shape=a["kernel"],
        strides=a["strides"],
        pads=a["pads"],
        dilations=a["dilation"],
    )


def _avg_pool(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    w.add(
        "AveragePool",
        inputs,
        out,
        kernel_shape=a["kernel"],
        strides=a["strides"],
        pads=a["pads"],
        count_include_pad=int(a["count_include_pad"]),
    )


def _dense(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Gemm", inputs, out, transB=1)


def _matmul(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a, b = (int(node.attrs.get(k, False)) for k in ("transpose_a", "transpose_b"))
    w.add("Gemm", inputs, out, transA=a, transB=b)


def _batch_norm(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    rank = len(w.net.types[node.name].shape)
    if node.attrs["axis"] % rank != 1:
        raise NetworkError(f"node '{node.name}': ONNX normalises along dimension 1 only")
    w.add("BatchNormalization", inputs, out, epsilon=node.attrs["epsilon"])


def _clip(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    ends = [
        w.constant(f"{out}_{end}", np.asarray(node.attrs[end], np.float32))
        for end in ("low", "high")
    ]
    w.add("Clip", [*inputs, *ends], out)


def _reshape(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    shape = w.constant(f"{out}_shape", np.asarray(node.attrs["shape"], np.int64))
    w.add("Reshape", [*inputs, shape], out)


def _pad(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    a = node.attrs
    pads = w.constant(f"{out}_pads", np.asarray([*a["before"], *a["after"]], np.int64))
    value = w.constant(f"{out}_value", np.asarray(a["value"], np.float32))
    w.add("Pad", [*inputs, pads, value], out)


def _rsqrt(w: _Writer, node: Node, inputs: Sequence[str], out: str) -> None:
    w.add("Sqrt", inputs, f"{out}_sqrt")
    w.add("Reciprocal", [f"{out}_sqrt"], out)


_WRITERS: dict[str, _Write] = {
    **dict.fromkeys(CONVOLUTIONS, _conv),
    **dict.fromkeys(MAX_POOLS, _max_pool),
    **dict.fromkeys(AVG_POOLS, _avg_pool),
    "dense": _dense,
    "matmul": _matmul,
    "global_avg_pool": _simple("GlobalAveragePool"),
    "batch_norm": _batch_norm,
    "softmax": _simple("Softmax", "axis"),
    "reshape": _reshape,
    "transpose": _simple("Transpose", "perm"),
    "concat": _simple("Concat", "axis"),
    "pad": _pad,
    "clip": _clip,
    "rsqrt": _rsqrt,
    "add": _simple("Add"),
    "subtract": _simple("Sub"),
    "multiply": _simple("Mul"),
    "divide": _simple("Div"),
    "maximum": _simple("Max"),
    "minimum": _simple("Min"),
    "relu": _simple("Relu"),
    "identity": _simple("Identity"),
    "exp": _simple("Exp"),
    "log": _simple("Log"),
    "sqrt": _simple("Sqrt"),
    "tanh": _simple("Tanh"),
    "sigmoid": _simple("Sigmoid"),
    "abs": _simple("Abs"),
    "erf": _simple("Erf"),
    "floor": _simple("Floor"),
    "ceil": _simple("Ceil"),
}
