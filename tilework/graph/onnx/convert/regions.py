"""Pooling of regions whose corners data say: RoiAlign, MaxRoiPool."""

from __future__ import annotations

import math

import numpy as np

from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes
from tilework.graph.onnx.convert.sampling import computed, rows_of_channels
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.onnx.values import Value, constant, room, value
from tilework.graph.operators import MAX_ELEMENTS


def _roi_align(c: OnnxContext, node: NodeProto) -> str:
    """Averages, or maxima, of samples that are interpolated on a grid in each bin of a region.

    A sample outside the feature map is 0; the taps are read as rows of channels.
    """
    a = attributes(node)
    x = value(c, node.input[0])
    if len(x.shape) != 4 or c.rank(node.input[1]) != 2 or c.shape(node.input[1])[1] != 4:
        raise Unsupported("it needs feature maps [N, C, H, W] and regions [R, 4]")
    n, channels, *size = x.shape
    rois = computed(value(c, node.input[1]))
    bins = (int(a.get("output_height", 1)), int(a.get("output_width", 1)))
    mode, ratio = a.get("mode", "avg"), int(a.get("sampling_ratio", 0))
    default = "half_pixel" if c.opset >= 16 else "output_half_pixel"
    shift = a.get("coordinate_transformation_mode", default)
    if mode not in ("avg", "max") or shift not in ("half_pixel", "output_half_pixel"):
        raise Unsupported(f"unknown mode '{mode}' or '{shift}'")
    if min(bins) < 1 or ratio < 0:
        raise Unsupported("its output and its sampling ratio must be positive")
    half = shift == "half_pixel"
    count = rois.shape[0]
    scaled = rois * float(a.get("spatial_scale", 1.0)) - (0.5 if half else 0.0)
    known: np.ndarray | None = None
    if not ratio:
        what = "with a sampling_ratio of 0, its list of regions"
        known = c.array(node.input[1], what).astype(rois.dtype)
    at: Value | None = None
    weight: Value | None = None
    sampled = np.ones((1,) * 7, bool)  # samples that a region has
    for d, (extent, pooled) in enumerate(zip(size, bins, strict=True)):
        column = (count, *(1,) * 6)  # [region, bin y, bin x, sample y, sample x, tap y, tap x]
        start = scaled.part(1, 1 - d, 1).reshape(*column)
        length = scaled.part(1, 3 - d, 1).reshape(*column) - start
        if not half:
            length = length.op("at_least", 1)
        width = length / pooled
        grid = np.array([ratio])  # how many samples, of all regions or of each one
        if known is not None:
            grid = _adaptive(known, d, pooled, float(a.get("spatial_scale", 1.0)), half)
        most = max(int(grid.max()), 1)
        if count * (sampled[0].size * most * math.prod(bins)) > MAX_ELEMENTS:
            raise Unsupported("its regions have too many samples")
        room(c, len(grid) * sampled[0].size * most)
        grid = grid.reshape(-1, *(1,) * 6)
        sampled = sampled & (_along(3 + d, most) < grid)
        share = (_along(3 + d, most) + 0.5) / np.maximum(grid, 1)
        place = start + width * (_along(1 + d, pooled) + share)
        outside = (place < -1) | place.op("greater", extent)
        place = place.clamped(0, extent - 1)
        low = place.op("floor")
        tap = low + _along(5 + d, 2)
        part = ((place - tap).op("abs") * -1 + 1).op("at_least", 0)
        part = part.constant(0).where(outside, part)
        weight = part if weight is None else weight * part
        index = tap.clamped(0, extent - 1).cast("int32")
        at = index if at is None else at * extent + index
    assert at is not None and weight is not None
    batch = value(c, node.input[2]).op("maximum", 0).op("minimum", n - 1).cast("int32")
    at = at + batch.reshape(count, *(1,) * 6) * math.prod(size)
    # a region without a sample is 0
    number = np.maximum(sampled.sum((3, 4), keepdims=True), 1)
    if mode == "avg":
        weight = weight * (sampled / number)
    flat = (count, math.prod(bins), -1)
    taps = computed(rows_of_channels(x).op("take", at.reshape(*flat), axis=0, negative=False))
    y = taps * weight.reshape(*flat, 1).cast(taps.dtype)
    if mode == "avg":
        y = y.op("reduce_sum", axes=(2,), keepdims=False)
    else:
        if not sampled.all():
            held = np.broadcast_to(sampled, at.sizes)
            held = held.reshape(len(held), flat[1], -1, 1)
            y = y.where(constant(c, held), -math.inf)
        y = y.op("reduce_max", axes=(2,), keepdims=False)
        if not sampled.any((3, 4)).all():
            y = y.where(constant(c, sampled.any((3, 4)).reshape(-1, 1, 1)), 0)
    y = y.cast(x.dtype).transpose(0, 2, 1)
    return y.reshape(count, channels, *bins).name


