"""Networks of very many nodes, and nodes of very many inputs: imported, planned and compiled."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.graph.onnx_models import GraphMaker
from tilework.compiler import compile
from tilework.graph import Builder, Network, from_onnx, plan
from tilework.graph.fuse import MAX_TERMS, fuse
from tilework.graph.passes import split_joins
from tilework.ops.activations import ACTIVATIONS

LONG = 2_500  # of more calls than Python nests
WIDE = 2_000
SHAPE = (2, 4)


def chain(step: Callable[[GraphMaker, str], str], nodes: int) -> onnx.ModelProto:
    g, y = GraphMaker(), "x"
    while len(g.nodes) < nodes:
        y = step(g, y)
    return g.model({"x": SHAPE}, {y: None})


CHAINS: dict[str, Callable[[GraphMaker, str], str]] = {
    "one after the other": lambda g, y: g.node("Tanh", y),
    "with the input": lambda g, y: g.node("Sub", g.node("Abs", y), "x"),
    "moving": lambda g, y: g.node("Tanh", g.node("Transpose", y, perm=[1, 0])),
    "reductions": lambda g, y: g.node("Sub", y, g.node("ReduceMax", y, axes=[1])),
}


@pytest.mark.parametrize("name", CHAINS)
def test_long_chains(name: str) -> None:
    net = from_onnx(chain(CHAINS[name], LONG))
    assert len(net.nodes) == LONG
    assert plan(net).calls


def wide(op: str, of: Callable[[GraphMaker, int], str], **attrs: object) -> onnx.ModelProto:
    g = GraphMaker()
    y = g.node(op, *(of(g, i) for i in range(WIDE)), **attrs)
    inputs = {f"x{i}": SHAPE for i in range(WIDE)} if of is OPERANDS["inputs"] else {"x": SHAPE}
    return g.model(inputs, {y: None})


OPERANDS: dict[str, Callable[[GraphMaker, int], str]] = {
    "inputs": lambda g, i: f"x{i}",
    "values": lambda g, i: g.node("Mul", "x", g.weight(np.float32(i))),
    "one value": lambda g, i: "x",
}


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        ("Concat", "inputs"),
        ("Concat", "values"),
        ("Sum", "inputs"),
        ("Max", "inputs"),
        ("Mean", "one value"),
    ],
)
def test_wide_nodes(op: str, operands: str) -> None:
    net = from_onnx(wide(op, OPERANDS[operands], **({"axis": 1} if op == "Concat" else {})))
    assert max(len(c.inputs) for c in plan(net).calls) <= 2 * MAX_TERMS


def test_many_outputs() -> None:
    g, many = GraphMaker(), 1500
    parts = [f"part{i}" for i in range(many)]
    node = onnx.helper.make_node("Split", ["x"], parts, axis=0, num_outputs=many)
    g.nodes.append(node)
    y = g.node("Concat", *reversed(parts), axis=0)
    net = from_onnx(g.model({"x": (many, 2)}, {y: None}, opset=18))
    assert plan(net).calls


def test_each_node_takes_another_input() -> None:
    """What a value is computed from is found out where it is asked for, not kept for each."""
    g, y = GraphMaker(), "x0"
    for i in range(1, 2000):
        y = g.node("Add", y, f"x{i}")
    model = g.model({f"x{i}": SHAPE for i in range(2000)}, {y: None})
    tracemalloc.start()
    try:
        assert len(from_onnx(model).nodes) == 1999
        assert tracemalloc.get_traced_memory()[1] < 30 * 2**20
    finally:
        tracemalloc.stop()


def test_slices_far_behind_a_dense_layer() -> None:
    g = GraphMaker()
    y = g.node("MatMul", "x", g.weight(np.ones((4, 8), np.float32)))
    for _ in range(LONG):
        y = g.node("Tanh", y)
    parts = ["a", "b"]
    g.nodes.append(onnx.helper.make_node("Split", [y], parts, axis=1))
    assert plan(from_onnx(g.model({"x": SHAPE}, dict.fromkeys(parts)))).calls


def repeated(op: str, operands: int, times: int = 100) -> Network:
    """An operator of its own result, in all its operands, many times."""
    dtype = "bool" if op.startswith("logical") else "int32"
    b = Builder("repeated")
    y = b.input("x", SHAPE, dtype)
    for _ in range(times):
        y = b.op(op, *[y] * operands)
    return b.finish([y])


@pytest.mark.parametrize(
    ("op", "operands"),
    [("add", 2), ("multiply", 2), ("floor_mod", 2), ("shift_left", 2), ("abs", 1), ("relu", 1)],
)
def test_expressions_stay_small(op: str, operands: int) -> None:
    """An operator that reads a value twice doubles what is written out in front of it."""
    net = repeated(op, operands)
    assert all(len(group) <= MAX_TERMS for group in fuse(net))
    compile(net, "llvm", None)


@pytest.mark.parametrize("op", ACTIVATIONS)
def test_the_bound_lets_a_convolution_take_what_is_behind_it(op: str) -> None:
    b = Builder("usual")
    x = b.input("x", (1, 8, 8, 16))
    w, bias = (b.constant(np.ones(s, np.float32)) for s in ((3, 3, 16, 16), 16))
    window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "layout": "NHWC"}
    y = b.op("add", b.op("conv2d", x, w, **window), bias)
    y = b.op("relu", b.op("add", b.op("multiply", b.op(op, y), x), x))
    (group,) = fuse(b.finish([y]))
    assert len(group) == 6


def test_concatenations_in_parts() -> None:
    b = Builder("wide")
    x = b.input("x", SHAPE)
    net = b.finish([b.op("concat", *[x] * 4100, axis=1)])
    split = split_joins(net)
    assert {len(n.inputs) for n in split.nodes} == {64, 4, 2}
    assert split.types[split.outputs[0]] == net.types[net.outputs[0]]
    module = compile(net, "llvm", None)
    data = np.arange(8, dtype=np.float32).reshape(SHAPE)
    (out,) = module.run({"x": data})
    np.testing.assert_array_equal(out, np.concatenate([data] * 4100, axis=1))
