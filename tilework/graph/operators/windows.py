"""Sliding windows: convolutions and pooling over one to three spatial axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilework import ops, te
from tilework.graph.operators.base import (
    FLOATS,
    NUMBERS,
    Attrs,
    Declare,
    Operator,
    Pattern,
    Shape,
    ValueType,
    common_dtype,
    declared,
    shaped,
    summed,
)
from tilework.graph.operators.layouts import as_declared, channels_last, require_dimensions
from tilework.index.extents import Extent, known, known_shape
from tilework.index.symbols import Symbolic

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
GROUPED = tuple(f"grouped_{op}" for op in CONVOLUTIONS)
MAX_POOLS = ("max_pool1d", "max_pool2d", "max_pool3d")
AVG_POOLS = ("avg_pool1d", "avg_pool2d", "avg_pool3d")
LP_POOLS = ("lp_pool1d", "lp_pool2d", "lp_pool3d")
POSITIONS = ("max_pool_positions1d", "max_pool_positions2d", "max_pool_positions3d")


def spatial_rank(op: str) -> int:
    """Number of spatial axes in the name of a convolution or pooling operator."""
    return int(op[-2])


# ---------------------------------------------------------------- types


def window(size: Shape, kernel: Sequence[int], attrs: Attrs) -> Shape:
    """Output positions of a sliding window along the spatial axes."""
    rank = len(size)
    strides, pads = attrs["strides"], attrs["pads"]
    dilation = attrs.get("dilation", (1,) * rank)
    if not len(strides) == len(dilation) == len(kernel) == rank or len(pads) != 2 * rank:
        raise ValueError(f"kernel, strides, pads and dilation do not fit {rank} spatial axes")
    numbers = (*kernel, *strides, *dilation)
    if min(numbers) < 1 or min(pads) < 0:
        raise ValueError("kernel, strides and dilation must be positive and pads not negative")
    if max(*numbers, *pads) > 2**20:
        raise ValueError("kernel, strides, dilation or pads are too large")
    out = []
    for d, extent in enumerate(size):
        around = pads[d] + pads[d + rank]
        reach = dilation[d] * (kernel[d] - 1) + 1
        if extent + around < reach:
            raise ValueError(
                f"the window of {reach} does not fit into {extent} + {around} padding"
            )
        out.append((extent + around - reach) // strides[d] + 1)
    return tuple(out)


def ceil_pads(
    size: Sequence[Extent],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Pads that make a rounded-down window count equal the rounded-up one.

    Raises:
        UnknownExtent: a run decides an extent, and by it whether a last window starts in the data.
    """
    rank = len(size)
    ends = []
    for d in range(rank):
        reach = dilation[d] * (kernel[d] - 1) + 1
        end = pads[d + rank]
        missing = (reach - (size[d] + pads[d] + end)) % strides[d]
        if isinstance(missing, Symbolic):  # as many as it may be give the same count
            missing = strides[d] - 1 if end + strides[d] <= reach else known(missing)
        starts_in_data = end + missing < reach
        ends.append(end + missing * starts_in_data)
    return (*pads[:rank], *ends)


def same_pads(size: Extent, reach: int, stride: int, upper: bool) -> tuple[int, int]:
    """Elements before and behind an axis, such that every stride-th has a window around it.

    Args:
        size: of the axis.
        reach: from a window's first tap to behind its last.
        upper: of an odd number the larger part is behind.

    Raises:
        UnknownExtent: a run decides the extent, and by it how many are before.
    """
    rest = size % stride

    def halves(rest: int) -> tuple[int, int]:
        total = max(reach - (rest or stride), 0)
        small, large = total // 2, total - total // 2
        return (small, large) if upper else (large, small)

    if not isinstance(rest, Symbolic):
        return halves(rest)
    before = {halves(n)[0] for n in range(stride)}
    if len(before) > 1:
        known(size)
    (start,) = before
    return start, reach - 1 - start  # behind, more than is needed gives no further window


