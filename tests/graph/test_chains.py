"""Depthwise and pointwise convolutions share a group; other convolutions do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.run_plan import run_plan
from tilework.graph import Builder, Network, extract_tasks, plan
from tilework.space import SearchSpace


class Nets:
    """Small networks of convolutions in NHWC."""

    def __init__(self, channels: int = 8, size: int = 48) -> None:
        self.rng = np.random.default_rng(0)
        self.b = Builder("net")
        self.x = self.b.input("x", (1, size, size, channels))

    def conv(self, x: str, co: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        shape = (kernel, kernel, 1 if groups > 1 else self.b.types[x].shape[-1], co)
        weight = self.b.constant(self.rng.uniform(-1, 1, shape).astype("float32"))
        pad = kernel // 2
        attrs = {"strides": (stride, stride), "pads": (pad,) * 4, "dilation": (1, 1)}
        more = {"groups": groups} if groups > 1 else {}
        return self.b.op("conv2d", x, weight, layout="NHWC", **attrs, **more)

    def depthwise(self, x: str, stride: int = 1) -> str:
        c = self.b.types[x].shape[-1]
        return self.conv(x, c, 3, stride, c)

    def relu(self, x: str) -> str:
        return self.b.op("relu", x)

    def finish(self, *outputs: str) -> Network:
        return self.b.finish(list(outputs))


def names(net: Network) -> list[str]:
    return [c.name for c in plan(net).calls]


def test_depthwise_takes_the_pointwise_behind_it():
    n = Nets()
    x = n.relu(n.conv(n.x, 128, 3))
    x = n.relu(n.depthwise(x))
    net = n.finish(n.conv(x, 24))
    assert names(net) == ["conv2d_relu", "conv2d_relu_conv2d"]
    data = n.rng.uniform(-1, 1, (1, 48, 48, 8)).astype("float32")
    (got,) = run_plan(net, data)
    assert got.shape == (1, 48, 48, 24)


def test_pointwise_takes_the_depthwise_behind_it():
    n = Nets()
    net = n.finish(n.relu(n.depthwise(n.relu(n.conv(n.x, 128)))))
    assert names(net) == ["conv2d_relu_conv2d_relu"]
    (task,), _ = extract_tasks(net, "llvm -num-cores=1")
    found = SearchSpace.of(task).sketches
    assert any(b.attached_reductions for s in found for b in s.blocks)
    assert any(not b.attached_reductions for s in found for b in s.blocks)


@pytest.mark.parametrize(
    "kind", ["two readers", "output", "3x3", "strided", "strided depthwise", "small"]
)
def test_what_stays_apart(kind):
    n = Nets(128, {"small": 24, "strided depthwise": 96}.get(kind, 48))
    x = n.relu(n.depthwise(n.x, 2 if kind == "strided depthwise" else 1))
    y = n.conv(x, 24, 3 if kind == "3x3" else 1, 2 if kind == "strided" else 1)
    outputs = [y]
    if kind == "two readers":
        outputs.append(n.conv(x, 8))
    if kind == "output":
        outputs.append(x)
    assert names(n.finish(*outputs))[0] == "conv2d_relu"


def test_dense_convolutions_in_a_row_stay_apart():
    n = Nets()
    assert names(n.finish(n.conv(n.relu(n.conv(n.x, 8)), 8))) == ["conv2d_relu", "conv2d"]
