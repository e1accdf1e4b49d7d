"""ONNX's Resize and Upsample: one dimension after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilework.dtypes import NARROW_FLOATS, numpy_dtype
from tilework.frozen import frozen
from tilework.graph.onnx.context import Converter, OnnxContext, Unsupported, attributes, optional
from tilework.graph.onnx.convert.growing import grown, scaled, stretched
from tilework.graph.onnx.convert.indexing import taken
from tilework.graph.onnx.convert.slices import normal
from tilework.graph.onnx.protos import NodeProto
from tilework.graph.operators import MAX_ELEMENTS, Shape
from tilework.index.extents import Extent, known, known_shape
from tilework.index.symbols import Symbolic, exact_quotient, is_static
from tilework.ops.sampling import Sampling, Table, table

_UNROLLED = 2  # taps that are written out; more are a sum


@frozen
class _Axis:
    """What happens to one dimension: its new extent, the scale, the part that is stretched.

    The scale is None where only a run knows how many times the extent is the old one.
    """

    dim: int
    extent: Extent
    scale: float | None
    roi: tuple[float, float] = (0.0, 1.0)


def _resize(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x = c.value(node.input[0])
    shape = c.b.shape(x)
    if c.opset < 11:
        axes = _scaled(shape, range(len(shape)), _floats(c, node.input[1], "its scales"))
        sampling = _sampling(a, coordinates="asymmetric", nearest="simple")
        return resized(c, x, axes, sampling, node.output[0])
    dims = [normal(d, len(shape)) for d in a.get("axes", range(len(shape)))]
    sizes = c.extents(node.input[3], "its sizes") if optional(node, 3) else []
    scales = _floats(c, node.input[2], "its scales") if optional(node, 2) else []
    if bool(sizes) == bool(scales):
        raise Unsupported("it needs either sizes or scales")
    if sizes:
        axes = _sized(shape, dims, sizes, a.get("keep_aspect_ratio_policy", "stretch"))
    else:
        axes = _scaled(shape, dims, scales)
    crops = a.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if crops:
        roi = _floats(c, optional(node, 1), "its region") if optional(node, 1) else []
        axes = _cropped(axes, roi)
    sampling = _sampling(
        a,
        coordinates=a.get("coordinate_transformation_mode", "half_pixel"),
        nearest=a.get("nearest_mode", "round_prefer_floor"),
    )
    outside = float(a.get("extrapolation_value", 0.0)) if crops else None
    return resized(c, x, axes, sampling, node.output[0], outside)


def _upsample(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x = c.value(node.input[0])
    shape = c.b.shape(x)
    axes = _scaled(shape, range(len(shape)), _floats(c, node.input[1], "its scales"))
    sampling = _sampling(a, coordinates="asymmetric", nearest="floor")
    return resized(c, x, axes, sampling, node.output[0])


def _sampling(a: dict[str, Any], coordinates: str, nearest: str) -> Sampling:
    return Sampling(
        kind=a.get("mode", "nearest"),
        coordinates=coordinates,
        nearest=nearest,
        cubic_a=a.get("cubic_coeff_a", -0.75),
        antialias=bool(a.get("antialias", 0)),
        exclude_outside=bool(a.get("exclude_outside", 0)),
    )


def _floats(c: OnnxContext, name: str, what: str) -> list[float]:
    return [float(v) for v in c.array(name, what).reshape(-1)]


def _scaled(shape: Shape, dims: Sequence[int], scales: Sequence[float]) -> list[_Axis]:
    if len(scales) != len(dims):
        raise Unsupported(f"{len(scales)} scales for {len(dims)} dimensions")
    if not all(s > 0 and math.isfinite(s) for s in scales):
        raise Unsupported(f"its scales {list(scales)} make no sense")
    return [_Axis(d, _times(shape[d], s), s) for d, s in zip(dims, scales, strict=True)]


def _times(extent: Extent, scale: float) -> Extent:
    if isinstance(extent, Symbolic):
        return scaled(extent, scale)
    return math.floor(np.float32(extent) * np.float32(scale))


def _sized(shape: Shape, dims: Sequence[int], sizes: Sequence[Extent], policy: str) -> list[_Axis]:
    if len(sizes) != len(dims):
        raise Unsupported(f"{len(sizes)} sizes for {len(dims)} dimensions")
    ratios = [_ratio(n, shape[d]) for d, n in zip(dims, sizes, strict=True)]
    if policy == "stretch":
        return [_Axis(d, n, r) for d, n, r in zip(dims, sizes, ratios, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise Unsupported(f"unknown keep_aspect_ratio_policy '{policy}'")
    whole = [r for r in ratios if r is not None]
    if len(whole) < len(ratios):
        raise Unsupported(f"'{policy}' of sizes {list(sizes)} that a run brings")
    scale = min(whole) if policy == "not_larger" else max(whole)
    return [_Axis(d, math.floor(scale * known(shape[d]) + 0.5), scale) for d in dims]


def _ratio(size: Extent, extent: Extent) -> float | None:
    """How many times a dimension becomes longer, if that is known."""
    if isinstance(size, int) and isinstance(extent, int):
        return size / extent
    whole = exact_quotient(size, extent)
    return float(whole) if isinstance(whole, int) else None


def _cropped(axes: Sequence[_Axis], roi: Sequence[float]) -> list[_Axis]:
    if len(roi) != 2 * len(axes):
        raise Unsupported(f"its region has {len(roi)} numbers for {len(axes)} dimensions")
    ends = zip(axes, roi[: len(axes)], roi[len(axes) :], strict=True)
    return [_Axis(a.dim, a.extent, a.scale, (start, end)) for a, start, end in ends]


def resized(
    c: OnnxContext,
    x: str,
    axes: Sequence[_Axis],
    sampling: Sampling,
    name: str,
    outside: float | None = None,
) -> str:
    """``x`` with new extents of some dimensions.

    Args:
        c: the import.
        x: a value of the network.
        axes: the dimensions; what is shrunk comes first, which costs least.
        sampling: the rules of interpolation.
        name: of the result.
        outside: the value of elements whose coordinates lie outside ``x``.
    """
    shape = c.b.shape(x)
    extents = {d: n for d, n in enumerate(shape)} | {a.dim: a.extent for a in axes}
    if 0 in extents.values():
        empty = known_shape(extents.values())
        return c.b.constant(np.empty(empty, numpy_dtype(c.b.types[x].dtype)))
    if 0 in shape:
        raise Unsupported("its input has no elements, and the result would have some")
    if math.prod(extents.values()) > MAX_ELEMENTS:
        raise Unsupported(f"its result of shape {list(extents.values())} is too large")
    growing = [a for a in axes if not is_static((a.extent, shape[a.dim]))]
    for a in growing:
        if outside is not None:
            raise Unsupported(f"a region of a dimension {shape[a.dim]} that a run brings")
        ends = sampling.coordinates == "align_corners" and a.scale == int(a.scale or 0)
        if a.scale is None or ends:
            x = stretched(c, x, a.dim, a.extent, sampling, name)
        elif a.extent != shape[a.dim]:
            x = grown(c, x, a.dim, a.extent, a.scale, sampling, name)
    try:
        tables = {a: _table(sampling, shape, a) for a in axes if a not in growing}
    except ValueError as e:
        raise Unsupported(str(e)) from e
    for axis in sorted(tables, key=lambda a: known(a.extent) / known(shape[a.dim])):
        x = _along(c, x, axis.dim, tables[axis], name)
    if outside is None or all(t.inside.all() for t in tables.values()):
        return x
    inside = np.ones((1,) * len(shape), bool)
    for axis, t in tables.items():
        inside = inside & t.inside.reshape([-1 if d == axis.dim else 1 for d in range(len(shape))])
    dtype = c.b.types[x].dtype
    mask = c.b.constant(inside.astype(dtype), "inside")
    x = c.op("multiply", x, mask)
    if not outside:
        return x
    rest = c.b.constant(np.where(inside, 0, outside).astype(dtype), "outside")
    return c.op("add", x, rest, name=name)


def _table(sampling: Sampling, shape: Shape, axis: _Axis) -> Table:
    size, extent = known(shape[axis.dim]), known(axis.extent)
    return table(sampling, size, extent, axis.scale or extent / size, axis.roi)


def _along(c: OnnxContext, x: str, axis: int, t: Table, name: str) -> str:
    """Sample one dimension."""
    size = known(c.b.shape(x)[axis])
    used = np.flatnonzero((t.weights != 0).any(0))
    positions, weights = t.positions[:, used], t.weights[:, used]
    extent = len(positions)
    if (weights.shape[1] == 1 and (weights == 1).all()) or size == 1:
        places = positions[:, 0]
        if extent == size and (places == np.arange(size)).all():
            return x
        if extent % size == 0 and (places == np.arange(extent) // (extent // size)).all():
            factors = [1] * len(c.b.shape(x))
            factors[axis] = extent // size
            return c.op("repeat", x, name=name, factors=tuple(factors))
        return taken(c, x, places, axis, name)
    dtype = c.b.types[x].dtype
    if dtype not in ("float32", "float64", "float16", "bfloat16"):
        raise Unsupported(f"values of {dtype} cannot be interpolated")
    kind = "float32" if dtype in NARROW_FLOATS else dtype  # what it is computed in
    at = c.b.constant(np.ascontiguousarray(positions), "positions")
    share = c.b.constant(np.ascontiguousarray(weights.astype(kind)), "weights")
    op = "resample" if weights.shape[1] <= _UNROLLED else "resample_sum"
    return c.op(op, x, at, share, name=name, axis=axis)


CONVERTERS: dict[str, Converter] = {
    "Resize": _resize,
    "Upsample": _upsample,
}
