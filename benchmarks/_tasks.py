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


def depthwise_task(size: int, channels: int, stride: int, target: Target) -> SearchTask:
    """A 3x3 depthwise NHWC convolution with SAME padding, bias and ReLU; weights are constants."""
    out = (size + 2 - 3) // stride + 1
    data = te.placeholder((1, size, size, channels), "p0")
    inside = te.compute(
        (1, size + 2, size + 2, channels),
        lambda i0, i1, i2, i3: te.if_then_else(
            te.all(i1 >= 1, i1 < size + 1, i2 >= 1, i2 < size + 1),
            data[i0, i1 - 1, i2 - 1, i3],
            0.0,
        ),
        "pad_temp",
    )
    weight = te.placeholder((3, 3, channels), "p1")
    ry, rx = te.reduce_axis(3, "ry"), te.reduce_axis(3, "rx")
    conv = te.compute(
        (1, out, out, channels),
        lambda nn, yy, xx, cc: te.sum(
            inside[nn, yy * stride + ry, xx * stride + rx, cc] * weight[ry, rx, cc],
            axis=[ry, rx],
        ),
        "depthwise_conv2d_nhwc",
    )
    bias = te.placeholder((1, 1, 1, channels), "p2")
    relu = te.compute(
        (1, out, out, channels),
        lambda ax0, ax1, ax2, ax3: te.relu(conv[ax0, ax1, ax2, ax3] + bias[ax0, 0, 0, ax3]),
        "T_relu",
    )
    dag = te.ComputeDAG([data, weight, bias, relu])
    return SearchTask(dag, target, f"depthwise {size}x{size}x{channels} k3 s{stride}")


def replay_tasks(target: Target) -> list[SearchTask]:
    """Layers of ResNet-50 and MobileNet that the replay dataset holds."""
    return [
        conv2d_task(224, 3, 64, 7, 2, target),
        conv2d_task(56, 64, 256, 1, 1, target),
        conv2d_task(56, 64, 64, 3, 1, target),
        conv2d_task(28, 512, 128, 1, 1, target),
        conv2d_task(14, 256, 256, 3, 1, target),
        conv2d_task(7, 512, 2048, 1, 1, target),
        depthwise_task(56, 128, 1, target),
        depthwise_task(14, 512, 1, target),
    ]
