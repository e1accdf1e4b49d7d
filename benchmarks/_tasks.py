"""Single layers as tasks, declared with the project's own operators."""

from __future__ import annotations

from tilework import te
from tilework.target import Target
from tilework.task import SearchTask


def conv2d_task(
    size: int, cin: int, cout: int, kernel: int, stride: int, target: Target
) -> SearchTask:
    """A square NHWC convolution with SAME padding, bias and ReLU; weights are constants."""
    pad = (kernel - 1) // 2
    out = (size + 2 * pad - kernel) // stride + 1
    data = te.placeholder((1, size, size, cin), "p0")
    inside = te.compute(
        (1, size + 2 * pad, size + 2 * pad, cin),
        lambda i0, i1, i2, i3: (
            te.if_then_else(
                te.all(i1 >= pad, i1 < size + pad, i2 >= pad, i2 < size + pad),
                data[i0, i1 - pad, i2 - pad, i3],
                0.0,
            )
            if pad
            else data[i0, i1, i2, i3]
        ),
        "pad_temp",
    )
    weight = te.placeholder((kernel, kernel, cin, cout), "p1")
    ry, rx = te.reduce_axis(kernel, "ry"), te.reduce_axis(kernel, "rx")
    rc = te.reduce_axis(cin, "rc")
    conv = te.compute(
        (1, out, out, cout),
        lambda nn, yy, xx, ff: te.sum(
            inside[nn, yy * stride + ry, xx * stride + rx, rc] * weight[ry, rx, rc, ff],
            axis=[ry, rx, rc],
        ),
        "conv2d_nhwc",
        {"layout_free": ("p1",)},
    )
    bias = te.placeholder((1, 1, 1, cout), "p2")
    added = te.compute(
        (1, out, out, cout),
        lambda ax0, ax1, ax2, ax3: conv[ax0, ax1, ax2, ax3] + bias[ax0, 0, 0, ax3],
        "T_add",
    )
    relu = te.compute(
        (1, out, out, cout),
        lambda ax0, ax1, ax2, ax3: te.relu(added[ax0, ax1, ax2, ax3]),
        "T_relu",
    )
    dag = te.ComputeDAG([data, weight, bias, relu])
    desc = f"conv {size}x{size}x{cin}->{cout} k{kernel} s{stride}"
    return SearchTask(dag, target, desc)
