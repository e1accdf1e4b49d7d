"""Weights without a sign of which all but a few fit a byte with one, less their zero point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph.run_plan import run_plan
from tests.hosts import x86
from tilework.graph import Builder, Network
from tilework.graph.passes import optimize
from tilework.graph.passes._quantised import QuantisedConstant
from tilework.graph.passes._signed_weights import SignedWeights
from tilework.target import Target

ICE = Target(x86("icelake-server", 1))
ZERO, FILL = 124, 9


def network(w: np.ndarray, size: tuple[int, ...], stride: int, pad: int) -> Network:
    """A convolution of bytes, or a dense layer where the data have no size, with its sums."""
    b = Builder("products")

    def scalar(value: float, dtype: str) -> str:
        return b.constant(np.asarray(value, dtype))

    x = b.input("x", (2, w.shape[1], *size), "uint8")
    data = b.op("dequantize", x, scalar(1, "float32"), scalar(FILL, "uint8"))
    weights = b.op("dequantize", b.constant(w), scalar(1, "float32"), scalar(ZERO, "uint8"))
    if not size:
        return b.finish([b.op("dense", data, weights)])
    window = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilation": (1, 1)}
    return b.finish([b.op("conv2d", data, weights, layout="NCHW", **window)])


def sums(x: np.ndarray, w: np.ndarray, stride: int, pad: int) -> np.ndarray:
    """What it computes, of integers."""
    x, w = x.astype(np.int64) - FILL, w.astype(np.int64) - ZERO
    if x.ndim == 2:
        return x @ w.T
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("ncijrs,ocrs->noij", windows[:, :, ::stride, ::stride], w)


@given(
    inputs=st.integers(1, 9),
    outputs=st.integers(1, 20),
    form=st.sampled_from([(), (1, 1, 0), (1, 2, 0), (1, 1, 1), (3, 2, 1), (2, 1, 0)]),
    large=st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_sums_are_exact(inputs, outputs, form, large, seed):
    rng = np.random.default_rng(seed)
    kernel, stride, pad = form or (0, 1, 0)
    w = rng.integers(0, 252, (outputs, inputs, *(kernel,) * 2 * bool(kernel))).astype(np.uint8)
    w.reshape(-1)[rng.integers(0, w.size, large)] = 255
    net = network(w, (5, 6) if form else (), stride, pad)
    x = rng.integers(0, 256, (2, inputs, *((5, 6) if form else ()))).astype(np.uint8)
    (got,) = run_plan(net, x, target=ICE)
    np.testing.assert_array_equal(got, sums(x, w, stride, pad))


@pytest.mark.parametrize(
    "shape, channels, summed",
    [
        ((16, 3, 3, 3), [1], False),  # there is room for one
        ((16, 3, 3, 3), [0, 1], True),
        ((16, 16, 3, 3), [0], True),
        ((16, 64, 1, 1), [3, 7], False),
        ((64, 16, 1, 1), [3], True),  # a sum of few inputs is less than products of many outputs
        ((16, 64), [3, 7], False),
    ],
)
def test_sums_of_data_are_left_out_where_all_but_few_weights_fit(shape, channels, summed):
    w = np.full(shape, 3, np.uint8)
    for c in channels:
        w[(5, c, *(0,) * (w.ndim - 2))] = 255
    net = network(w, (8, 8)[: w.ndim - 2], 1, 0)
    assert any(n.op == "reduce_sum" for n in optimize(net).nodes) == summed


def test_weights_are_what_they_were():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 256, (6, 5, 2, 2))
    zeros = np.full_like(numbers, ZERO)
    w = QuantisedConstant(numbers, np.ones(numbers.shape, np.float32), zeros, "uint8")
    few = SignedWeights.of(w, zeros[:, 0, 0, 0], 1, 5)
    again, channels = few.filled(7)
    assert few.numbers.dtype == again.numbers.dtype == np.int8
    assert not few.zeros.any() and set(channels) == set(few.more)
    np.testing.assert_array_equal(few.whole, numbers - ZERO)
    behind = again.numbers[:, 5 : 5 + len(channels)].astype(int)
    own = again.numbers[:, :5].astype(int)
    own[:, list(channels)] += behind
    np.testing.assert_array_equal(own, numbers - ZERO)
    plain = SignedWeights.of(w, zeros[:, 0, 0, 0], 1, 0)
    np.testing.assert_array_equal(plain.whole - plain.zeros.reshape(-1, 1, 1, 1), numbers - ZERO)
