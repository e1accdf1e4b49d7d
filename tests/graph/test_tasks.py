"""Task extraction: how many tasks, which ones, how often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tilework import te
from tilework.errors import TargetError
from tilework.graph import Builder, Network, extract_tasks, plan, zoo
from tilework.graph.declare import declare_node
from tilework.graph.ir import Node
from tilework.graph.passes import optimize


def keys(net: Network, simple: bool = False) -> tuple[list[str], list[int]]:
    tasks, weights = extract_tasks(net, "llvm", include_simple_tasks=simple)
    assert [t.weight for t in tasks] == weights
    return [t.workload_key for t in tasks], weights


@pytest.mark.parametrize(
    ("name", "count", "calls"), [("resnet-18", 24, 25), ("resnet-50", 29, 57), ("mlp", 4, 4)]
)
def test_tasks_of_the_zoo(name: str, count: int, calls: int) -> None:
    net = zoo.get(name)
    found, weights = keys(net)
    assert len(found) == len(set(found)) == count
    assert sum(weights) == calls == sum(c.complex for c in plan(net).calls)
    assert keys(zoo.get(name, layout="NCHW")) == (found, weights)


def test_descriptions() -> None:
    tasks, _ = extract_tasks(zoo.get("resnet-18"), "llvm")
    desc = [t.desc for t in tasks]
    assert desc[:3] == [
        "conv2d+add+relu 1x224x224x3 k7 s2 -> 64",
        "max_pool2d+add+relu 1x112x112x64 k3 s2",
        "conv2d+add+relu 1x56x56x64 k3 s1 -> 64",
    ]
    assert "conv2d+add+multiply+add+relu 1x7x7x512 k3 s1 -> 512" in desc
    assert desc[-2:] == ["dense+add 1x512 -> 1000", "softmax 1x1000"]
    assert len(set(desc)) == len(desc)


def test_only_constant_weights_are_layout_free() -> None:
    p = plan(zoo.get("resnet-18"))
    for call in p.calls:
        names = dict(zip((t.name for t in call.dag.inputs), call.inputs, strict=True))
        free = [n for op in call.dag.compute_ops for n in op.attrs.get("layout_free", ())]
        assert all(names[n] in p.constants for n in free)
        assert bool(free) == ("conv2d" in call.name or "dense" in call.name)


def test_weight_that_is_an_input_keeps_its_layout() -> None:
    b = Builder("product")
    y = b.op("dense", b.input("x", (4, 8)), b.input("w", (16, 8)))
    (call,) = plan(b.finish([y])).calls
    assert all("layout_free" not in op.attrs for op in call.dag.compute_ops)


def test_equal_layers_are_one_task() -> None:
    b = Builder("mlp")
    x = b.input("x", (1, 32))
    for _ in range(2):
        w = b.constant(np.ones((32, 32), np.float32))
        bias = b.constant(np.ones((1, 32), np.float32))
        x = b.op("relu", b.op("add", b.op("dense", x, w), bias))
    assert keys(b.finish([x]))[1] == [2]


def conv(b: Builder, x: str, out: int, **attrs: object) -> str:
    w = b.constant(np.full((out, b.shape(x)[1], 3, 3), 0.1, np.float32))
    window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "layout": "NCHW"}
    return b.op("conv2d", x, w, **{**window, **attrs})


def test_two_convolutions_are_two_tasks() -> None:
    b = Builder("two")
    x = b.input("x", (1, 3, 32, 32))
    x = b.op("relu", conv(b, x, 8))
    x = b.op("relu", conv(b, x, 8))
    assert keys(b.finish([x]))[1] == [1, 1]


def test_simple_tasks_on_request() -> None:
    b = Builder("elementwise")
    net = b.finish([b.op("tanh", b.op("relu", b.input("x", (4, 5))))])
    assert keys(net) == ([], [])
    assert keys(net, simple=True)[1] == [1]


def test_order_of_operands_does_not_make_a_task() -> None:
    b = Builder("residuals")
    x = b.input("x", (1, 4, 16, 16))
    x = b.op("add", conv(b, x, 4), x)
    x = b.op("add", x, conv(b, x, 4))
    assert keys(b.finish([x]))[1] == [2]


def test_layout_changes_stay_out_of_heavy_calls() -> None:
    b = Builder("boundary")
    y = b.op("relu", conv(b, b.input("x", (1, 4, 16, 16)), 4))
    names = [c.name for c in plan(b.finish([y])).calls]
    assert names == ["transpose", "conv2d_relu", "transpose"]


def test_bad_target() -> None:
    with pytest.raises(TargetError):
        extract_tasks(zoo.get("mlp"), "abacus")


@pytest.mark.parametrize("name", ["resnet-18", "mobilenet", "inception_v3"])
def test_each_node_is_declared_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = optimize(zoo.get(name))
    declared: list[str] = []

    def counted(node: Node, tensors: Sequence[te.Tensor], free: bool = False) -> te.Tensor:
        declared.append(node.name)
        return declare_node(node, tensors, free)

    monkeypatch.setattr("tilework.graph.declare.declare_node", counted)
    calls = plan(net).calls
    assert len(declared) == len(net.nodes) - sum(n.op == "reshape" for n in net.nodes)
    assert len(calls) < len(declared)
