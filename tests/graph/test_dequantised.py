"""Where numbers are dequantised, and what is known of their scales when a network is compiled."""

from __future__ import annotations

import numpy as np

from tests.graph.run_plan import run_nodes, run_plan
from tilework.graph import Builder, Network, plan
from tilework.graph.passes import optimize

X = np.random.default_rng(0).standard_normal((4, 16), np.float32) * 3


def quantised(*readers: str, scale: float = 0.1) -> Network:
    """An input, quantised and dequantised, and what reads it in two places."""
    b = Builder("net")
    parts = [b.constant(np.full((1, 1), v, t)) for v, t in ((scale, np.float32), (7, np.uint8))]
    x = b.op("dequantize", b.op("quantize", b.op("tanh", b.input("x", X.shape)), *parts), *parts)
    return b.finish([b.op(op, x) for op in readers])


def test_numbers_that_two_kernels_read_are_stored_as_they_are():
    net = quantised("relu", "exp")
    calls = plan(net).calls
    assert [c.name for c in calls] == ["tanh_quantize", "dequantize_relu", "dequantize_exp"]
    assert [c.dag.outputs[0].dtype for c in calls] == ["uint8", "float32", "float32"]
    for got, want in zip(run_plan(net, X), run_nodes(net, X), strict=True):
        np.testing.assert_array_equal(got, want)


def test_numbers_that_are_dequantised_at_once_are_no_integers():
    net = quantised("relu")
    (call,) = plan(net).calls
    assert call.name == "tanh_quantize_dequantize_relu"
    assert {t.dtype for t in call.dag.tensors} == {"float32"}
    (got,), (want,) = run_plan(net, X), run_nodes(net, X)
    np.testing.assert_array_equal(got, want)


def test_zero_points_and_inverse_scales_are_constants():
    net = optimize(quantised("relu", scale=0.3))
    (node,) = [n for n in net.nodes if n.op == "quantize"]
    scale, zero, inverse = (net.constants[v].reshape(()) for v in node.inputs[1:])
    assert (scale, zero, inverse) == (np.float32(0.3), 7.0, np.float32(1) / np.float32(0.3))
    assert node.attrs["of"] == "uint8"
    tiny = optimize(quantised("relu", scale=1e-35))
    assert [len(n.inputs) for n in tiny.nodes if n.op == "quantize"] == [3]


def test_sums_of_dequantised_numbers_fit_32_bits():
    """Where no scale is unlike the others by far, and all that is added is known."""
    for scale, other, fits in ((0.3, "tanh", True), (1e-12, "tanh", False), (0.3, "x", False)):
        b = Builder("net")
        x = b.input("x", X.shape)
        zero = b.constant(np.full((1, 1), 7, np.uint8))
        own = b.constant(np.full((1, 1), 0.1, np.float32))
        y = b.op("dequantize", b.op("quantize", b.op("tanh", x), own, zero), own, zero)
        both = b.op("add", y, b.op("relu", y) if other == "tanh" else x)
        last = b.constant(np.full((1, 1), scale, np.float32))
        net = b.finish([b.op("quantize", both, last, zero)])
        *_, node = (n for n in optimize(net).nodes if n.op == "quantize")
        assert node.attrs.get("fits", False) is fits
        for got, want in zip(run_plan(net, X), run_nodes(net, X), strict=True):
            np.testing.assert_array_equal(got, want)


def test_what_is_quantised_behind_a_concatenation_is_in_front_of_it():
    b = Builder("net")
    x = b.input("x", X.shape)

    def rounded(value: str, scale: float, zero: np.generic) -> str:
        parts = [b.constant(np.full((1, 1), v)) for v in (np.float32(scale), zero)]
        return b.op("dequantize", b.op("quantize", value, *parts), *parts)

    own = rounded(b.op("tanh", x), 0.02, np.int8(3))
    joined = b.op("concat", own, b.op("relu", x), axis=1)
    net = b.finish([rounded(joined, 0.05, np.int8(-7))])
    calls = plan(net).calls
    assert [c.name for c in calls] == [
        "tanh_quantize_dequantize_quantize", "relu_quantize", "concat", "dequantize"
    ]  # fmt: skip
    (got,), (want,) = run_plan(net, X), run_nodes(net, X)
    np.testing.assert_array_equal(got, want)


def test_what_is_quantised_and_broadcast_is_computed_once():
    """As the gate of squeeze-and-excitation is."""
    b = Builder("net")
    x, w = b.input("x", X.shape), b.constant(np.ones((16, 16), np.float32))
    parts = [b.constant(np.full((1, 1), v, t)) for v, t in ((0.1, np.float32), (7, np.uint8))]
    sums = b.op("dense", b.op("reduce_mean", x, axes=(0,), keepdims=True), w)
    gate = b.op("dequantize", b.op("quantize", b.op("tanh", sums), *parts), *parts)
    net = b.finish([b.op("multiply", x, gate)])
    names = [c.name for c in plan(net).calls]
    assert names == ["reduce_mean", "dense_tanh_quantize", "dequantize_multiply"]
    (got,), (want,) = run_plan(net, X), run_nodes(net, X)
    np.testing.assert_allclose(got, want, rtol=1e-6)
