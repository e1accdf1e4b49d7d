"""Transposed convolutions, by phases: no zeros are inserted, and nothing is added up in memory.

Along an axis of stride s, output position o = s*y + p reads the taps k with k = o + lead (mod s)
alone, ``lead`` being the padding at the start. So for each phase p an ordinary convolution of
stride 1 remains, of every s-th tap; the phases are dimensions of the result between the positions:

    out[y*s + p] = sum over r: x[y + (p + lead) // s - (R - 1) + r] * w[(p + lead) % s + s*(R-1-r)]

with R = ceil(K / s) taps. A result [N, H, s, W, s, C] has in memory the order of [N, H*s, W*s, C].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework import te
from tilework.index.extents import Extent, known_shape
from tilework.ops.pad import pad
from tilework.ops.storage import computed

_POSITIONS = ("zz", "yy", "xx")
_PHASES = ("pz", "py", "px")
_TAPS = ("rz", "ry", "rx")

KINDS = ("plain", "grouped", "depthwise")


def phase_conv(
    data: te.Tensor,
    weight: te.Tensor,
    strides: Sequence[int],
    lead: Sequence[int],
    size: Sequence[int],
    kind: str = "plain",
    *,
    layout_free: bool = False,
) -> te.Tensor:
    """A transposed convolution with dimensions of its own for the phases.

    Args:
        data: feature maps [N, ..., CI]; [N, ..., G, CI] if grouped, [N, ..., C] if depthwise.
        weight: filters by phase [R..., CI, S..., CO], [R..., CI, S..., G, CO] or [R..., S..., C];
            see `phase_weights`.
        strides: number of phases along each spatial axis.
        lead: padding at the start of each spatial axis of the result.
        size: positions of each phase along each spatial axis.
        kind: ``"plain"``, ``"grouped"`` or ``"depthwise"``.
        layout_free: the weights are constants, whose layout the schedule may change.

    Returns:
        [N, Y, S, ..., CO]: each spatial axis as positions and phases; [N, ..., G, CO] if grouped.
    """
    rank = len(strides)
    taps = [te.reduce_axis(n, _TAPS[d - rank]) for d, n in enumerate(weight.shape[:rank])]
    lengths, reaches = data.shape[1 : 1 + rank], known_shape(weight.shape[:rank])
    before, start = [0] * data.ndim, []
    after: list[Extent] = [0] * data.ndim
    for d, (s, first, n) in enumerate(zip(strides, lead, size, strict=True)):
        reach = reaches[d] - 1
        offset = first // s - reach
        before[1 + d] = max(0, -offset)
        start.append(max(0, offset))
        last = n - 1 + start[d] + (s - 1 + first % s) // s + reach
        after[1 + d] = max(0, last + 1 - before[1 + d] - lengths[d])
    padded = pad(data, before, after, name="pad_temp", prefix="i")
    tail = data.shape[1 + rank :]
    rc = None if kind == "depthwise" else te.reduce_axis(tail[-1], "rc")

    def body(*at: te.Expr) -> te.Expr:
        phases = at[2 : 2 + 2 * rank : 2]
        where = [
            y + _carry(p, s, first) + (tap + begin)
            for y, p, s, first, tap, begin in zip(
                at[1 : 1 + 2 * rank : 2], phases, strides, lead, taps, start, strict=True
            )
        ]
        channels = at[1 + 2 * rank :]
        if rc is None:
            element = padded[(at[0], *where, *channels)]
            return te.sum(
                computed(element) * computed(weight[(*taps, *phases, *channels)]), axis=taps
            )
        element = padded[(at[0], *where, *channels[:-1], rc)]
        factor = weight[(*taps, rc, *phases, *channels)]
        return te.sum(computed(element) * computed(factor), axis=[*taps, rc])

    spatial = [n for pair in zip(size, strides, strict=True) for n in pair]
    names = [n for pair in zip(_POSITIONS[-rank:], _PHASES[-rank:], strict=True) for n in pair]
    outer = {"plain": ["ff"], "grouped": ["gg", "ff"], "depthwise": ["cc"]}[kind]
    channels = weight.shape[-len(outer) :]
    return te.compute(
        (data.shape[0], *spatial, *channels),
        body,
        name=f"conv_transpose{rank}d",
        axis_names=["nn", *names, *outer],
        attrs={"layout_free": (weight.name,)} if layout_free else {},
    )


def _carry(phase: te.Expr, stride: int, lead: int) -> te.Expr:
    """``(phase + lead % stride) // stride``, linear where it can be."""
    rest = lead % stride
    if rest == 0:
        return te.const(0, "int32")
    return phase if stride == 2 else (phase + rest) // stride


