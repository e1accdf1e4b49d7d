"""Two convolutions in a row: pointwise and depthwise, in either order, as mobile networks have."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.lower.computations import pad, relu
from tilework import te


def pointwise(x, co, name, inputs):
    """1x1 convolution with constant weights."""
    n, h, w, ci = x.shape
    weight = te.placeholder((1, 1, ci, co), name=f"{name}_w")
    inputs.append(weight)
    rc = te.reduce_axis(ci, "rc")
    return te.compute(
        (n, h, w, co),
        lambda n, y, x_, f: te.sum(x[n, y, x_, rc] * weight[0, 0, rc, f], axis=rc),
        name=name,
        attrs={"layout_free": (weight.name,)},
    )


def depthwise(x, k, s, p, name, inputs):
    """Depthwise convolution with zero padding."""
    n, h, w, c = x.shape
    weight = te.placeholder((k, k, c), name=f"{name}_w")
    inputs.append(weight)
    padded = pad(x, (0, p, p, 0), (0, p, p, 0), name=f"{name}_pad") if p else x
    ry, rx = te.reduce_axis(k, "ry"), te.reduce_axis(k, "rx")
    return te.compute(
        (n, (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1, c),
        lambda n, y, x_, c: te.sum(
            padded[n, y * s + ry, x_ * s + rx, c] * weight[ry, rx, c], axis=[ry, rx]
        ),
        name=name,
    )


def bias_relu(x, name, inputs):
    """The usual epilogue."""
    bias = te.placeholder((x.shape[-1],), name=f"{name}_b")
    inputs.append(bias)
    added = te.compute(x.shape, lambda *i: x[i] + bias[i[-1]], name=f"{name}_add")
    return relu(added, f"{name}_relu")


def separable(h=14, w=14, ci=32, co=64, k=3, s=1, p=1, *, finish=True, expand=0):
    """Depthwise then pointwise; behind a pointwise expansion if ``expand`` channels are given."""
    data = te.placeholder((1, h, w, ci), name="data")
    inputs, x = [data], data
    if expand:
        x = bias_relu(pointwise(x, expand, "pw0", inputs), "pw0", inputs)
    x = depthwise(x, k, s, p, "dw", inputs)
    if finish:
        x = bias_relu(x, "dw", inputs)
    if co:
        x = bias_relu(pointwise(x, co, "pw1", inputs), "pw1", inputs)
    return te.ComputeDAG([*inputs, x])


@st.composite
def separables(draw):
    """Depthwise and pointwise convolutions of odd sizes."""
    k = draw(st.sampled_from([1, 3, 5]))
    expand = draw(st.sampled_from([0, 0, 8, 17, 24]))
    return separable(
        draw(st.integers(k, 11)), draw(st.integers(k, 13)),
        draw(st.sampled_from([1, 3, 8, 17, 32])), draw(st.sampled_from([0, 4, 16, 33]))
        if expand else draw(st.sampled_from([4, 16, 33])),
        k, draw(st.integers(1, 2)), draw(st.integers(0, k // 2 + 1)),
        finish=draw(st.booleans()), expand=expand,
    )  # fmt: skip