def _conv(rank: int, shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    x, w = shapes
    groups = attrs.get("groups", 1)
    require_dimensions(rank + 2, data=x, weights=w)
    n, *size, c = channels_last(x, attrs)
    nhwc = attrs["layout"] == "NHWC"
    *kernel, ci, co = w if nhwc else (*w[2:], w[1], w[0])
    if groups < 1 or c % groups or co % groups:
        raise ValueError(f"{groups} groups do not divide {c} input and {co} output channels")
    if ci != c // groups:
        whose = f"each of {groups} groups" if groups > 1 else "the data"
        raise ValueError(f"{whose} has {c // groups} channels but the weights expect {ci}")
    return as_declared((n, *window(tuple(size), known_shape(kernel), attrs), co), attrs)


def _grouped_conv(rank: int, shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    x, w = shapes
    if len(x) != rank + 3 or len(w) != rank + 3:
        raise ValueError(f"data and weights must have {rank + 3} dimensions")
    n, *size, groups, c = x
    *kernel, ci, weight_groups, co = w
    if (groups, c) != (weight_groups, ci):
        raise ValueError(
            f"the data has {groups} groups of {c} channels but the weights expect "
            f"{weight_groups} of {ci}"
        )
    return (n, *window(tuple(size), known_shape(kernel), attrs), groups, co)


def _pool(rank: int, shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    if len(shapes[0]) != rank + 2:
        raise ValueError(f"the data has {len(shapes[0])} dimensions, expected {rank + 2}")
    n, *size, c = channels_last(shapes[0], attrs)
    out = window(tuple(size), attrs["kernel"], attrs)
    dilation = attrs.get("dilation", (1,) * rank)
    for d, kernel in enumerate(attrs["kernel"]):
        reach = dilation[d] * (kernel - 1) + 1
        before, after = attrs["pads"][d], attrs["pads"][d + rank]
        last = (out[d] - 1) * attrs["strides"][d]
        if before >= reach or (after >= reach and last >= size[d] + before):
            raise ValueError("the padding is as large as the window")
    return as_declared((n, *out, c), attrs)


def _positions(rank: int, types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    common_dtype(types, NUMBERS)
    return ValueType(_pool(rank, [t.shape for t in types], attrs), "int64")


def _lp_pool(rank: int, shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    if attrs["p"] < 1:
        raise ValueError(f"p is {attrs['p']}; it must be positive")
    return _pool(rank, shapes, attrs)


def _window_sums(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    n, *size = shapes[0]
    return (n, *window(tuple(size), attrs["kernel"], attrs))


def _adaptive(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    n, *size, c = channels_last(shapes[0], attrs)
    wanted = attrs["size"]
    if len(wanted) != len(size) or min(wanted) < 1:
        raise ValueError(f"cannot pool {list(size)} to {list(wanted)}")
    return as_declared((n, *wanted, c), attrs)


def _global_pool(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    n, *size, c = channels_last(shapes[0], attrs)
    return as_declared((n, *(1 for _ in size), c), attrs)


# ---------------------------------------------------------------- computations


def _declare_conv(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    window = (a["strides"], a["pads"], a["dilation"])
    sums, fill = a.get("sums", ""), a.get("fill", 0.0)
    if a.get("groups", 1) > 1:  # one channel each: the others became grouped convolutions
        return ops.depthwise_conv(t[0], t[1], *window, layout_free=free, sums=sums, fill=fill)
    last = a["layout"] == "NHWC"
    return ops.conv(
        t[0], t[1], *window, channels_last=last, layout_free=free, sums=sums, fill=fill
    )


def _declare_grouped(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    window = (a["strides"], a["pads"], a["dilation"])
    sums, fill = a.get("sums", ""), a.get("fill", 0.0)
    return ops.grouped_conv(t[0], t[1], *window, layout_free=free, sums=sums, fill=fill)


def _declare_adaptive(kind: str) -> Declare:
    return lambda a, t, free: ops.adaptive_pool(t[0], a["size"], kind)


_WINDOW = ("kernel", "strides", "pads", "dilation")


def _anchor(
    name: str,
    rule: Callable[[Sequence[Shape], Attrs], Shape],
    declare: Declare,
) -> Operator:
    return Operator(name, shaped(rule, FLOATS), declare, Pattern.ANCHOR)


_SUMMED = (*FLOATS, "int32")  # int32 is what quantised numbers are summed in


def _products(
    name: str, rule: Callable[[Sequence[Shape], Attrs], Shape], declare: Declare
) -> Operator:
    return Operator(name, summed(rule, _SUMMED), declare, Pattern.ANCHOR)


OPERATORS = (
    *(_products(op, partial(_conv, spatial_rank(op)), _declare_conv) for op in CONVOLUTIONS),
    *(_products(op, partial(_grouped_conv, spatial_rank(op)), _declare_grouped) for op in GROUPED),
    *(
        Operator(
            op,
            shaped(partial(_pool, spatial_rank(op)), NUMBERS),
            declared(ops.max_pool, *_WINDOW),
            Pattern.ANCHOR,
        )
        for op in MAX_POOLS
    ),
    *(
        Operator(
            op,
            partial(_positions, spatial_rank(op)),
            declared(ops.max_pool_positions, *_WINDOW, "columns_first"),
            Pattern.ANCHOR,
        )
        for op in POSITIONS
    ),
    *(
        _anchor(op, partial(_lp_pool, spatial_rank(op)), declared(ops.lp_pool, *_WINDOW, "p"))
        for op in LP_POOLS
    ),
    Operator(
        "window_sums",
        shaped(_window_sums, ("int32",)),
        declared(ops.window_sums, *_WINDOW),
        Pattern.ANCHOR,
    ),
    _anchor("adaptive_avg_pool", _adaptive, _declare_adaptive("avg")),
    _anchor("adaptive_max_pool", _adaptive, _declare_adaptive("max")),
    *(
        _anchor(
            op,
            partial(_pool, spatial_rank(op)),
            declared(ops.avg_pool, *_WINDOW, "count_include_pad", "surplus"),
        )
        for op in AVG_POOLS
    ),
    _anchor("global_avg_pool", _global_pool, declared(ops.global_avg_pool)),
)
