"""Each pass keeps the meaning, and does what its docstring shows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from tests.graph.run_plan import relative_error, run_plan
from tilework.errors import NetworkError
from tilework.graph import Builder, Network, plan, zoo
from tilework.graph.fuse import execution_order, fuse
from tilework.graph.ir import Node
from tilework.graph.passes import (
    convert_layout,
    fold_constants,
    fold_pads,
    fold_scale_back,
    fold_scale_forward,
    merge_constants,
    merge_views,
    optimize,
    simplify_inference,
)
from tilework.graph.passes._scales import scale_weight

RNG = np.random.default_rng(0)


class Maker(Builder):
    """A builder with random constants and NHWC convolutions."""

    def c(self, *shape: int, low: float = 0.5) -> str:
        return self.constant(RNG.uniform(low, 2, shape).astype(np.float32))

    def conv(self, x: str, out: int, k: int = 3, layout: str = "NHWC") -> str:
        nhwc = layout == "NHWC"
        ci = self.shape(x)[3 if nhwc else 1]
        w = RNG.standard_normal((k, k, ci, out) if nhwc else (out, ci, k, k)).astype(np.float32)
        window = {"strides": (1, 1), "pads": (k // 2,) * 4, "dilation": (1, 1)}
        return self.op("conv2d", x, self.constant(w), layout=layout, **window)


def ops(net: Network) -> Counter[str]:
    return Counter(n.op for n in net.nodes)


def same_meaning(before: Network, after: Network) -> None:
    inputs = [RNG.standard_normal(t.shape).astype(np.float32) for t in before.inputs.values()]
    for a, b in zip(run_plan(after, *inputs), run_plan(before, *inputs), strict=True):
        assert relative_error(a, b) < 1e-5


def test_simplify_inference() -> None:
    m = Maker("net")
    x = m.input("x", (2, 4, 5, 3))
    stats = [m.c(3) for _ in range(4)]
    y = m.op("batch_norm", m.op("identity", x), *stats, axis=3, epsilon=1e-3)
    y = m.op("add", m.c(3), m.op("subtract", y, m.c(1)))
    y = m.op("divide", m.op("clip", y, low=0.0, high=np.inf), m.c())
    net = m.finish([y])
    new = simplify_inference(net)
    assert ops(new) == {"multiply": 2, "add": 3, "relu": 1}
    assert all(new.types[n.inputs[1]].shape[:3] == (1, 1, 1) for n in new.nodes if n.op != "relu")
    x0 = RNG.standard_normal((2, 4, 5, 3)).astype(np.float32)
    g, b, mean, var = (net.constants[s] for s in stats)
    rest = [net.constants[n] for n in list(net.constants)[4:]]
    want = (x0 - mean) / np.sqrt(var + 1e-3) * g + b
    by_name = {n: net.constants[n] for n in net.constants}
    sub, added, div = (
        by_name[next(v for v in node.inputs if v in by_name)]
        for node in net.nodes
        if node.op in ("subtract", "add", "divide")
    )
    assert len(rest) == 3
    want = np.maximum(want - sub + added, 0) / div
    assert relative_error(run_plan(net, x0)[0], want) < 1e-5


def test_batch_norm_of_unit_scale_is_an_addition() -> None:
    m = Maker("net")
    one, zero = (m.constant(np.full(3, v, np.float32)) for v in (1, 0))
    y = m.op("batch_norm", m.input("x", (2, 3)), one, m.c(3), zero, one, axis=1, epsilon=0.0)
    assert ops(simplify_inference(m.finish([y]))) == {"add": 1}


def test_negative_variance() -> None:
    m = Maker("net")
    stats = [m.c(3), m.c(3), m.c(3), m.constant(-np.ones(3, np.float32))]
    y = m.op("batch_norm", m.input("x", (2, 3)), *stats, axis=1, epsilon=1e-5)
    with pytest.raises(NetworkError, match="variance"):
        plan(m.finish([y]))


def test_fold_constants() -> None:
    m = Maker("net")
    c = m.op("transpose", m.op("exp", m.op("add", m.c(2, 3), m.c(3))), perm=(1, 0))
    net = m.finish([m.op("add", m.input("x", (3, 2)), m.op("reshape", c, shape=(3, 2)))])
    new = fold_constants(net)
    assert ops(new) == {"add": 1} and len(new.constants) == 1
    same_meaning(net, new)


def test_fold_pads() -> None:
    m = Maker("net")
    x = m.input("x", (1, 5, 6, 2))
    y = m.op("pad", x, before=(0, 1, 2, 0), after=(0, 0, 3, 0), value=0.0)
    z = m.op("pad", x, before=(0, 1, 2, 0), after=(0, 0, 3, 0), value=1.0)
    net = m.finish([m.conv(y, 3), m.conv(z, 3)])
    new = fold_pads(net)
    assert ops(new) == {"conv2d": 2, "pad": 1}
    pads = [n.attrs["pads"] for n in new.nodes if n.op == "conv2d"]
    assert pads == [(2, 3, 1, 4), (1, 1, 1, 1)]
    same_meaning(net, new)


def test_merge_views() -> None:
    m = Maker("net")
    x = m.input("x", (2, 3, 4, 1))
    y = m.op("transpose", m.op("transpose", x, perm=(0, 3, 1, 2)), perm=(0, 2, 3, 1))
    z = m.op("reshape", m.op("transpose", x, perm=(0, 3, 1, 2)), shape=(2, 12))
    t = m.op("transpose", m.op("transpose", x, perm=(2, 1, 0, 3)), perm=(1, 0, 2, 3))
    r = m.op("reshape", m.op("reshape", x, shape=(24,)), shape=(2, 3, 4, 1))
    net = m.finish([y, z, t, r])
    new = merge_views(net)
    assert ops(new) == {"reshape": 1, "transpose": 1}
    same_meaning(net, new)


def test_tokens_around_a_convolution_are_a_view_of_its_image() -> None:
    """Rows of tokens become an image for one convolution, and rows again: nothing is moved."""
    m = Maker("net")
    x = m.op("transpose", m.input("x", (1, 20, 6)), perm=(0, 2, 1))
    image = m.conv(m.op("reshape", x, shape=(1, 6, 4, 5)), 8, layout="NCHW")
    rows = m.op("transpose", m.op("reshape", image, shape=(1, 8, 20)), perm=(0, 2, 1))
    net = m.finish([m.op("dense", m.op("reshape", m.op("gelu", rows), shape=(20, 8)), m.c(3, 8))])
    new = optimize(net)
    assert "transpose" not in ops(new)
    same_meaning(net, new)


@pytest.mark.parametrize("merged", [(2, 12, 5), (2, 3, 20), (6, 4, 5), (24, 5), (6, 20)])
def test_views_meet_where_their_dimensions_stand_together(merged: tuple[int, ...]) -> None:
    backs = list(itertools.permutations(range(len(merged))))
    met = 0
    for i, perm in enumerate(itertools.permutations(range(4))):
        m = Maker("net")
        y = m.op("transpose", m.input("x", (2, 3, 4, 5)), perm=perm)
        y = m.op("reshape", y, shape=merged)
        net = m.finish([m.op("transpose", y, perm=backs[i % len(backs)])])
        new = merge_views(net)
        met += "transpose" not in ops(new)
        same_meaning(net, new)
    assert met


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convert_layout(layout: str) -> None:
    other = "NCHW" if layout == "NHWC" else "NHWC"
    m = Maker("net")
    x = m.input("x", (2, 3, 4, 5))
    y = m.op("relu", m.op("multiply", x, m.c(1, 3, 4, 5)))
    y = m.op("add", m.conv(y, 6, layout=other), m.c())
    y = m.op("concat", y, m.op("tanh", y), axis=-1)
    y = m.op("softmax", y, axis=1)
    y = m.op("pad", y, before=(0, 1, 0, 2), after=(1, 0, 0, 0), value=2.0)
    z = m.op("global_avg_pool", y, layout=other)
    flat = m.op("reshape", y, shape=(3, int(np.prod(m.shape(y)[1:]))))
    net = m.finish([flat, m.op("transpose", z, perm=(1, 0, 2, 3))])
    new = convert_layout(net, layout)
    assert all(n.attrs.get("layout", layout) == layout for n in new.nodes)
    inputs = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    for a, b in zip(run_plan(new, inputs), run_plan(net, inputs), strict=True):
        assert relative_error(a, b) < 1e-5


def test_a_converted_weight_is_no_copy() -> None:
    m = Maker("net")
    net = m.finish([m.conv(m.input("x", (1, 3, 4, 5)), 6, layout="NCHW")])
    (before,), (after,) = net.constants.values(), convert_layout(net).constants.values()
    assert after.shape != before.shape and np.shares_memory(before, after)


def test_zoo_has_transposes_at_the_boundary_alone() -> None:
    net = convert_layout(zoo.get("resnet-18", layout="NCHW", image_shape=(3, 64, 64)))
    perms = [n.inputs[0] for n in net.nodes if n.op == "transpose"]
    assert perms[0] == "data" and len(perms) == 2  # the other moves extents of one


def test_fold_scale_back() -> None:
    m = Maker("net")
    x = m.input("x", (1, 5, 5, 3))
    y = m.op("multiply", m.op("add", m.conv(x, 4), m.c(1, 1, 1, 4)), m.c(1, 1, 1, 4))
    y = m.op("multiply", m.op("add", y, m.c(1, 1, 1, 1)), m.c(1, 1, 1, 1))
    flat = m.op("dense", m.op("reshape", y, shape=(1, 100)), m.c(6, 100))
    net = m.finish([m.op("multiply", flat, m.c(1, 6))])
    new = fold_scale_back(net)
    assert ops(new)["multiply"] == 0
    same_meaning(net, new)


def shared(m: Maker, x: str) -> list[str]:
    y = m.conv(x, 3)
    return [m.op("multiply", y, m.c(1, 1, 1, 3)), m.op("relu", y)]


def not_per_channel(m: Maker, x: str) -> list[str]:
    return [m.op("multiply", m.conv(x, 3), m.c(1, 5, 1, 1))]


def widening(m: Maker, x: str) -> list[str]:
    return [m.op("multiply", m.conv(x, 1), m.c(1, 1, 1, 7))]


def residual(m: Maker, x: str) -> list[str]:
    return [m.op("multiply", m.op("add", m.conv(x, 3), x), m.c(1, 1, 1, 3))]


@pytest.mark.parametrize("make", [shared, not_per_channel, widening, residual])
def test_scale_stays(make: Callable[[Maker, str], list[str]]) -> None:
    m = Maker("net")
    net = m.finish(make(m, m.input("x", (1, 5, 5, 3))))
    assert ops(fold_scale_back(net))["multiply"] == 1


@pytest.mark.parametrize(
    ("low", "relu", "folded"), [(0.1, True, True), (-2.0, True, False), (-2.0, False, True)]
)
def test_fold_scale_forward(low: float, relu: bool, folded: bool) -> None:
    m = Maker("net")
    x = m.input("x", (1, 5, 5, 3))
    scale = m.constant(np.array([[[[1.5, low, 0.7]]]], np.float32))
    y = m.op("add", m.op("multiply", x, scale), m.c(1, 1, 1, 3, low=-1))
    y = m.op("relu", y) if relu else y
    net = m.finish([m.conv(y, 4), m.conv(m.op("add", y, m.c(1, 1, 1, 1)), 5, k=1)])
    new = fold_scale_forward(net)
    assert ops(new)["multiply"] == (0 if folded else 1)
    same_meaning(net, new)


def test_forward_needs_all_readers() -> None:
    m = Maker("net")
    y = m.op("multiply", m.input("x", (1, 5, 5, 3)), m.c(1, 1, 1, 3))
    net = m.finish([m.conv(y, 4), m.op("tanh", y)])
    assert ops(fold_scale_forward(net))["multiply"] == 1
    net = m.finish([m.conv(y, 4), y])
    assert ops(fold_scale_forward(net))["multiply"] == 1
    zero = m.op("multiply", "x", m.constant(np.zeros((1, 1, 1, 3), np.float32)))
    net = m.finish([m.conv(m.op("add", zero, m.c(1, 1, 1, 3)), 4)])
    assert ops(fold_scale_forward(net))["multiply"] == 1


def test_merge_constants() -> None:
    m = Maker("net")
    x = m.input("x", (2, 3))
    y = m.op("add", m.op("add", m.op("add", x, m.c(1, 3)), m.c(1, 1)), m.c(2, 3))
    y = m.op("multiply", m.op("multiply", y, m.c(1, 3)), m.c(1, 3))
    net = m.finish([y])
    new = merge_constants(net)
    assert ops(new) == {"add": 1, "multiply": 1}
    same_meaning(net, new)


def groups(net: Network) -> list[str]:
    return ["+".join(n.op for n in g) for g in fuse(net)]


def test_residual_branch_is_fused_before_its_shortcut() -> None:
    m = Maker("net")
    x = m.op("relu", m.input("x", (1, 5, 5, 3)))
    net = m.finish([m.op("relu", m.op("add", m.conv(x, 4), m.conv(x, 4, k=1)))])
    assert [n.op for n in execution_order(net)] == ["relu", "conv2d", "conv2d", "add", "relu"]
    assert groups(net) == ["relu", "conv2d", "conv2d+add+relu"]
    assert fuse(net)[2][0].name == "conv2d"


def test_diamond_of_elementwise_operators_is_one_group() -> None:
    m = Maker("net")
    x = m.op("tanh", m.input("x", (4, 5)))
    y = m.op("multiply", m.op("sigmoid", x), m.op("add", x, m.c(1, 5)))
    assert groups(m.finish([m.op("relu", y)])) == ["tanh+sigmoid+add+multiply+relu"]
    assert len(groups(m.finish([m.op("relu", y), x]))) == 2


def test_softmax_and_reductions_do_not_take_their_producers() -> None:
    m = Maker("net")
    x = m.op("relu", m.input("x", (1, 4, 4, 6)))
    y = m.op("global_avg_pool", x, layout="NHWC")
    y = m.op("softmax", m.op("tanh", m.op("reshape", y, shape=(1, 6))), axis=1)
    assert groups(m.finish([y])) == ["relu", "global_avg_pool", "reshape", "tanh", "softmax"]


def test_widening_broadcast_is_not_fused_into_a_convolution() -> None:
    m = Maker("net")
    y = m.conv(m.input("x", (1, 1, 1, 3)), 4, k=1)
    net = m.finish([m.op("add", y, m.input("z", (1, 5, 5, 4)))])
    assert groups(net) == ["conv2d", "add"]


@pytest.mark.parametrize("side", ["in", "out"])
def test_scaled_weights_lie_as_they_did(side: str) -> None:
    """What packs and samples weights reads them in the order in which a file has them."""
    weight = np.random.default_rng(0).standard_normal((8, 4, 3, 3)).transpose(2, 3, 1, 0)
    scale = np.arange(1.0, (5 if side == "in" else 9))
    scaled = scale_weight(Node("conv2d", ("x", "w"), "y"), weight, scale, side)
    assert scaled.strides == weight.strides
    np.testing.assert_array_equal(scaled, weight * (scale[:, None] if side == "in" else scale))
