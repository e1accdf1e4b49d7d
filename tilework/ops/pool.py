"""Pooling over the spatial dimensions of feature maps [N, ..., C], one to three of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilework import te
from tilework.dtypes import finite_range
from tilework.index.extents import Extent
from tilework.ops.conv import output_sizes, window
from tilework.ops.pad import pad
from tilework.ops.storage import computed


def max_pool(
    data: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
) -> te.Tensor:
    """Largest element of each window of ``kernel`` taps; padding counts as the lowest number.

    NaN is left out (`te.max`), and padding wins over minus infinity alone, as in ONNX Runtime. If
    there is padding anywhere, a schedule may let the lowest number win in every window.

    Args:
        data: feature maps [N, ..., C].
        kernel: taps along each spatial axis.
        strides: step along each spatial axis.
        pads: elements added at the start of each spatial axis, then those added at the ends.
        dilation: distance between taps along each spatial axis.
    """
    lowest = finite_range(data.dtype)[0]
    return _over_windows("max", data, kernel, strides, pads, dilation, lowest, "pool_max")


def avg_pool(
    data: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    *,
    count_include_pad: bool = False,
    dilation: Sequence[int] | None = None,
    surplus: Sequence[int] | None = None,
) -> te.Tensor:
    """Mean of each window; padded elements count in the divisor only if asked for.

    ``surplus`` says how many of the elements at the end of each axis only complete the last
    window, and never count. The other arguments are those of `max_pool`.
    """
    size = data.shape[1:-1]
    rank = len(size)
    dilation = dilation or (1,) * rank
    surplus = surplus or (0,) * rank
    total = _over_windows("sum", data, kernel, strides, pads, dilation, 0.0, "pool_sum")

    def count(d: int, axis: te.Expr) -> te.Expr:
        first = axis * strides[d] - pads[d]
        low, high = 0, size[d]
        if count_include_pad:
            low, high = -pads[d], size[d] + pads[d + rank] - surplus[d]
        if dilation[d] == 1:
            return te.minimum(first + kernel[d], high) - te.maximum(first, low)
        last_tap = te.minimum((high - 1 - first) // dilation[d], kernel[d] - 1)
        first_tap = te.maximum((low - first + dilation[d] - 1) // dilation[d], 0)
        return last_tap - first_tap + 1

    def body(*ax: te.Expr) -> te.Expr:
        if not any(surplus) and (count_include_pad or not any(pads)):
            return total[ax] / float(math.prod(kernel))
        taps_inside = count(0, ax[1])
        for d in range(1, rank):
            taps_inside = taps_inside * count(d, ax[1 + d])
        return total[ax] / te.cast(total.dtype, taps_inside)

    return te.compute(total.shape, body, name="pool_avg")


def lp_pool(
    data: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    p: int,
) -> te.Tensor:
    """``(sum |x|^p)^(1/p)`` of each window; the other arguments are those of `max_pool`."""

    def power(v: te.Expr) -> te.Expr:
        v = te.abs(v)
        return v if p == 1 else v * v if p == 2 else te.pow(v, float(p))

    total = _over_windows("sum", data, kernel, strides, pads, dilation, 0.0, "pool_lp_sum", power)
    if p == 1:
        return total
    return te.compute(
        total.shape,
        lambda *ax: te.sqrt(total[ax]) if p == 2 else te.pow(total[ax], 1.0 / p),
        name="pool_lp",
    )


def window_sums(
    data: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
) -> te.Tensor:
    """Sum of each window of a map of one channel, [N, ...], so that neighbours fill vectors.

    The other arguments are those of `max_pool`.
    """
    n, *size = data.shape
    rank, taps = len(size), _taps(kernel)
    if any(pads):
        before, after = (0, *pads[:rank]), (0, *pads[rank:])
        data = pad(data, before, after, 0, name="pad_temp")

    def body(*ax: te.Expr) -> te.Expr:
        return te.sum(data[(ax[0], *window(ax[1:], taps, strides, dilation))], axis=[*taps])

    out = output_sizes(size, kernel, strides, pads, dilation)
    return te.compute((n, *out), body, name="window_sums")


def max_pool_positions(
    data: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    *,
    columns_first: bool = False,
) -> te.Tensor:
    """Where the first largest element of each window stands in [N, C, ...], as int64.

    NaN is left out; of a window without a number above the lowest it is the first element, and of
    one in the padding alone, position 0.

    Positions count the elements of the whole tensor in row-major order; with ``columns_first``
    the spatial axes count in the opposite order. The other arguments are those of `max_pool`.
    """
    _, *size, c = data.shape
    best = max_pool(data, kernel, strides, pads, dilation)
    lowest = finite_range(data.dtype)[0]
    padded = _padded(data, pads, lowest)
    taps = _taps(kernel)
    nowhere = te.const(2**31 - 1, "int32")

    def position(*ax: te.Expr) -> te.Expr:
        where = window(ax[1:-1], taps, strides, dilation)
        value = computed(padded[(ax[0], *where, ax[-1])])
        flat = ax[0] * c + ax[-1]
        inner: te.Expr = te.const(0, "int32")
        order = range(len(size))
        for d in reversed(order) if columns_first else order:
            inner = inner * size[d] + (where[d] - pads[d])
        inside = [
            te.all(w >= b, w < b + extent) for w, b, extent in zip(where, pads, size, strict=False)
        ]
        top = best[ax]
        hit = te.all(te.any(te.equal(value, top), top <= te.const(lowest, top.dtype)), *inside)
        return te.min(te.select(hit, flat * math.prod(size) + inner, nowhere), axis=[*taps])

    first = te.compute(best.shape, position, name="pool_position")
    return te.compute(
        best.shape,
        lambda *ax: te.cast("int64", te.select(te.equal(first[ax], nowhere), 0, first[ax])),
        name="pool_indices",
    )


def _longest(extent: Extent, windows: int) -> Extent:
    """Elements of the longest window; at most so many where a run decides the extent."""
    if isinstance(extent, int):
        return max(-(-(i + 1) * extent // windows) - i * extent // windows for i in range(windows))
    return (extent + 2 * (windows - 1)) // windows


def adaptive_pool(data: te.Tensor, size: Sequence[int], kind: str) -> te.Tensor:
    """Mean (``"avg"``) or maximum (``"max"``) of windows that share out each axis evenly.

    Window i of m along an axis of n elements goes from ``i*n // m`` to ``((i+1)*n - 1) // m``.
    """
    n, *extents, c = data.shape
    taps = _taps([_longest(e, m) for e, m in zip(extents, size, strict=True)])
    neutral = 0.0 if kind == "avg" else finite_range(computed(data[(0,) * data.ndim]).dtype)[0]

    def edges(i: te.Expr, d: int) -> tuple[te.Expr, te.Expr]:
        e, m = extents[d], size[d]
        return i * e // m, ((i + 1) * e + (m - 1)) // m

    def reduced(*ax: te.Expr) -> te.Expr:
        ends = [edges(i, d) for d, i in enumerate(ax[1:-1])]
        where = [begin + r for (begin, _), r in zip(ends, taps, strict=True)]
        inside = [w < end for w, (_, end) in zip(where, ends, strict=True)]
        value = computed(data[(ax[0], *where, ax[-1])])
        guarded = te.if_then_else(te.all(*inside), value, te.const(neutral, value.dtype))
        return (te.sum if kind == "avg" else te.max)(guarded, axis=[*taps])

    shape = (n, *size, c)
    total = te.compute(shape, reduced, name=f"adaptive_{kind}")
    if kind == "max":
        return total

    def mean(*ax: te.Expr) -> te.Expr:
        count: te.Expr = te.const(1, "int32")
        for d, i in enumerate(ax[1:-1]):
            begin, end = edges(i, d)
            count = count * (end - begin)
        return total[ax] / te.cast(total.dtype, count)

    return te.compute(shape, mean, name="adaptive_mean")


def global_avg_pool(data: te.Tensor) -> te.Tensor:
    """Mean over the spatial axes: [N, ..., C] -> [N, 1, ..., C].

    Declared as the adaptive pooling to one element that it is, in the field's words.
    """
    n, *size, c = data.shape
    taps = _taps(size)

    def summed(*ax: te.Expr) -> te.Expr:
        where = [i * extent + r for i, r, extent in zip(ax[1:-1], taps, size, strict=True)]
        return te.sum(computed(data[(ax[0], *where, ax[-1])]), axis=[*taps])

    shape = (n, *(1 for _ in size), c)
    total = te.compute(shape, summed, name="adaptive_pool_sum")
    exact = te.const(True, "bool")

    def extent_of(axis: te.Expr, extent: Extent) -> te.Expr:
        end = (axis + 1) * extent
        return te.cast(total.dtype, te.select(exact, end, end + 1) - axis * extent)

    def mean(*ax: te.Expr) -> te.Expr:
        count = extent_of(ax[1], size[0])
        for axis, extent in zip(ax[2:-1], size[1:], strict=True):
            count = count * extent_of(axis, extent)
        return total[ax] / count

    return te.compute(shape, mean, name="adaptive_pool_avg")


def _over_windows(
    kind: str,
    data: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    fill: float,
    name: str,
    element: Callable[[te.Expr], te.Expr] = lambda v: v,
) -> te.Tensor:
    """The sum or the extremum of ``element`` of each window's, with ``fill`` around the data."""
    n, *size, c = data.shape
    padded, taps = _padded(data, pads, fill), _taps(kernel)

    def body(*ax: te.Expr) -> te.Expr:
        where = window(ax[1:-1], taps, strides, dilation)
        value = element(computed(padded[(ax[0], *where, ax[-1])]))
        return te.reduced(kind, value, axis=[*taps])

    out = output_sizes(size, kernel, strides, pads, dilation)
    return te.compute((n, *out, c), body, name=name)


def _taps(kernel: Sequence[Extent]) -> tuple[te.Axis, ...]:
    return tuple(te.reduce_axis(k, f"rv{d}") for d, k in enumerate(kernel))


def _padded(data: te.Tensor, pads: Sequence[int], value: float) -> te.Tensor:
    if not any(pads):
        return data
    rank = data.ndim - 2
    return pad(data, (0, *pads[:rank], 0), (0, *pads[rank:], 0), value, name="pad_temp")
