"""All passes together on random networks: the plan means what the network meant before them."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.run_plan import relative_error, run_nodes, run_plan
from tilework.graph import Builder, Network, failures, passes

_UNARY = ("relu", "tanh", "identity", "abs")
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Up to a dozen operators on feature maps, many of them next to ones that undo or repeat."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    b = Builder("random")
    values = [b.input("x", (1, 4, 5, 3)), b.input("y", (1, 4, 5, 3))]
    for _ in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from(values[-4:]))
        shape = b.shape(x)
        kind = draw(st.sampled_from(_KINDS))
        if kind == "unary":
            y = b.op(draw(st.sampled_from(_UNARY)), x)
        elif kind == "clip":
            low = draw(st.sampled_from([-np.inf, -1.0, 0.0]))
            y = b.op("clip", x, low=low, high=draw(st.sampled_from([1.0, 6.0, np.inf])))
        elif kind == "constant":
            wide = [draw(st.booleans()) for _ in shape]
            extents = [n if w else 1 for n, w in zip(shape, wide, strict=True)]
            array = draw(st.sampled_from([rng.normal(1, 1, extents), np.zeros(extents)]))
            c = b.constant((array + draw(st.integers(0, 1))).astype(np.float32))
            operands = (x, c) if draw(st.booleans()) else (c, x)
            y = b.op(draw(st.sampled_from(_BINARY)), *operands)
        elif kind == "binary":
            other = draw(st.sampled_from([v for v in values if b.shape(v) == shape]))
            y = b.op(draw(st.sampled_from(_BINARY)), x, other)
        elif kind == "transpose":
            perm = draw(st.sampled_from([(0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1)]))
            y = b.op("transpose", x, perm=perm)
        elif kind == "reshape":
            n, h, w, c = shape
            y = b.op("reshape", x, shape=draw(st.sampled_from([(n, h * w, 1, c), (n, w, h, c)])))
        elif kind == "concat":
            alike = [v for v in values if b.shape(v)[:3] == shape[:3]]
            y = b.op("concat", x, *draw(st.lists(st.sampled_from(alike), max_size=2)), axis=3)
        elif kind == "slice":
            begin = [draw(st.integers(0, n - 1)) for n in shape]
            size = [draw(st.integers(1, n - at)) for n, at in zip(shape, begin, strict=True)]
            y = b.op("slice", x, begin=tuple(begin), size=tuple(size), stride=(1,) * 4)
        elif kind == "pad":
            before, after = ((0, *(draw(st.integers(0, 1)) for _ in "hw"), 0) for _ in "ba")
            value = draw(st.sampled_from([0.0, 1.0]))
            y = b.op("pad", x, before=before, after=after, value=value)
        elif kind == "conv":
            k = draw(st.sampled_from([1, 3]))
            w = rng.normal(0, 0.5, (k, k, shape[3], draw(st.integers(1, 4)))).astype(np.float32)
            y = b.op("conv2d", x, b.constant(w), pads=(k // 2,) * 4, **_window(1))
        else:
            kernel = {"kernel": (3, 3), "pads": (draw(st.integers(0, 1)) + 1,) * 4}
            extra = {"dilation": (1, 1)} if kind == "max_pool2d" else {"count_include_pad": False}
            y = b.op(kind, x, strides=(1, 1), layout="NHWC", **kernel, **extra)
        values.append(y)
    return b.finish(draw(st.lists(st.sampled_from(values), min_size=1, max_size=3)))


_KINDS = (
    "unary", "clip", "constant", "constant", "binary", "transpose", "transpose", "reshape",
    "concat", "slice", "pad", "conv", "conv", "max_pool2d", "avg_pool2d",
)  # fmt: skip


def _window(stride: int) -> dict[str, object]:
    return {"strides": (stride, stride), "dilation": (1, 1), "layout": "NHWC"}


@settings(max_examples=80, deadline=None)
@given(networks())
def test_passes_keep_the_meaning(net: Network) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(t.shape, dtype=np.float32) for t in net.inputs.values()]
    got, want = run_plan(net, *inputs), run_nodes(net, *inputs)
    for a, b in zip(got, want, strict=True):
        assert relative_error(a, b) < 1e-4


@settings(max_examples=40, deadline=None)
@given(networks(), st.sampled_from(sorted({p.__name__ for p in passes.PASSES})))
def test_any_pass_may_be_left_out(net: Network, name: str) -> None:
    def fails(net: Network) -> Network:
        raise AssertionError("it has not thought of this")

    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(t.shape, dtype=np.float32) for t in net.inputs.values()]
    run = tuple(fails if p.__name__ == name else p for p in passes.PASSES)
    with mock.patch.object(passes, "PASSES", run), mock.patch.object(failures, "strict", False):
        got = run_plan(net, *inputs)
    for a, b in zip(got, run_nodes(net, *inputs), strict=True):
        assert relative_error(a, b) < 1e-4
