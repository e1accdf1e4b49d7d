"""Shape inference: the output shape of every operator, and the checks that its inputs fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]

# index arithmetic is 32 bits wide; no sensible network comes near this many elements in one value
MAX_ELEMENTS = 2**30

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


def to_nhwc(shape: Shape, layout: str) -> Shape:
    """The N, H, W, C extents of feature maps stored in ``layout``."""
    if len(shape) != 4:
        raise ValueError(f"expected 4 dimensions, got {len(shape)}")
    if layout not in ("NHWC", "NCHW"):
        raise ValueError(f"unknown layout '{layout}'; known: NHWC, NCHW")
    return shape if layout == "NHWC" else (shape[0], shape[2], shape[3], shape[1])


def from_nhwc(shape: Shape, layout: str) -> Shape:
    """Inverse of `to_nhwc`."""
    return shape if layout == "NHWC" else (shape[0], shape[3], shape[1], shape[2])


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


def _window(shape: Shape, kernel: Sequence[int], attrs: Attrs) -> tuple[int, int]:
    """Output positions along H and W of a sliding window."""
    dilation = attrs.get("dilation", (1, 1))
    top, left, bottom, right = attrs["pads"]
    numbers = (*kernel, *attrs["strides"], *dilation)
    if min(numbers) < 1 or min(top, left, bottom, right) < 0:
        raise ValueError("kernel, strides and dilation must be positive and pads not negative")
    if max(*numbers, top, left, bottom, right) > 2**20:
        raise ValueError("kernel, strides, dilation or pads are too large")
    out = []
    for d, around in ((0, top + bottom), (1, left + right)):
        reach = dilation[d] * (kernel[d] - 1) + 1
        if shape[1 + d] + around < reach:
            raise ValueError(
                f"the window of {reach} does not fit into {shape[1 + d]} + {around} padding"
            )
        out.append((shape[1 + d] + around - reach) // attrs["strides"][d] + 1)
    return out[0], out[1]


def _conv2d(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    x, w = shapes
    layout = attrs["layout"]
    if len(w) != 4:
        raise ValueError(f"the weights have {len(w)} dimensions, expected 4")
    n, h, wd, c = to_nhwc(x, layout)
    kh, kw, ci, co = w if layout == "NHWC" else (w[2], w[3], w[1], w[0])
    if ci != c:
        raise ValueError(f"the data has {c} channels but the weights expect {ci}")
    oh, ow = _window((n, h, wd, c), (kh, kw), attrs)
    return from_nhwc((n, oh, ow, co), layout)


def _pool(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    layout = attrs["layout"]
    n, h, w, c = to_nhwc(shapes[0], layout)
    kernel, dilation = attrs["kernel"], attrs.get("dilation", (1, 1))
    for d in range(2):
        reach = dilation[d] * (kernel[d] - 1) + 1
        if max(attrs["pads"][d], attrs["pads"][d + 2]) >= reach:
            raise ValueError("the padding is as large as the window")
    oh, ow = _window((n, h, w, c), kernel, attrs)
    return from_nhwc((n, oh, ow, c), layout)


def _global_pool(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    n, _, _, c = to_nhwc(shapes[0], attrs["layout"])
    return from_nhwc((n, 1, 1, c), attrs["layout"])


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
    "conv2d": _conv2d,
    "dense": _dense,
    "matmul": _matmul,
    "max_pool2d": _pool,
    "avg_pool2d": _pool,
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
