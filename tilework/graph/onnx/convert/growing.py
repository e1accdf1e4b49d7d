"""Resizing of a dimension that a run brings.

Where an element comes from hangs on its own place and the scale alone, in the coordinates that
most networks use. So the table of the longest dimension holds those of all others: they are its
first rows. What these say beyond the end of a shorter dimension is brought to its end where it is
read.

Where a run decides the scale, too, it computes the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilework.dtypes import NARROW_FLOATS
from tilework.graph.onnx.context import OnnxContext, Unsupported
from tilework.graph.onnx.shares import share_of
from tilework.graph.onnx.values import Value, arange
from tilework.index.extents import Extent
from tilework.index.symbols import range_of
from tilework.ops.sampling import TIE, Sampling, table

_MOST_TAPS = 128  # elements, gathered one by one, that one of the result may be made of
_MOST_TERMS = 1024  # up to so many all of them are multiplied, most by 0
_BY_PLACE = ("asymmetric", "half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn")


def scaled(extent: Extent, scale: float) -> Extent:
    """The new extent of a dimension.

    Raises:
        Unsupported: it is none that follows exactly.
    """
    share = share_of(extent).times(share_of(float(np.float32(scale))))
    if share is None:
        raise Unsupported(f"{scale} times {extent} is not known exactly before a run")
    return share.floor


def grown(
    c: OnnxContext, x: str, dim: int, extent: Extent, scale: float, sampling: Sampling, name: str
) -> str:
    """``x`` with another extent of one dimension.

    Raises:
        Unsupported: other coordinates, or weights that hang on where the dimension ends.
    """
    size = c.b.shape(x)[dim]
    if sampling.coordinates not in _BY_PLACE or sampling.exclude_outside:
        raise Unsupported(
            f"'{sampling.coordinates}' of a dimension {size} that a run brings is not supported"
        )
    if sampling.coordinates == "pytorch_half_pixel" and range_of(extent)[0] < 2:
        raise Unsupported(f"its result may have one element where {size} is the least")
    try:
        t = table(sampling, range_of(size)[1], range_of(extent)[1], scale)
    except ValueError as e:
        raise Unsupported(str(e)) from e
    used = np.flatnonzero((t.weights != 0).any(0))
    positions, weights = t.positions[:, used], t.weights[:, used]
    if weights.shape[1] == 1 and (weights == 1).all():
        places, whole = positions[:, 0], math.floor(scale)
        if whole == scale and (places == np.arange(len(places)) // whole).all():
            factors = [1] * len(c.b.shape(x))
            factors[dim] = whole
            return c.op("repeat", x, name=name, factors=tuple(factors))
        at = _first(c, places, extent)
        return c.op("take", x, at, name=name, axis=dim, negative=False)
    dtype = c.b.types[x].dtype
    if not dtype.startswith(("float", "bfloat")):
        raise Unsupported(f"values of {dtype} cannot be interpolated")
    kind = "float32" if dtype in NARROW_FLOATS else dtype
    at, share = _first(c, positions, extent), _first(c, weights.astype(kind), extent)
    op = "resample" if weights.shape[1] <= 2 else "resample_sum"
    return c.op(op, x, at, share, name=name, axis=dim)


def stretched(
    c: OnnxContext, x: str, dim: int, extent: Extent, sampling: Sampling, name: str
) -> str:
    """``x`` with another extent of one dimension, in a proportion that a run decides.

    Raises:
        Unsupported: the rules of interpolation are others than the usual ones.
    """
    size, dtype = c.b.shape(x)[dim], c.b.types[x].dtype
    place = _places(c, size, extent, sampling.coordinates)
    if sampling.kind == "nearest":
        if sampling.nearest not in _ROUNDED:
            raise Unsupported(f"'{sampling.nearest}' of a dimension {size} that a run brings")
        at = _ROUNDED[sampling.nearest](place).reshape(extent).cast("int32")
        return c.op("take", x, at.name, name=name, axis=dim, negative=False)
    if not dtype.startswith(("float", "bfloat")):
        raise Unsupported(f"values of {dtype} cannot be interpolated")
    kind = "float32" if dtype in NARROW_FLOATS else dtype
    if sampling.kind == "linear" and not sampling.antialias:
        place = place.clamped(0, size - 1)
        low = place.op("floor")
        at, share = low + np.array([[0, 1]]), (place - low) * np.array([[-1, 1]])
        share = share + np.array([[1, 0]])
    else:
        least, most = range_of(extent)[0], range_of(size)[1]
        widest = max(most / max(least, 1), 1) if sampling.antialias else 1
        if widest > 1 and sampling.exclude_outside and most <= _MOST_TERMS and kind == dtype:
            every = _shares(place, arange(c, (1, size), axis=1, dtype="float32"), size, sampling)
            letters = "abcdefgh"[: len(c.b.shape(x))]
            equation = f"{letters},z{letters[dim]}->{letters.replace(letters[dim], 'z')}"
            return c.op("einsum", x, every.cast(kind).name, name=name, equation=equation)
        first = math.floor(-_REACH[sampling.kind] * widest) + 1
        if 2 - 2 * first > _MOST_TAPS:
            raise Unsupported(
                f"'antialias' of a dimension {size} that a run brings to {extent}: up to "
                f"{2 - 2 * first} elements would count for one, more than {_MOST_TAPS}"
            )
        at = place.op("ceil") + np.arange(first - 1, 1 - first)[None]
        share = _shares(place, at, size, sampling)
    op = "resample" if share.shape[1] == 2 else "resample_sum"
    return c.op(op, x, at.cast("int32").name, share.cast(kind).name, name=name, axis=dim)


def _shares(place: Value, at: Value, size: Extent, sampling: Sampling) -> Value:
    """What elements count for places that lie among them, [extent, elements]."""
    distance, a = (place - at).op("abs"), sampling.cubic_a
    if sampling.antialias:
        extent = place.shape[0]
        distance = distance * (place.operand(extent) / place.operand(size)).op("minimum", 1)
    if sampling.kind == "linear":
        share = (1 - distance).op("maximum", 0)
    else:  # Keys' kernel
        near = (distance * (a + 2) - (a + 3)) * distance * distance + 1
        far = ((distance * a - 5 * a) * distance + 8 * a) * distance - 4 * a
        share = near.where(distance <= 1, far.where(distance < 2, 0))
    if sampling.exclude_outside:
        share = share.where((at >= 0) & (at <= at.operand(size - 1)), 0)
    if sampling.exclude_outside or sampling.antialias:
        share = share / share.op("reduce_sum", axes=(1,), keepdims=True)
    return share


_REACH = {"linear": 1, "cubic": 2}  # how far elements count that are as far apart as results
_ROUNDED: dict[str, Callable[[Value], Value]] = {
    "ceil": lambda x: x.op("ceil"),
    "floor": lambda x: x.op("floor"),
    "round_prefer_ceil": lambda x: (x + (0.5 + TIE)).op("floor"),
    "round_prefer_floor": lambda x: (x - 0.5).op("ceil"),
}


def _places(c: OnnxContext, size: Extent, extent: Extent, mode: str) -> Value:
    """Where each element of the result lies in the input, [extent, 1]; see `coordinates`."""
    at = arange(c, (extent, 1), dtype="float32")
    if mode == "align_corners":
        return at * (size - 1) / at.operand(extent - 1).op("maximum", 1)
    scale = at.operand(extent) / at.operand(size)
    if mode == "asymmetric":
        return at / scale
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    if mode == "tf_crop_and_resize":
        raise Unsupported(f"a region of a dimension {size} that a run brings")
    place = (at + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel" and range_of(extent)[0] < 2:
        return place.where(at.operand(extent) > 1, 0)
    return place


def _first(c: OnnxContext, rows: np.ndarray, count: Extent) -> str:
    """The first rows of a table."""
    whole = c.b.constant(np.ascontiguousarray(rows), "table")
    begin, stride = (0,) * rows.ndim, (1,) * rows.ndim
    size = (count, *rows.shape[1:])
    return c.op("slice", whole, begin=begin, size=size, stride=stride)
