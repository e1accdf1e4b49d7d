"""The network that every kind of machine tunes, compiles and runs: tiny, with one of each."""

from __future__ import annotations

import numpy as np

from tilework.graph import Builder, Network

SHAPE = (1, 6, 5, 8)


def network() -> Network:
    """Two convolutions, a residual sum, a concatenation, pooling, a dense layer."""
    rng = np.random.default_rng(7)
    b = Builder("conformance")
    x = b.input("x", SHAPE)
    y = b.op("relu", _conv(b, rng, x, 8))
    y = b.op("relu", b.op("add", _conv(b, rng, y, 8), x))
    y = b.op("concat", y, x, axis=3)
    y = b.op("reshape", y, shape=(1, 6 * 5 * 16))
    w = b.constant(rng.standard_normal((6 * 5 * 16, 10), np.float32) / 20, "w")
    return b.finish([b.op("matmul", y, w)])


def _conv(b: Builder, rng: np.random.Generator, x: str, channels: int) -> str:
    shape = (3, 3, b.shape(x)[3], channels)
    w = b.constant(rng.standard_normal(shape, np.float32) / 8)
    same = {"pads": (1, 1, 1, 1), "dilation": (1, 1), "strides": (1, 1), "layout": "NHWC"}
    return b.op("conv2d", x, w, groups=1, **same)


def image() -> np.ndarray:
    """An input of the network."""
    return np.random.default_rng(3).standard_normal(SHAPE, np.float32)
