"""Shape inference: the output shape of every operator, and the checks that its inputs fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]

# index arithmetic is 32 bits wide; no sensible network comes near this many elements in one value
MAX_ELEMENTS = 2**30

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
GROUPED = tuple(f"grouped_{op}" for op in CONVOLUTIONS)
MAX_POOLS = ("max_pool1d", "max_pool2d", "max_pool3d")
AVG_POOLS = ("avg_pool1d", "avg_pool2d", "avg_pool3d")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
UNARY = ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "abs", "erf", "floor", "ceil")


def infer(op: str, shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    """Output shape of ``op`` applied to inputs of ``shapes``.

    Raises:
        ValueError: unknown operator, or inputs that do not fit it; the message says why.
    """
    if op not in _RULES:
        raise ValueError(f"unknown operator '{op}'")
    shape = tuple(int(n) for n in _RULES[op](shapes, attrs))
    if any(n <= 0 for n in shape):
        raise ValueError(f"the result would have shape {list(shape)}")
    if math.prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"the result of shape {list(shape)} is too large")
    return shape


def spatial_rank(op: str) -> int:
    """Number of spatial axes in the name of a convolution or pooling operator."""
    return int(op[-2])


def maps_order(rank: int, layout: str) -> tuple[int, ...]:
    """The permutation that brings feature maps of ``rank`` dimensions to ``layout``.

    ``NHWC`` stands for channels last and ``NCHW`` for channels first, whatever the rank.
    """
    inner = tuple(range(1, rank - 1))
    if layout == "NHWC":
        return (0, *(d + 1 for d in inner), 1)
    return (0, rank - 1, *inner)


def weights_order(rank: int, layout: str) -> tuple[int, ...]:
    """The permutation that brings convolution weights of ``rank`` dimensions to ``layout``.

    From outputs, inputs, taps to taps, inputs, outputs, or back.
    """
    if layout == "NHWC":
        return (*range(2, rank), 1, 0)
    return (rank - 1, rank - 2, *range(rank - 2))


def _channels_last(shape: Shape, attrs: Attrs) -> Shape:
    """The extents of feature maps with the channels moved to the end."""
    if len(shape) < 3:
        raise ValueError(f"expected 3 dimensions or more, got {len(shape)}")
    if attrs["layout"] not in ("NHWC", "NCHW"):
        raise ValueError(f"unknown layout '{attrs['layout']}'; known: NHWC, NCHW")
    return shape if attrs["layout"] == "NHWC" else (shape[0], *shape[2:], shape[1])


def _as_declared(shape: Shape, attrs: Attrs) -> Shape:
    """Inverse of `_channels_last`."""
    if attrs["layout"] == "NHWC":
        return shape
    return (shape[0], shape[-1], *shape[1:-1])


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """NumPy's broadcast shape of ``shapes``."""
    rank = max(len(s) for s in shapes)
    out = []
    for column in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        extents = {e for e in column if e != 1}
        if len(extents) > 1:
            raise ValueError("the shapes do not broadcast")
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def _window(size: Shape, kernel: Sequence[int], attrs: Attrs) -> Shape:
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


