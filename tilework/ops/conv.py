"""Convolutions over any number of spatial axes, direct form.

Axes carry the same names whatever the number of dimensions: output positions ``zz, yy, xx``, taps
``rz, ry, rx`` (of fewer dimensions the last ones), channels ``ff`` and ``rc``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te
from tilework.index.extents import Extent
from tilework.ops.pad import pad
from tilework.ops.storage import computed

MAX_SPATIAL = 3
_POSITIONS = ("zz", "yy", "xx")
_TAPS = ("rz", "ry", "rx")
_LETTERS = ("d", "h", "w")


def output_size(
    size: Extent, kernel: Extent, before: int, after: int, stride: int, dilation: int
) -> Extent:
    """Number of output positions of a sliding window along one dimension (can be <= 0)."""
    return (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


def output_sizes(
    size: Sequence[Extent],
    kernel: Sequence[Extent],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
) -> tuple[Extent, ...]:
    """`output_size` along every spatial axis; ``pads`` are all firsts, then all lasts."""
    ends = zip(pads[: len(size)], pads[len(size) :], strict=True)
    return tuple(
        output_size(n, k, before, after, s, d)
        for n, k, (before, after), s, d in zip(size, kernel, ends, strides, dilation, strict=True)
    )


def conv(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    *,
    channels_last: bool = True,
    layout_free: bool = False,
    sums: str = "",
    fill: float = 0.0,
) -> te.Tensor:
    """Convolution over the spatial axes of ``data``, one to three of them.

    Args:
        data: feature maps [N, ..., CI], or [N, CI, ...].
        weight: filters [..., CI, CO], or [CO, CI, ...].
        strides: step along each spatial axis.
        pads: zeros added at the start of each spatial axis, then those added at the ends.
        dilation: distance between filter taps along each spatial axis.
        channels_last: the layout; networks are converted to it, the other one is for tasks
            declared by hand.
        layout_free: the weights are constants, whose layout the schedule may change.
        sums: the element type of factors and sums, where it is another: int32 for bytes.
        fill: what is added around the data in place of zeros.
    """
    rank = _spatial_rank(data.ndim - 2, strides, pads, dilation)
    if channels_last:
        (n, *size, ci), (*kernel, wci, co) = data.shape, weight.shape
    else:
        (n, ci, *size), (co, wci, *kernel) = data.shape, weight.shape
    if wci != ci:
        raise ValueError(f"conv{rank}d: data has {ci} channels but the weights expect {wci}")
    out = output_sizes(size, kernel, strides, pads, dilation)
    padded = _padded(data, pads, rank, 1 if channels_last else 2, fill)
    taps = _taps(kernel)
    rc = te.reduce_axis(ci, "rc")

    def last(*at: te.Expr) -> te.Expr:
        where = window(at[1:-1], taps, strides, dilation)
        element = computed(padded[(at[0], *where, rc)], sums)
        return te.sum(element * computed(weight[(*taps, rc, at[-1])], sums), axis=[*taps, rc])

    def first(*at: te.Expr) -> te.Expr:
        where = window(at[2:], taps, strides, dilation)
        element = computed(padded[(at[0], rc, *where)], sums)
        return te.sum(element * computed(weight[(at[1], rc, *taps)], sums), axis=[rc, *taps])

    letters = "".join(_LETTERS[-rank:])
    return te.compute(
        (n, *out, co) if channels_last else (n, co, *out),
        last if channels_last else first,
        name=f"conv{rank}d_n{letters}c" if channels_last else f"conv{rank}d_nc{letters}",
        axis_names=["nn", *_POSITIONS[-rank:], "ff"]
        if channels_last
        else ["nn", "ff", *_POSITIONS[-rank:]],
        attrs={"layout_free": (weight.name,)} if layout_free else {},
    )


def depthwise_conv(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    *,
    layout_free: bool = False,
    sums: str = "",
    fill: float = 0.0,
) -> te.Tensor:
    """A filter of its own for each channel: [N, ..., C] with [..., 1, C] -> [N, ..., C].

    The other arguments are those of `conv`.
    """
    rank = _spatial_rank(data.ndim - 2, strides, pads, dilation)
    (n, *size, channels), (*kernel, one, co) = data.shape, weight.shape
    if one != 1 or co != channels:
        raise ValueError(
            f"depthwise_conv{rank}d: {channels} channels need weights of shape [..., 1, "
            f"{channels}], not [..., {one}, {co}]"
        )
    out = output_sizes(size, kernel, strides, pads, dilation)
    padded = _padded(data, pads, rank, 1, fill)
    taps = _taps(kernel)

    def body(*at: te.Expr) -> te.Expr:
        where = window(at[1:-1], taps, strides, dilation)
        zero = te.const(0, "int32")
        return te.sum(
            computed(padded[(at[0], *where, at[-1])], sums)
            * computed(weight[(*taps, zero, at[-1])], sums),
            axis=[*taps],
        )

    return te.compute(
        (n, *out, channels),
        body,
        name=f"depthwise_conv{rank}d",
        axis_names=["nn", *_POSITIONS[-rank:], "cc"],
        attrs={"layout_free": (weight.name,)} if layout_free else {},
    )


def grouped_conv(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    *,
    layout_free: bool = False,
    sums: str = "",
    fill: float = 0.0,
) -> te.Tensor:
    """Independent convolutions of groups of channels: [N, ..., G, CI] -> [N, ..., G, CO].

    The channels of a tensor and the outputs of its weights are split in two dimensions, which
    changes nothing in memory; ``weight`` is [..., CI, G, CO]. The other arguments are those of
    `conv`.
    """
    rank = _spatial_rank(data.ndim - 3, strides, pads, dilation)
    (n, *size, groups, ci), (*kernel, wci, wgroups, co) = data.shape, weight.shape
    if (wgroups, wci) != (groups, ci):
        raise ValueError(
            f"grouped_conv{rank}d: data has {groups} groups of {ci} channels but the weights "
            f"expect {wgroups} of {wci}"
        )
    out = output_sizes(size, kernel, strides, pads, dilation)
    padded = _padded(data, pads, rank, 1, fill)
    taps = _taps(kernel)
    rc = te.reduce_axis(ci, "rc")

    def body(*at: te.Expr) -> te.Expr:
        where = window(at[1:-2], taps, strides, dilation)
        return te.sum(
            computed(padded[(at[0], *where, at[-2], rc)], sums)
            * computed(weight[(*taps, rc, at[-2], at[-1])], sums),
            axis=[*taps, rc],
        )

    return te.compute(
        (n, *out, groups, co),
        body,
        name=f"grouped_conv{rank}d",
        axis_names=["nn", *_POSITIONS[-rank:], "gg", "ff"],
        attrs={"layout_free": (weight.name,)} if layout_free else {},
    )


def _spatial_rank(
    rank: int, strides: Sequence[int], pads: Sequence[int], dilation: Sequence[int]
) -> int:
    if not 1 <= rank <= MAX_SPATIAL:
        raise ValueError(f"a convolution has one to {MAX_SPATIAL} spatial axes, not {rank}")
    if not len(strides) == len(dilation) == len(pads) // 2 == rank:
        raise ValueError(f"{rank} spatial axes need {rank} strides and dilations, {2 * rank} pads")
    return rank


def _taps(kernel: Sequence[Extent]) -> tuple[te.Axis, ...]:
    names = _TAPS[-len(kernel) :]
    return tuple(te.reduce_axis(k, name) for k, name in zip(kernel, names, strict=True))


def window(
    at: Sequence[te.Expr], taps: Sequence[te.Axis], strides: Sequence[int], dilation: Sequence[int]
) -> list[te.Expr]:
    """Where the window of each output position reads, one index per spatial axis."""
    return [i * s + r * d for i, r, s, d in zip(at, taps, strides, dilation, strict=True)]


def _padded(data: te.Tensor, pads: Sequence[int], rank: int, first: int, fill: float) -> te.Tensor:
    """``data`` with ``fill`` around its spatial axes, which start at dimension ``first``."""
    before, after = [0] * data.ndim, [0] * data.ndim
    before[first : first + rank], after[first : first + rank] = pads[:rank], pads[rank:]
    return pad(data, before, after, fill, name="pad_temp", prefix="i")
