"""Pooling over the spatial dimensions of feature maps [N, H, W, C]."""

from __future__ import annotations

from tilework import te
from tilework.ops.conv import output_size
from tilework.ops.elementwise import axis_names
from tilework.ops.pad import pad

LOWEST_FLOAT32 = -3.4028234663852886e38

_Pair = tuple[int, int]
_Pads = tuple[int, int, int, int]


def max_pool2d_nhwc(
    data: te.Tensor,
    kernel: _Pair,
    strides: _Pair,
    pads: _Pads = (0, 0, 0, 0),
    dilation: _Pair = (1, 1),
) -> te.Tensor:
    """Largest element of each window of ``kernel`` taps; padding never wins."""
    n, h, w, c = data.shape
    (sh, sw), (dh, dw), (top, left, bottom, right) = strides, dilation, pads
    oh = output_size(h, kernel[0], top, bottom, sh, dh)
    ow = output_size(w, kernel[1], left, right, sw, dw)
    padded = _padded(data, pads, LOWEST_FLOAT32)
    rv0, rv1 = te.reduce_axis(kernel[0], "rv0"), te.reduce_axis(kernel[1], "rv1")
    return te.compute(
        (n, oh, ow, c),
        lambda ax0, ax1, ax2, ax3: te.max(
            padded[ax0, ax1 * sh + rv0 * dh, ax2 * sw + rv1 * dw, ax3], axis=[rv0, rv1]
        ),
        name="pool_max",
    )


def avg_pool2d_nhwc(
    data: te.Tensor,
    kernel: _Pair,
    strides: _Pair,
    pads: _Pads = (0, 0, 0, 0),
    *,
    count_include_pad: bool = False,
) -> te.Tensor:
    """Mean of each window; padded elements count in the divisor only if asked for."""
    n, h, w, c = data.shape
    (sh, sw), (top, left, bottom, right) = strides, pads
    oh = output_size(h, kernel[0], top, bottom, sh, 1)
    ow = output_size(w, kernel[1], left, right, sw, 1)
    padded = _padded(data, pads, 0.0)
    rv0, rv1 = te.reduce_axis(kernel[0], "rv0"), te.reduce_axis(kernel[1], "rv1")
    total = te.compute(
        (n, oh, ow, c),
        lambda ax0, ax1, ax2, ax3: te.sum(
            padded[ax0, ax1 * sh + rv0, ax2 * sw + rv1, ax3], axis=[rv0, rv1]
        ),
        name="pool_sum",
    )

    def count(axis: te.Expr, size: int, extent: int, stride: int, before: int) -> te.Expr:
        first = axis * stride - before
        return te.minimum(first + extent, size) - te.maximum(first, 0)

    def body(*ax: te.Expr) -> te.Expr:
        if count_include_pad or not any(pads):
            return total[ax] / float(kernel[0] * kernel[1])
        rows = count(ax[1], h, kernel[0], sh, top)
        columns = count(ax[2], w, kernel[1], sw, left)
        return total[ax] / te.cast(data.dtype, rows * columns)

    return te.compute(total.shape, body, name="pool_avg", axis_names=axis_names(4))


def global_avg_pool_nhwc(data: te.Tensor) -> te.Tensor:
    """Mean over H and W: [N, H, W, C] -> [N, 1, 1, C].

    Declared as the adaptive pooling to 1 x 1 that it is, in the field's words.
    """
    n, h, w, c = data.shape
    rv0, rv1 = te.reduce_axis(h, "rv0"), te.reduce_axis(w, "rv1")
    total = te.compute(
        (n, 1, 1, c),
        lambda ax0, ax1, ax2, ax3: te.sum(
            data[ax0, ax1 * h + rv0, ax2 * w + rv1, ax3], axis=[rv0, rv1]
        ),
        name="adaptive_pool_sum",
    )
    exact = te.const(True, "bool")

    def taps(axis: te.Expr, size: int) -> te.Expr:
        end = (axis + 1) * size
        return te.cast(data.dtype, te.select(exact, end, end + 1) - axis * size)

    return te.compute(
        (n, 1, 1, c),
        lambda ax0, ax1, ax2, ax3: total[ax0, ax1, ax2, ax3] / (taps(ax1, h) * taps(ax2, w)),
        name="adaptive_pool_avg",
    )


def _padded(data: te.Tensor, pads: _Pads, value: float) -> te.Tensor:
    if not any(pads):
        return data
    top, left, bottom, right = pads
    return pad(data, (0, top, left, 0), (0, bottom, right, 0), value, name="pad_temp")