def phase_weights(
    weight: te.Tensor,
    strides: Sequence[int],
    lead: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    kind: str,
) -> te.Tensor:
    """Filters [K..., CO of one group, CI] of a transposed convolution in the form by phases."""
    rank = len(strides)
    *kernel, co, ci = known_shape(weight.shape)
    taps = [phase_taps(k, s, d) for k, s, d in zip(kernel, strides, dilation, strict=True)]
    inputs = ci // groups

    def body(*ax: te.Expr) -> te.Expr:
        skip = 0 if kind == "depthwise" else 1
        phases = ax[rank + skip : 2 * rank + skip]
        channels = ax[2 * rank + skip :]
        inside: list[te.Expr] = []
        where: list[te.Expr] = []
        for d in range(rank):
            s = strides[d]
            spread = (phases[d] + lead[d] % s) % s + (taps[d] - 1 - ax[d]) * s
            if dilation[d] > 1:
                inside.append(te.equal(spread % dilation[d], 0))
                spread = spread // dilation[d]
            if taps[d] * s > dilation[d] * (kernel[d] - 1) + 1:
                inside.append(spread < kernel[d])
            where.append(spread)
        if kind == "depthwise":
            place = (te.const(0, "int32"), channels[0])
        elif kind == "grouped":
            place = (channels[1], channels[0] * inputs + ax[rank])
        else:
            place = (channels[0], ax[rank])
        element = weight[(*where, *place)]
        if not inside:
            return element
        return te.if_then_else(te.all(*inside), element, te.const(0.0, weight.dtype))

    tail = {"plain": (co,), "grouped": (groups, co), "depthwise": (ci,)}[kind]
    shape = (*taps, *(() if kind == "depthwise" else (inputs,)), *strides, *tail)
    return te.compute(shape, body, name="phase_weights")


def phase_weights_of(
    weight: np.ndarray,
    strides: Sequence[int],
    lead: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    kind: str,
) -> np.ndarray:
    """`phase_weights` of an array."""
    rank = len(strides)
    array = weight
    for d in range(rank):
        s, reach = strides[d], dilation[d] * (weight.shape[d] - 1) + 1
        taps = phase_taps(weight.shape[d], s, dilation[d])
        # axes so far: taps and phases of the axes before d; then axis d
        old = np.moveaxis(array, 2 * d, 0)
        spread = np.zeros((taps * s, *old.shape[1:]), weight.dtype)
        spread[: reach : dilation[d]] = old
        apart = spread.reshape(taps, s, *old.shape[1:])[::-1]
        apart = apart[:, [(p + lead[d]) % s for p in range(s)]]
        array = np.moveaxis(apart, (0, 1), (2 * d, 2 * d + 1))
    taps_first = (*range(0, 2 * rank, 2),)
    phases = (*range(1, 2 * rank, 2),)
    co, ci = weight.shape[-2:]
    if kind == "depthwise":
        array = array.reshape(*array.shape[: 2 * rank], ci)
        return np.ascontiguousarray(array.transpose(*taps_first, *phases, 2 * rank))
    array = array.reshape(*array.shape[: 2 * rank], co, groups, ci // groups)
    order = (*taps_first, 2 * rank + 2, *phases, 2 * rank + 1, 2 * rank)
    result = np.ascontiguousarray(array.transpose(*order))
    return result if kind == "grouped" else result.reshape(*result.shape[:-2], co)


def phase_taps(kernel: int, stride: int, dilation: int) -> int:
    """Number of taps that each phase has along one axis."""
    return -(-(dilation * (kernel - 1) + 1) // stride)
