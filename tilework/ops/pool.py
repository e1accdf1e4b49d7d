"""Pooling over the spatial dimensions of feature maps [N, ..., C], one to three of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilework import te
from tilework.ops.conv import output_sizes
from tilework.ops.elementwise import axis_names
from tilework.ops.pad import pad
from tilework.ops.storage import computed
from tilework.te.expr import finite_range


def max_pool(
    data: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
) -> te.Tensor:
    """Largest element of each window of ``kernel`` taps; padding counts as the lowest number.

    Hence padding wins over minus infinity alone, as in ONNX Runtime; and as there, whether a NaN
    comes through depends on where it stands in the window.

    Args:
        data: feature maps [N, ..., C].
        kernel: taps along each spatial axis.
        strides: step along each spatial axis.
        pads: elements added at the start of each spatial axis, then those added at the ends.
        dilation: distance between taps along each spatial axis.
    """
    n, *size, c = data.shape
    padded = _padded(data, pads, finite_range(data.dtype)[0])
    taps = _taps(kernel)

    def body(*at: te.Expr) -> te.Expr:
        where = [
            i * s + r * d for i, r, s, d in zip(at[1:-1], taps, strides, dilation, strict=True)
        ]
        return te.max(computed(padded[(at[0], *where, at[-1])]), axis=[*taps])

    out = output_sizes(size, kernel, strides, pads, dilation)
    return te.compute((n, *out, c), body, name="pool_max", axis_names=axis_names(data.ndim))


def avg_pool(
    data: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    *,
    count_include_pad: bool = False,
) -> te.Tensor:
    """Mean of each window; padded elements count in the divisor only if asked for.

    The arguments are those of `max_pool`.
    """
    n, *size, c = data.shape
    rank = len(size)
    out = output_sizes(size, kernel, strides, pads, (1,) * rank)
    padded = _padded(data, pads, 0.0)
    taps = _taps(kernel)

    def summed(*at: te.Expr) -> te.Expr:
        where = [i * s + r for i, r, s in zip(at[1:-1], taps, strides, strict=True)]
        return te.sum(computed(padded[(at[0], *where, at[-1])]), axis=[*taps])

    names = axis_names(data.ndim)
    total = te.compute((n, *out, c), summed, name="pool_sum", axis_names=names)

    def count(d: int, axis: te.Expr) -> te.Expr:
        first = axis * strides[d] - pads[d]
        return te.minimum(first + kernel[d], size[d]) - te.maximum(first, 0)

    def body(*ax: te.Expr) -> te.Expr:
        if count_include_pad or not any(pads):
            return total[ax] / float(math.prod(kernel))
        taps_inside = count(0, ax[1])
        for d in range(1, rank):
            taps_inside = taps_inside * count(d, ax[1 + d])
        return total[ax] / te.cast(total.dtype, taps_inside)

    return te.compute(total.shape, body, name="pool_avg", axis_names=names)


def global_avg_pool(data: te.Tensor) -> te.Tensor:
    """Mean over the spatial axes: [N, ..., C] -> [N, 1, ..., C].

    Declared as the adaptive pooling to one element that it is, in the field's words.
    """
    n, *size, c = data.shape
    taps = _taps(size)

    def summed(*at: te.Expr) -> te.Expr:
        where = [i * extent + r for i, r, extent in zip(at[1:-1], taps, size, strict=True)]
        return te.sum(computed(data[(at[0], *where, at[-1])]), axis=[*taps])

    shape = (n, *(1 for _ in size), c)
    names = axis_names(data.ndim)
    total = te.compute(shape, summed, name="adaptive_pool_sum", axis_names=names)
    exact = te.const(True, "bool")

    def extent_of(axis: te.Expr, extent: int) -> te.Expr:
        end = (axis + 1) * extent
        return te.cast(total.dtype, te.select(exact, end, end + 1) - axis * extent)

    def mean(*at: te.Expr) -> te.Expr:
        count = extent_of(at[1], size[0])
        for axis, extent in zip(at[2:-1], size[1:], strict=True):
            count = count * extent_of(axis, extent)
        return total[at] / count

    return te.compute(shape, mean, name="adaptive_pool_avg", axis_names=names)


def _taps(kernel: Sequence[int]) -> tuple[te.Axis, ...]:
    return tuple(te.reduce_axis(k, f"rv{d}") for d, k in enumerate(kernel))


def _padded(data: te.Tensor, pads: Sequence[int], value: float) -> te.Tensor:
    if not any(pads):
        return data
    rank = data.ndim - 2
    return pad(data, (0, *pads[:rank], 0), (0, *pads[rank:], 0), value, name="pad_temp")
