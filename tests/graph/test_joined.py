"""First convolutions as ones of a single channel, where a matrix unit takes many neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.graph.run_plan import run_nodes, run_plan
from tests.hosts import x86
from tilework.graph import Builder, Network, plan
from tilework.graph.joined import join_windows
from tilework.graph.plan import Call
from tilework.target import Target

RAPIDS, ICE = Target(x86("sapphirerapids", 1)), Target(x86("icelake-server", 1))
ZEN4 = Target(x86("znver4", 1))
RNG = np.random.default_rng(0)


def first(kernel: int, *, quantised: bool, channels: int = 3, last: bool = False) -> Network:
    """A convolution of step 2 on the input, of bytes or of floats, with channels first or last."""
    b = Builder("first")
    around = {"strides": (2, 2), "pads": (3, 2, 1, 3), "dilation": (1, 1)}
    own, perm = ("NHWC", (2, 3, 1, 0)) if last else ("NCHW", (0, 1, 2, 3))
    shape = (1, 12, 14, channels) if last else (1, channels, 12, 14)
    x = b.input("x", shape)
    if not quantised:
        w = RNG.standard_normal((16, channels, kernel, kernel), np.float32).transpose(perm)
        return b.finish([b.op("conv2d", x, b.constant(w), layout=own, **around)])
    scale, zero = (np.full((1,) * 4, v, t) for v, t in ((0.02, np.float32), (124, np.uint8)))
    x = b.op("quantize", x, b.constant(scale), b.constant(zero))
    more = tuple(4 - channels if n == channels else 0 for n in shape)
    x = b.op("pad", x, before=(0,) * 4, after=more, value=0)
    w = RNG.integers(-128, 128, (16, 4, kernel, kernel)).astype(np.int8).transpose(perm)
    y = b.op("conv2d", x, b.constant(w), layout=own, sums="int32", fill=124, **around)
    return b.finish([y])


@pytest.mark.parametrize("kernel, window", [(5, "k5x20 s2x8"), (3, "k3 s2")])
@pytest.mark.parametrize("channels", [2, 3])
def test_bytes_are_put_together_by_words(kernel, window, channels):
    net = first(kernel, quantised=True, channels=channels)
    x = RNG.standard_normal((1, channels, 12, 14), np.float32)
    (want,) = run_plan(net, x, target=Target("reference"))
    for target, own in ((RAPIDS, window), (ICE, f"k{kernel} s2")):
        steps = [c.desc for c in plan(net, target=target).calls]
        assert steps[0] == f"quantize+transpose+pixel_words 1x{channels}x12x14"
        assert any(own in step for step in steps)
        (got,) = run_plan(net, x, target=target)
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, want)


def convolution(net: Network, target: Target, *precision: Any) -> Call:
    """The call that is one."""
    calls = plan(net, *precision, target=target).calls
    return next(c for c in calls if c.name.startswith(("conv2d", "conv3d")))


def test_bytes_whose_channels_are_neighbours_stay():
    net = first(5, quantised=True, last=True)
    assert convolution(net, RAPIDS).desc == convolution(net, ICE).desc


@pytest.mark.parametrize("target", [RAPIDS, ZEN4])
def test_floats_are_joined_where_they_are_narrow(target):
    net = first(5, quantised=False)
    assert "k5 s2" in convolution(net, target).desc
    narrow = convolution(net, target, "bf16")
    assert "k5x20 s2x8" in narrow.desc
    assert [t.dtype for t in narrow.dag.inputs] == ["bfloat16", "bfloat16"]
    wide = convolution(net, ICE, "bf16")
    assert [t.dtype for t in wide.dag.inputs] == ["float32", "float32"]


def test_bytes_are_joined_for_a_matrix_unit_alone():
    net = first(5, quantised=True)
    assert convolution(net, ZEN4).desc == convolution(net, ICE).desc


def test_the_bytes_of_a_video_stay():
    b = Builder("video")
    x = b.op("transpose", b.input("x", (1, 3, 5, 6, 7), "uint8"), perm=(0, 2, 3, 4, 1))
    four = b.op("pad", x, before=(0,) * 5, after=(0, 0, 0, 0, 1), value=0)
    w = b.constant(RNG.integers(-128, 128, (2, 2, 2, 4, 5)).astype(np.int8))
    window = {"strides": (1, 1, 1), "pads": (0,) * 6, "dilation": (1, 1, 1)}
    net = b.finish([b.op("conv3d", four, w, layout="NHWC", sums="int32", **window)])
    assert not any("pixel_words" in c.name for c in plan(net, target=ICE).calls)


def test_a_video_is_joined_as_an_image_is():
    b = Builder("video")
    x = b.input("x", (1, 4, 6, 7, 3))
    w = b.constant(RNG.standard_normal((3, 3, 5, 3, 16), np.float32))
    window = {"strides": (1, 2, 2), "pads": (1, 0, 2, 1, 1, 3), "dilation": (1, 1, 1)}
    net = b.finish([b.op("conv3d", x, w, layout="NHWC", **window)])
    assert "k3x3x20 s1x2x8" in convolution(net, ZEN4, "bf16").desc
    data = RNG.standard_normal((1, 4, 6, 7, 3)).astype(np.float32)
    (want,), (got,) = run_nodes(net, data), run_nodes(join_windows(net, ["bfloat16"]), data)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
