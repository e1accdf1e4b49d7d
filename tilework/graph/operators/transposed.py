"""Transposed convolutions.

    conv_transpose2d(x, w; strides, pads, dilation, output_padding, groups, layout)

with weights [CI, CO of one group, K...] in layout ``NCHW``, [K..., CO of one group, CI] in
``NHWC``. A pass turns it into ``phase_conv2d`` of ``phase_weights``: `tilework.ops.transposed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilework import ops, te
from tilework.graph.operators.base import FLOATS, Attrs, Operator, Pattern, Shape, declared, shaped
from tilework.graph.operators.layouts import as_declared, channels_last, require_dimensions
from tilework.index.extents import known_shape
from tilework.ops.transposed import phase_taps

TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
PHASED = ("phase_conv1d", "phase_conv2d", "phase_conv3d")

_Rule = Callable[[Sequence[Shape], Attrs], Shape]


def _conv_transpose(rank: int, shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    x, w = shapes
    groups = attrs.get("groups", 1)
    require_dimensions(rank + 2, data=x, weights=w)
    n, *size, c = channels_last(x, attrs)
    *kernel, co, ci = w if attrs["layout"] == "NHWC" else (*w[2:], w[1], w[0])
    if ci != c:
        raise ValueError(f"the data has {c} channels but the weights expect {ci}")
    if groups < 1 or c % groups:
        raise ValueError(f"{groups} groups do not divide {c} input channels")
    strides, pads, dilation = attrs["strides"], attrs["pads"], attrs["dilation"]
    more = attrs["output_padding"]
    if not len(strides) == len(dilation) == len(more) == rank or len(pads) != 2 * rank:
        raise ValueError(
            f"strides, pads, dilation and output_padding do not fit {rank} spatial axes"
        )
    if min(*strides, *dilation) < 1 or min(*pads, *more) < 0:
        raise ValueError("strides and dilation must be positive, padding not negative")
    if max(*strides, *dilation, *pads, *more) > 2**20:
        raise ValueError("strides, dilation or padding are too large")
    out = tuple(
        (m - 1) * s + d * (k - 1) + 1 - pads[i] - pads[i + rank] + extra
        for i, (m, s, d, k, extra) in enumerate(
            zip(size, strides, dilation, kernel, more, strict=True)
        )
    )
    return as_declared((n, *out, co * groups), attrs)


def _phase_conv(rank: int, shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    x, w = shapes
    tail = w[rank + (0 if attrs["kind"] == "depthwise" else 1) + rank :]
    pairs = zip(attrs["size"], attrs["strides"], strict=True)
    return (x[0], *(n for pair in pairs for n in pair), *tail)


def _phase_weights(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (w,) = shapes
    *kernel, co, ci = w
    groups, kind = attrs["groups"], attrs["kind"]
    taps = [
        phase_taps(k, s, d)
        for k, s, d in zip(known_shape(kernel), attrs["strides"], attrs["dilation"], strict=True)
    ]
    tail = {"plain": (co,), "grouped": (groups, co), "depthwise": (ci,)}[kind]
    inner = () if kind == "depthwise" else (ci // groups,)
    return (*taps, *inner, *attrs["strides"], *tail)


def _declare_phase_conv(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.phase_conv(
        t[0], t[1], a["strides"], a["lead"], a["size"], a["kind"], layout_free=free
    )


OPERATORS = (
    *(
        Operator(op, shaped(partial(_conv_transpose, rank), FLOATS), None, Pattern.OPAQUE)
        for rank, op in enumerate(TRANSPOSED, 1)
    ),
    *(
        Operator(
            op, shaped(partial(_phase_conv, rank), FLOATS), _declare_phase_conv, Pattern.ANCHOR
        )
        for rank, op in enumerate(PHASED, 1)
    ),
    Operator(
        "phase_weights",
        shaped(_phase_weights, FLOATS),
        declared(ops.phase_weights, "strides", "lead", "dilation", "groups", "kind"),
        Pattern.INJECTIVE,
    ),
)