def _along(dim: int, extent: int) -> np.ndarray:
    """Numbers from 0 along one of seven dimensions."""
    return np.arange(extent).reshape([-1 if d == dim else 1 for d in range(7)])


def _adaptive(rois: np.ndarray, d: int, pooled: int, scale: float, half: bool) -> np.ndarray:
    """How many samples each bin of a region has along a dimension."""
    kind = rois.dtype.type
    ends = rois * kind(scale) - kind(0.5 if half else 0.0)
    length = ends[:, 3 - d] - ends[:, 1 - d]
    if not half:
        length = np.maximum(length, kind(1))
    samples = np.ceil(length / kind(pooled))
    if not (samples < 2**20).all():
        raise Unsupported("its regions are too large")
    return np.asarray(samples, int)


def _max_roi_pool(c: OnnxContext, node: NodeProto) -> str:
    """Maxima of the bins of regions, whose borders are whole numbers; first of rows' parts.

    Every element of a map is asked whether it lies in the bin.
    """
    a = attributes(node)
    x = value(c, node.input[0])
    bins = tuple(a["pooled_shape"])
    if len(x.sizes) != 4 or len(bins) != 2 or min(bins) < 1:
        raise Unsupported("it needs feature maps [N, C, H, W] and a pooled_shape of two numbers")
    if c.rank(node.input[1]) != 2 or c.shape(node.input[1])[1] != 5:
        raise Unsupported("it needs regions [R, 5]")
    n, channels, height, width = x.sizes
    room(c, height + width)
    rois = computed(value(c, node.input[1]))
    count = rois.sizes[0]
    batch = rois.part(1, 0, 1).reshape(count).clamped(0, n - 1).cast("int32")
    corners = rois.part(1, 1, 4) * float(a.get("spatial_scale", 1.0))
    away = (corners.op("abs") + 0.5).op("floor")  # half numbers are rounded away from zero
    corners = (away * -1).where(corners < 0, away)
    (top, bottom), (left, right) = (
        _bins(corners, d, pooled, extent)
        for d, pooled, extent in zip((1, 0), bins, (height, width), strict=True)
    )
    maps = x.reshape(n, channels, height, 1, width).op("take", batch, axis=0, negative=False)
    column = rois.constant(np.arange(width).reshape(1, 1, 1, 1, width))
    shape = (count, 1, 1, bins[1], 1)
    inside = (column >= left.reshape(*shape)) & (column < right.reshape(*shape))
    y = maps.where(inside, -math.inf).op("reduce_max", axes=(4,), keepdims=False)
    row = column.constant(np.arange(height).reshape(1, 1, 1, height, 1))
    shape = (count, 1, bins[0], 1, 1)
    inside = (row >= top.reshape(*shape)) & (row < bottom.reshape(*shape))
    y = y.reshape(count, channels, 1, height, bins[1]).where(inside, -math.inf)
    y = y.op("reduce_max", axes=(3,), keepdims=False)
    empty = (bottom <= top).reshape(count, 1, bins[0], 1) | (right <= left).reshape(
        count, 1, 1, bins[1]
    )
    return y.constant(0).where(empty, y).name


def _bins(corners: Value, d: int, pooled: int, extent: int) -> tuple[Value, Value]:
    """First elements of the bins along a dimension, and those behind the last: [R, bins]."""
    start = corners.part(1, d, 1)
    length = (corners.part(1, d + 2, 1) - start + 1).op("at_least", 1) / pooled
    number = np.arange(pooled).reshape(1, pooled)
    first = (length * number).op("floor") + start
    behind = (length * (number + 1)).op("ceil") + start
    return first.clamped(0, extent), behind.clamped(0, extent)


CONVERTERS: dict[str, Converter] = {
    "MaxRoiPool": _max_roi_pool,
    "RoiAlign": _roi_align,
}
