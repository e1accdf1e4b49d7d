"""Operators that move data follow the layout of the convolutions around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.graph.operator_cases import Cases
from tilework.graph import from_onnx
from tilework.graph.passes import optimize


def conv(c: Cases, r: np.random.Generator, x: str, cin: int, cout: int) -> str:
    w = c.constant(r.standard_normal((cout, cin, 3, 3)) / 9)
    return c.node("Relu", c.node("Conv", x, w, pads=[1, 1, 1, 1]))


def decoder(c: Cases, r: np.random.Generator, x: str) -> str:
    small = c.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    scales = c.constant([1, 1, 2, 2])
    up = c.node("Resize", conv(c, r, small, 8, 8), "", scales, mode="nearest")
    return c.node("Concat", up, x, axis=1)


def bilinear(c: Cases, r: np.random.Generator, x: str) -> str:
    sizes = c.constant([1, 8, 12, 14], "int64")
    return c.node("Resize", x, "", "", sizes, mode="linear")


def crop(c: Cases, r: np.random.Generator, x: str) -> str:
    given = ([1, -2], [6, -20], [2, 3], [1, -2])
    y = c.node("Slice", x, *(c.constant(v, "int64") for v in given))
    y = c.node("Pad", y, c.constant([0, 0, 2, 1, 0, 0, 3, 0], "int64"), mode="reflect")
    return c.node("Tile", y, c.constant([1, 1, 1, 2], "int64"))


def halves(c: Cases, r: np.random.Generator, x: str) -> str:
    first = c.node("Split", x, outputs=2, axis=1)
    second = c.outputs[-1]
    return c.node("Concat", second, first, axis=1)


def picked(c: Cases, r: np.random.Generator, x: str) -> str:
    return c.node("Gather", x, c.constant([3, 0, 0, 5], "int64"), axis=1)


def shuffled(c: Cases, r: np.random.Generator, x: str) -> str:
    y = c.node("DepthToSpace", x, blocksize=2, mode="CRD")
    return c.node("SpaceToDepth", c.node("Relu", y), blocksize=2)


def channel_shuffle(c: Cases, r: np.random.Generator, x: str) -> str:
    y = c.node("Reshape", x, c.constant([1, 2, 4, 8, 10], "int64"))
    y = c.node("Transpose", y, perm=[0, 2, 1, 3, 4])
    return c.node("Reshape", y, c.constant([1, 8, 8, 10], "int64"))


FORMS = (
    (decoder, 16),
    (bilinear, 8),
    (crop, 8),
    (halves, 8),
    (picked, 4),
    (shuffled, 8),
    (channel_shuffle, 8),
)


@pytest.mark.parametrize(("form", "channels"), FORMS, ids=lambda f: getattr(f, "__name__", ""))
def test_layout_is_kept(form, channels: int, tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases()
    x = c.input(r.standard_normal((1, 3, 8, 10)).astype(np.float32))
    y = form(c, r, conv(c, r, x, 3, 8))
    y = conv(c, r, y, channels, 4)
    c.outputs = [y]
    c.check(tmp_path)
    net = optimize(from_onnx(tmp_path / "cases.onnx"))
    turned = [n for n in net.nodes if n.op == "transpose" and len(n.attrs["perm"]) == 4]
    assert len(turned) == 2, str(net)  # one at the input, one at the output
