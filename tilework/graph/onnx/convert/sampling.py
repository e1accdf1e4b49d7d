"""Interpolation at places that data say: GridSample, DeformConv.

All come down to one sum: taps of the feature map around each place, times weights. The taps are
read as rows of channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilework.dtypes import NARROW_FLOATS
from tilework.frozen import frozen
from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes, optional
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Operand, Value, arange, room, value
from tilework.graph.operators.base import FLOATS
from tilework.index.extents import Extent, known, known_shape, shape_text
from tilework.index.symbols import Symbolic, same

_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # names of operator set 16
_PADDING = ("zeros", "border", "reflection")
_OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
_REACH = 2  # of the cubic kernel, in elements
_CUBIC_A = -0.75
# weights as polynomials of a tap's distance: coefficients of each tap, the highest power first
_NEAR = (_CUBIC_A + 2, -(_CUBIC_A + 3), 0, 1)
_FAR = (_CUBIC_A, -5 * _CUBIC_A, 8 * _CUBIC_A, -4 * _CUBIC_A)
_WEIGHTS = {"linear": ((-1, 1), (-1, 1)), "cubic": (_FAR, _NEAR, _NEAR, _FAR)}


@frozen
class Rules:
    """How places between and outside the elements are read.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        padding: what lies outside: ``zeros``, ``border`` (the nearest element) or ``reflection``.
        align_corners: whether what is reflected at, or clamped to, is the centre of the outermost
            elements instead of their edges.
    """

    mode: str
    padding: str = "zeros"
    align_corners: bool = False

    def __post_init__(self) -> None:
        for given, names in ((self.mode, tuple(_OFFSETS)), (self.padding, _PADDING)):
            if given not in names:
                raise Unsupported(f"unknown mode '{given}'; known: {', '.join(names)}")


def computed(x: Value) -> Value:
    """``x`` in the type that it is computed in."""
    return x.cast("float32") if x.dtype in NARROW_FLOATS else x


def rows_of_channels(x: Value, groups: int = 1) -> Value:
    """Feature maps [N, C, ...] as rows [N * places * groups, C / groups]."""
    n, channels = x.shape[:2]
    flat = x.reshape(n, channels, -1).transpose(0, 2, 1)
    return flat.reshape(-1, channels // groups)


def sampled(rows: Value, size: Sequence[Extent], places: Sequence[Value], rules: Rules) -> Value:
    """Interpolated rows of channels.

    Args:
        rows: of feature maps, see `rows_of_channels`.
        size: of the feature maps.
        places: a coordinate in elements for each dimension of ``size``, all of one shape
            [N, P, G], where G is the number of groups of channels.
        rules: of interpolation.

    Returns:
        [N, P, G, C / G].
    """
    n, p, groups = *places[0].shape[:2], known(places[0].shape[2])
    rank, offsets = len(size), _OFFSETS[rules.mode]
    at: Value | None = None  # row of each tap, without the batch and the group
    weight: Value | None = None
    inside: Value | None = None
    for d, (extent, given) in enumerate(zip(size, places, strict=True)):
        along = [1] * rank
        along[d] = len(offsets)
        place = given.reshape(n, p, groups, *(1,) * rank)
        if rules.mode == "nearest":
            place = place.op("round")
        place = _brought_in(place, extent, rules)
        tap = place
        if rules.mode != "nearest":
            tap = place.op("floor") + np.reshape(offsets, along)
            share = _polynomial((place - tap).op("abs"), rules.mode, along)
            weight = share if weight is None else weight * share
        if rules.padding == "zeros":
            within = (tap >= 0) & tap.op("less_equal", extent - 1)
            inside = within if inside is None else inside & within
        elif rules.padding == "reflection" and rules.mode == "cubic":
            tap = _reflected(tap, extent, rules.align_corners)
        index = tap.clamped(0, extent - 1).cast("int32")  # no place of data is read as it is
        at = index if at is None else at * extent + index
    assert at is not None
    group = np.arange(groups).reshape(1, 1, groups, *(1,) * rank)
    at = (at + _firsts(rows.c, n, math.prod(size), rank)) * groups + group
    taps = rows.op("take", at.reshape(n, p, groups, -1), axis=0, negative=False)
    if weight is not None:
        taps = computed(taps)
        taps = taps * weight.reshape(n, p, groups, -1, 1).cast(taps.dtype)
    if inside is not None:  # also where what is read in its place is infinite
        taps = taps.where(inside.reshape(n, p, groups, -1, 1), 0)
    if weight is None:
        return taps.reshape(n, p, groups, -1)
    return taps.op("reduce_sum", axes=(3,), keepdims=False).cast(rows.dtype)


def _firsts(c: OnnxContext, n: Extent, size: Extent, rank: int) -> Operand:
    """Where each of n feature maps begins, of so many rows; [n, 1, 1, ...]."""
    ones = (1,) * (2 + rank)
    if isinstance(n, Symbolic) or isinstance(size, Symbolic):
        return arange(c, (n, *ones)) * size
    room(c, n)
    return np.arange(n).reshape(n, *ones) * size


def _polynomial(distance: Value, mode: str, shape: Sequence[int]) -> Value:
    """The weights of taps at these distances."""
    table = np.array(_WEIGHTS[mode]).T
    total: Value | None = None
    for row in table[1:]:
        factor = table[0].reshape(shape) if total is None else total
        total = distance * factor + row.reshape(shape)
    assert total is not None
    return total


def _brought_in(place: Value, extent: Extent, rules: Rules) -> Value:
    """The coordinate that is read; each tap of a cubic one is brought in by itself."""
    if rules.padding == "reflection":
        return _reflected(place, extent, rules.align_corners)
    if rules.padding == "border":
        beyond = _REACH if rules.mode == "cubic" else 0  # behind it all taps are alike
        return place.clamped(-beyond, extent - 1 + beyond)
    return place


def _reflected(place: Value, extent: Extent, align_corners: bool) -> Value:
    """``place`` thrown back by the borders until it is between them."""
    low, length = (0.0, extent - 1) if align_corners else (-0.5, extent)
    if length == 0:
        return place * 0
    high = low + length if isinstance(length, int) else place.constant(low) + length
    beyond = (place - low).op("abs")
    times = (beyond / length).op("floor")
    rest = beyond - times * length
    even = (times - (times * 0.5).op("floor") * 2) < 0.5
    inside = (rest + low).where(even, rest * -1 + high)
    return inside.clamped(low, high)  # without NaN


def _grid_sample(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    mode = a.get("mode", "linear")
    rules = Rules(
        _MODES.get(mode, mode), a.get("padding_mode", "zeros"), bool(a.get("align_corners", 0))
    )
    x, grid = value(c, node.input[0]), computed(value(c, node.input[1]))
    n, channels, *size = x.shape
    rank, out = len(size), grid.shape[1:-1]
    if not size or grid.shape != (n, *out, rank) or len(out) != rank:
        raise Unsupported(f"a grid {shape_text(grid.shape)} does not fit {shape_text(x.shape)}")
    if rules.mode != "nearest" and x.dtype not in FLOATS:
        raise Unsupported(f"values of {x.dtype} cannot be interpolated")
    places = []
    for d, extent in enumerate(size):  # the grid names the innermost dimension first
        g = grid.part(rank + 1, rank - 1 - d, 1).reshape(n, -1, 1)
        scaled = (g + 1) / 2 * (extent - 1) if rules.align_corners else ((g + 1) * extent - 1) / 2
        places.append(scaled)
    y = sampled(rows_of_channels(x), size, places, rules)
    return y.reshape(n, -1, channels).transpose(0, 2, 1).reshape(n, channels, *out).name


def _deform_conv(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x, w, offset = (value(c, i) for i in node.input[:3])
    n, channels, *size = x.shape
    channels, (many, per_group, *kernel) = known(channels), w.sizes
    rank, out = len(size), offset.shape[2:]
    groups, parts = int(a.get("group", 1)), int(a.get("offset_group", 1))
    strides = a.get("strides", (1,) * rank)
    pads = a.get("pads", (0,) * (2 * rank))
    dilation = a.get("dilations", (1,) * rank)
    taps = math.prod(kernel)
    fits = len(kernel) == len(out) == len(strides) == len(dilation) == rank > 0
    fits = fits and len(pads) == 2 * rank and min(groups, parts, *strides, *dilation) > 0
    if not fits or tuple(a.get("kernel_shape", kernel)) != tuple(kernel):
        raise Unsupported(f"kernel, strides, dilations and pads do not fit {rank} spatial axes")
    if channels != per_group * groups or many % groups or channels % parts:
        raise Unsupported(f"weights {list(w.sizes)} in {groups} groups do not fit {list(x.shape)}")
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    around = zip(size, pads[:rank], pads[rank:], reach, strides, strict=True)
    wanted = [(e + b + f - r) // s + 1 for e, b, f, r, s in around]
    if not all(map(same, out, wanted)):
        raise Unsupported(f"offsets of shape {list(offset.shape)} do not fit {list(x.shape)}")
    if not all(map(same, offset.shape[:2], (n, parts * taps * rank))):
        raise Unsupported(f"offsets of shape {list(offset.shape)} do not fit {list(w.sizes)}")
    # [n, place and tap, part] of each dimension
    moved = computed(offset).reshape(n, parts, taps, rank, -1).transpose(3, 0, 4, 2, 1)
    places = []
    for d in range(rank):
        step = np.arange(kernel[d]) * dilation[d] - pads[d]
        step = step.reshape([-1 if e == d else 1 for e in range(rank)] + [1])
        along = [out[e] if e == d else 1 for e in range(rank)] + [1] * (rank + 1)
        begin = arange(c, tuple(along), d, step=strides[d], dtype=moved.dtype)
        place = moved.part(0, d, 1).reshape(n, *out, *kernel, parts) + (begin + step)
        places.append(place.reshape(n, -1, parts))
    y = computed(sampled(rows_of_channels(x, parts), size, places, Rules("linear")))
    y = y.reshape(n, -1, taps, parts, channels // parts)
    if optional(node, 4):
        mask = computed(value(c, node.input[4]))
        if len(mask.shape) != 2 + rank or not all(map(same, mask.shape, (n, parts * taps, *out))):
            raise Unsupported(f"a mask {list(mask.shape)} does not fit {list(offset.shape)}")
        y = y * mask.reshape(n, parts, taps, -1).transpose(0, 3, 2, 1).reshape(*y.shape[:4], 1)
    y = _products(y.cast(x.dtype).reshape(-1, taps, channels), w, groups)
    y = y.reshape(n, -1, many).transpose(0, 2, 1).reshape(n, many, *out)
    if optional(node, 3):
        y = y + value(c, node.input[3]).reshape(1, many, *(1,) * rank)
    return y.name


def _products(columns: Value, w: Value, groups: int) -> Value:
    """Columns [P, taps, C] times weights [O, C / groups, taps...]: [P, O]."""
    p, taps, channels = columns.shape[0], *known_shape(columns.shape[1:])
    many = w.sizes[0]
    if groups == 1:
        weights = w.reshape(many, channels, taps).transpose(0, 2, 1).reshape(many, -1)
        return columns.reshape(p, -1).op("dense", weights)
    grouped = columns.reshape(p, taps, groups, -1)
    weights = w.reshape(groups, many // groups, channels // groups, taps)
    y = grouped.op("einsum", weights, equation="ptgc,goct->pgo")
    return y.reshape(p, many)


CONVERTERS: dict[str, Converter] = {
    "DeformConv": _deform_conv,
    "GridSample": _grid_sample,
}