def _conv(rank: int) -> Callable[[Sequence[Shape], Attrs], Shape]:
    def rule(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
        x, w = shapes
        groups = attrs.get("groups", 1)
        for what, shape in (("data", x), ("weights", w)):
            if len(shape) != rank + 2:
                raise ValueError(f"the {what} have {len(shape)} dimensions, expected {rank + 2}")
        n, *size, c = _channels_last(x, attrs)
        nhwc = attrs["layout"] == "NHWC"
        *kernel, ci, co = w if nhwc else (*w[2:], w[1], w[0])
        if groups < 1 or c % groups or co % groups:
            raise ValueError(f"{groups} groups do not divide {c} input and {co} output channels")
        if ci != c // groups:
            whose = f"each of {groups} groups" if groups > 1 else "the data"
            raise ValueError(f"{whose} has {c // groups} channels but the weights expect {ci}")
        return _as_declared((n, *_window(tuple(size), kernel, attrs), co), attrs)

    return rule


def _grouped_conv(rank: int) -> Callable[[Sequence[Shape], Attrs], Shape]:
    def rule(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
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
        return (n, *_window(tuple(size), kernel, attrs), groups, co)

    return rule


def _pool(rank: int) -> Callable[[Sequence[Shape], Attrs], Shape]:
    def rule(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
        if len(shapes[0]) != rank + 2:
            raise ValueError(f"the data has {len(shapes[0])} dimensions, expected {rank + 2}")
        n, *size, c = _channels_last(shapes[0], attrs)
        out = _window(tuple(size), attrs["kernel"], attrs)
        dilation = attrs.get("dilation", (1,) * rank)
        for d, kernel in enumerate(attrs["kernel"]):
            reach = dilation[d] * (kernel - 1) + 1
            if max(attrs["pads"][d], attrs["pads"][d + rank]) >= reach:
                raise ValueError("the padding is as large as the window")
        return _as_declared((n, *out, c), attrs)

    return rule


def _global_pool(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    n, *size, c = _channels_last(shapes[0], attrs)
    return _as_declared((n, *(1 for _ in size), c), attrs)


def _matmul(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    a, b = shapes
    if len(a) != 2 or len(b) != 2:
        raise ValueError("both operands must be matrices")
    k, m = a if attrs.get("transpose_a") else a[::-1]
    n, kb = b if attrs.get("transpose_b") else b[::-1]
    if k != kb:
        raise ValueError(f"the operands disagree on the summed extent: {k} and {kb}")
    return (m, n)


def _dense(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    return _matmul(shapes, {"transpose_b": True})


def _batch_norm(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    x, *stats = shapes
    channels = x[attrs["axis"]]
    if any(s != (channels,) for s in stats) or len(stats) != 4:
        raise ValueError(f"gamma, beta, mean and variance must have shape [{channels}]")
    return x


def _reshape(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    shape = tuple(attrs["shape"])
    if math.prod(shape) != math.prod(shapes[0]):
        raise ValueError(f"cannot reshape {list(shapes[0])} to {list(shape)}")
    return shape


def _transpose(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    perm = attrs["perm"]
    if sorted(perm) != list(range(len(shapes[0]))):
        raise ValueError(f"{list(perm)} is not a permutation of {len(shapes[0])} dimensions")
    return tuple(shapes[0][p] for p in perm)


def _concat(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    axis = attrs["axis"] % len(shapes[0])
    rests = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rests) != 1 or len({len(s) for s in shapes}) != 1:
        raise ValueError(f"the inputs differ in more than dimension {axis}")
    first = shapes[0]
    return (*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :])


def _pad(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    around = zip(attrs["before"], shapes[0], attrs["after"], strict=True)
    if min((*attrs["before"], *attrs["after"])) < 0:
        raise ValueError("negative padding (cropping) is not supported")
    return tuple(b + n + a for b, n, a in around)


def _softmax(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    if not -len(shapes[0]) <= attrs["axis"] < len(shapes[0]):
        raise ValueError(f"axis {attrs['axis']} does not exist")
    return shapes[0]


def _same(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (x,) = shapes
    return x


def _broadcast(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    a, b = shapes
    return broadcast((a, b))


_RULES: dict[str, Callable[[Sequence[Shape], Attrs], Shape]] = {
    **{op: _conv(spatial_rank(op)) for op in CONVOLUTIONS},
    **{op: _grouped_conv(spatial_rank(op)) for op in GROUPED},
    **{op: _pool(spatial_rank(op)) for op in (*MAX_POOLS, *AVG_POOLS)},
    "dense": _dense,
    "matmul": _matmul,
    "global_avg_pool": _global_pool,
    "batch_norm": _batch_norm,
    "softmax": _softmax,
    "reshape": _reshape,
    "transpose": _transpose,
    "concat": _concat,
    "pad": _pad,
    "relu": _same,
    "clip": _same,
    "identity": _same,
    **dict.fromkeys(BINARY, _broadcast),
    **dict.fromkeys(UNARY, _same),
}
