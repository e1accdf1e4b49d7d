"""Models that ask for absurd amounts of memory or time, or contradict themselves; by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.graph.onnx_models import GraphMaker

HUGE = 2**40
F = TensorProto.FLOAT

Build = Callable[[GraphMaker], object]


def ints(g: GraphMaker, *numbers: int) -> str:
    return g.weight(np.array(numbers, np.int64))


def _model(build: Build, shape: tuple[int, ...] = (1, 3, 8, 8)) -> onnx.ModelProto:
    g = GraphMaker()
    build(g)
    if not any("y" in n.output for n in g.nodes):
        g.node("Relu", g.nodes[-1].output[0], output="y")
    return g.model({"x": shape}, {"y": None})


def _functions(calls: int, deep: int, recursive: bool = False) -> onnx.ModelProto:
    """Functions that each call the next one ``calls`` times; the last the first if recursive."""
    opset = helper.make_opsetid("", 17), helper.make_opsetid("own", 1)
    functions = []
    for i in range(deep):
        nodes = []
        inner = "x"
        for c in range(calls):
            last = i == deep - 1
            op = ("f0" if recursive else "Relu") if last else f"f{i + 1}"
            domain = "own" if op != "Relu" else ""
            out = "y" if c == calls - 1 else f"t{c}"
            nodes.append(helper.make_node(op, [inner], [out], domain=domain))
            inner = out
        functions.append(helper.make_function("own", f"f{i}", ["x"], ["y"], nodes, opset))
    info = [helper.make_tensor_value_info(n, F, [2]) for n in "xy"]
    call = helper.make_node("f0", ["x"], ["y"], domain="own")
    graph = helper.make_graph([call], "g", info[:1], info[1:])
    return helper.make_model(graph, opset_imports=opset, functions=functions)


def nested_if(deep: int) -> onnx.ModelProto:
    """A branch in a branch in a branch."""

    def graph(out: str, node: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph([node], out, [], [helper.make_tensor_value_info(out, F, None)])

    node = helper.make_node("Relu", ["x"], ["b0"])
    for level in range(deep):
        simple = graph(f"e{level}", helper.make_node("Abs", ["x"], [f"e{level}"]))
        node = helper.make_node(
            "If",
            ["c"],
            [f"b{level + 1}"],
            then_branch=graph(f"b{level}", node),
            else_branch=simple,
        )
    g = GraphMaker()
    g.weights.append(numpy_helper.from_array(np.array(True), "c"))
    node.output[0] = "y"
    g.nodes.append(node)
    return g.model({"x": (2,)}, {"y": None})


def _bare(dims: list[int], raw: bytes | None = None, dtype: int = F) -> onnx.ModelProto:
    """A model with an initialiser of these dimensions, and of this data."""
    model = _model(lambda g: g.node("Add", "x", "w"))
    tensor = TensorProto(name="w", dims=dims, data_type=dtype)
    if raw is not None:
        tensor.raw_data = raw
    model.graph.initializer.append(tensor)
    return model


def _sparse(dims: list[int], indices: np.ndarray) -> onnx.ModelProto:
    model = _model(lambda g: g.node("Add", "x", "w"))
    values = numpy_helper.from_array(np.ones(len(indices), np.float32), "w")
    at = numpy_helper.from_array(indices.astype(np.int64), "i")
    model.graph.sparse_initializer.append(
        onnx.SparseTensorProto(dims=dims, values=values, indices=at)
    )
    return model


def _constants(op: str, *arrays: np.ndarray, **attrs: object) -> onnx.ModelProto:
    """An operator of constants; its result is added to the input."""

    def build(g: GraphMaker) -> None:
        g.node("Add", "x", g.node(op, *(g.weight(a) for a in arrays), **attrs))

    return _model(build)


def _of_input(op: str, *arrays: np.ndarray, **attrs: object) -> onnx.ModelProto:
    """An operator of the input and of constants."""
    return _model(lambda g: g.node(op, "x", *(g.weight(a) for a in arrays), **attrs))


def _many(g: GraphMaker) -> None:
    y = "x"
    for _ in range(100):
        filled = g.node("ConstantOfShape", ints(g, 2**12, 2**13))
        y = g.node("Add", y, g.node("ReduceMax", filled, keepdims=0))


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def f32(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


ONE = np.ones((4, 3, 1, 1), np.float32)

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    # too large a result, of constants
    "constant of shape": lambda: _constants("ConstantOfShape", i64(HUGE)),
    "constant of shape in many dimensions": lambda: _constants("ConstantOfShape", i64(*[2] * 64)),
    "constant of negative shape": lambda: _constants("ConstantOfShape", i64(-5)),
    "many constants of shape": lambda: _model(_many),
    "expanded constant": lambda: _constants("Expand", f32(1), i64(HUGE, 1)),
    "tiled constant": lambda: _constants("Tile", f32(1, 2), i64(HUGE)),
    "range": lambda: _constants("Range", *(np.array(n) for n in (0, HUGE, 1))),
    "range without steps": lambda: _constants("Range", *(np.array(n) for n in (0, 5, 0))),
    "range of nan": lambda: _constants("Range", *(np.float32(n) for n in (0, np.nan, 1))),
    "range to infinity": lambda: _constants("Range", *(np.float32(n) for n in (0, np.inf, 1))),
    "one-hot of constants": lambda: _constants("OneHot", i64(1), i64(HUGE), f32(0, 1)),
    "outer product of constants": lambda: _constants(
        "MatMul", np.ones((2**16, 1), np.float32), np.ones((1, 2**16), np.float32)
    ),
    "sum of constants": lambda: _constants(
        "Add", np.ones((2**16, 1), np.float32), np.ones((1, 2**16), np.float32)
    ),
    "gathered constants": lambda: _constants(
        "Gather", np.ones((2, 2**16), np.float32), np.zeros(2**16, np.int64)
    ),
    "padded constant": lambda: _constants("Pad", f32(1, 2), i64(0, HUGE)),
    # too large a result, of the input
    "expanded input": lambda: _of_input("Expand", i64(HUGE, 3, 8, 8)),
    "tiled input": lambda: _of_input("Tile", i64(HUGE, 1, 1, 1)),
    "reshaped input": lambda: _of_input("Reshape", i64(HUGE, -1)),
    "padded input": lambda: _of_input("Pad", i64(0, 0, 0, HUGE, 0, 0, 0, 0)),
    "cropped input": lambda: _of_input("Pad", i64(0, 0, 0, -9, 0, 0, 0, 0)),
    "resized input": lambda: _of_input("Resize", f32(), f32(1, 1, 1e9, 1e9)),
    "resized input by nan": lambda: _of_input("Resize", f32(), f32(1, 1, np.nan, 2)),
    "resized input by nothing": lambda: _of_input("Resize", f32(), f32(1, 1, 0, 2)),
    "top-k": lambda: _model(lambda g: g.node("TopK", "x", ints(g, HUGE), output="y")),
    "slice by nothing": lambda: _of_input("Slice", i64(0), i64(2), i64(3), i64(0)),
    "one-hot of an input": lambda: _model(
        lambda g: g.node("OneHot", "x", ints(g, HUGE), g.weight(f32(0, 1)))
    ),
    "convolution padded": lambda: _of_input("Conv", ONE, pads=[HUGE, 0, 0, 0]),
    "convolution dilated": lambda: _of_input(
        "Conv", np.ones((4, 3, 3, 3), np.float32), dilations=[HUGE, 1]
    ),
    "convolution with strides": lambda: _of_input("Conv", ONE, strides=[0, 1]),
    "convolution with a huge kernel": lambda: _of_input("Conv", ONE, kernel_shape=[HUGE, HUGE]),
    "convolution in groups": lambda: _of_input("Conv", ONE, group=HUGE),
    "transposed convolution": lambda: _of_input(
        "ConvTranspose", np.ones((3, 2, 2, 2), np.float32), strides=[HUGE, HUGE]
    ),
    "transposed convolution padded": lambda: _of_input(
        "ConvTranspose", np.ones((3, 2, 2, 2), np.float32), output_padding=[HUGE, 0]
    ),
    "pooling": lambda: _of_input("MaxPool", kernel_shape=[HUGE, HUGE], pads=[HUGE] * 4),
    "average of nothing": lambda: _of_input("AveragePool", kernel_shape=[0, 1]),
    "response norm": lambda: _of_input("LRN", size=HUGE),
    "space to depth": lambda: _of_input("SpaceToDepth", blocksize=HUGE),
    "depth to space by nothing": lambda: _of_input("DepthToSpace", blocksize=0),
    # long lists and texts
    "transpose of a million": lambda: _of_input("Transpose", perm=list(range(10**6))),
    "squeeze of a million": lambda: _of_input("Squeeze", np.zeros(10**6, np.int64)),
    "unsqueeze of a million": lambda: _of_input("Unsqueeze", np.arange(10**6)),
    "reshape to a million": lambda: _of_input("Reshape", np.ones(10**6, np.int64)),
    "kernel of a million": lambda: _of_input("MaxPool", kernel_shape=[1] * 10**6),
    "mean of a million": lambda: _of_input("ReduceMean", np.zeros(10**6, np.int64)),
    "einsum of many letters": lambda: _of_input(
        "Einsum", ONE, equation="abcd,efgh->abcdefgh" * 500
    ),
    "einsum outer product": lambda: _model(
        lambda g: g.node("Einsum", *"xxxx", equation="abcd,efgh,ijkl,mnop->abcdefghijklmnop")
    ),
    "unknown attribute": lambda: _of_input("Softmax", axis=HUGE),
    "axis of the wrong kind": lambda: _of_input("Softmax", axis="one"),
    "a name that is no text": lambda: onnx.ModelProto.FromString(
        _of_input("Resize", f32(), f32(1, 1, 2, 2), mode="nearest")
        .SerializeToString()
        .replace(b"nearest", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9")
    ),
    # initialisers
    "weight without data": lambda: _bare([HUGE]),
    "weight of negative shape": lambda: _bare([-1], b"\0" * 4),
    "weight whose size overflows": lambda: _bare([2**32, 2**32], b"\0" * 4),
    "weight of a thousand dimensions": lambda: _bare([1] * 1000, b"\0" * 4),
    "weight of half the data": lambda: _bare([4], b"\0" * 8),
    "weight of an unknown type": lambda: _bare([1], b"\0" * 4, dtype=99),
    "weight of text": lambda: _bare([1], b"abcd", dtype=TensorProto.STRING),
    "four-bit weight without data": lambda: _bare([HUGE], b"\0", dtype=TensorProto.INT4),
    "sparse weight": lambda: _sparse([HUGE, HUGE], np.array([1, 2])),
    "sparse weight with bad indices": lambda: _sparse([4], np.array([9])),
    "sparse weight with negative indices": lambda: _sparse([4], np.array([-1])),
    # graphs
    "functions that call each other": lambda: _functions(1, 3, recursive=True),
    "functions that become a billion nodes": lambda: _functions(10, 9),
    "functions a hundred deep": lambda: _functions(1, 100),
    "a name twice": lambda: _model(
        lambda g: (g.node("Relu", "x", output="t"), g.node("Abs", "x", output="t"))
    ),
    "a circle": lambda: _model(
        lambda g: (g.node("Add", "x", "b", output="a"), g.node("Relu", "a", output="b"))
    ),
    "an operator without inputs": lambda: _model(lambda g: g.node("Relu", output="y")),
    "an operator without a name": lambda: _model(lambda g: g.node("", "x", output="y")),
    "a constant without a value": lambda: _model(lambda g: g.node("Add", "x", g.node("Constant"))),
    "a cast to nothing": lambda: _of_input("Cast", to=99),
    "a branch of nothing": lambda: _constants("If", np.array(True)),
    "a loop": lambda: _constants("Loop", np.array(HUGE), np.array(True)),
}
