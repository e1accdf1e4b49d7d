"""ONNX operators with indices, and those along an ordered dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilework.graph.onnx.context import (
    ConstantNeeded,
    Converter,
    OnnxContext,
    Result,
    Unsupported,
    attributes,
    optional,
)
from tilework.graph.onnx.convert.slices import normal, sliced
from tilework.graph.onnx.indices import indices_in_range
from tilework.graph.onnx.values import constant, room, value

if TYPE_CHECKING:
    import onnx


def taken(
    c: OnnxContext, value: str, indices: np.ndarray, axis: int, name: str | None = None
) -> str:
    """Entries of one dimension at constant ``indices``, which are in range.

    Equidistant ones are a slice.
    """
    shape = c.b.shape(value)
    flat = indices.reshape(-1).astype(np.int64)
    steps = np.unique(np.diff(flat))
    result = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    if flat.size == 1 or (steps.size == 1 and steps[0] != 0):
        begin, stride = [0] * len(shape), [1] * len(shape)
        begin[axis], stride[axis] = int(flat[0]), int(steps[0]) if steps.size else 1
        size = [*shape[:axis], flat.size, *shape[axis + 1 :]]
        part = sliced(c, value, begin, size, stride, name)
        if c.b.shape(part) == result:
            return part
        return c.op("reshape", part, shape=result, name=name)
    table = c.b.constant(indices.astype(np.int32), "indices")
    return c.op("take", value, table, name=name, axis=axis, negative=False)


def _gather(c: OnnxContext, node: onnx.NodeProto) -> str:
    data, indices = node.input
    x = c.value(data)
    axis = normal(attributes(node).get("axis", 0), len(c.b.shape(x)))
    if indices in c.constants:
        known = indices_in_range(c.constants[indices], c.b.shape(x)[axis])
        return taken(c, x, known, axis, node.output[0])
    return c.op("take", x, c.value(indices), name=node.output[0], axis=axis)


def _gather_elements(c: OnnxContext, node: onnx.NodeProto) -> str:
    x = c.value(node.input[0])
    axis = normal(attributes(node).get("axis", 0), len(c.b.shape(x)))
    indices = _checked(c, node.input[1], [c.b.shape(x)[axis]])
    return c.op("take_along", x, indices, name=node.output[0], axis=axis)


def _checked(c: OnnxContext, indices: str, extents: Sequence[int]) -> str:
    """Indices as a value of the network; constant ones must be in range.

    Args:
        extents: of the dimension; or of several, which the entries of the last dimension mean.
    """
    known = c.constants.get(indices)
    if known is not None:
        columns = known.reshape(-1, len(extents))
        for d, n in enumerate(extents):
            indices_in_range(columns[:, d], n)
    return c.value(indices)


def _gather_nd(c: OnnxContext, node: onnx.NodeProto) -> str:
    batch = attributes(node).get("batch_dims", 0)
    x = c.value(node.input[0])
    depth = (c.shape(node.input[1]) or (0,))[-1]
    indices = _checked(c, node.input[1], c.b.shape(x)[batch : batch + depth])
    return c.op("gather_nd", x, indices, name=node.output[0], batch_dims=batch)


def _scatter_elements(c: OnnxContext, node: onnx.NodeProto) -> str:
    a = attributes(node)
    x, updates = c.value(node.input[0]), c.value(node.input[2])
    axis = normal(a.get("axis", 0), len(c.b.shape(x)))
    indices = _checked(c, node.input[1], [c.b.shape(x)[axis]])
    reduction = a.get("reduction", "none")
    return c.op(
        "scatter_elements", x, indices, updates,
        name=node.output[0], axis=axis, reduction=reduction,
    )  # fmt: skip


def _scatter_nd(c: OnnxContext, node: onnx.NodeProto) -> str:
    data, indices, updates = node.input
    reduction = attributes(node).get("reduction", "none")
    x = c.value(data)
    shape, where = c.b.shape(x), c.shape(indices)
    depth = where[-1]
    if not 0 < depth <= len(shape) or c.shape(updates) != (*where[:-1], *shape[depth:]):
        raise Unsupported(
            f"updates of shape {list(c.shape(updates))} at positions {list(where)} do not fit "
            f"{list(shape)}"
        )
    count, outer = math.prod(where[:-1]), shape[:depth]
    rows = math.prod(outer)
    width = math.prod(shape[depth:])
    x = c.op("reshape", x, shape=(rows, width))
    new = c.op("reshape", c.value(updates), shape=(count, width))
    if indices in c.constants and reduction == "none":
        table = c.b.constant(_writers(c.constants[indices].reshape(count, depth), outer), "rows")
        y = c.op("replace_rows", x, table, new)
    else:
        at = c.op("reshape", _checked(c, indices, outer), shape=(count, depth))
        y = c.op("scatter_rows", x, at, new, extents=outer, reduction=reduction)
    return c.op("reshape", y, name=node.output[0], shape=shape)


def _writers(positions: np.ndarray, extents: Sequence[int]) -> np.ndarray:
    """The last of ``positions`` that means each row, or -1."""
    columns = [indices_in_range(positions[:, d], n) for d, n in enumerate(extents)]
    table = np.full(math.prod(extents), -1, np.int32)
    table[np.ravel_multi_index(tuple(columns), tuple(extents))] = np.arange(len(positions))
    return table


def _tensor_scatter(c: OnnxContext, node: onnx.NodeProto) -> str:
    """A cache with new entries from a place on that each sample of the batch has.

    Each entry asks which of the new ones it is; what would stand outside is left out.
    """
    a = attributes(node)
    cache, update = (value(c, i) for i in node.input[:2])
    rank, mode = len(cache.shape), a.get("mode", "linear")
    axis = normal(a.get("axis", -2), rank)
    extent = cache.shape[axis]
    fits = len(update.shape) == rank and all(
        n == m for d, (n, m) in enumerate(zip(update.shape, cache.shape, strict=True)) if d != axis
    )
    if not axis or not fits or update.shape[axis] > extent:
        raise Unsupported(f"new entries {list(update.shape)} do not fit {list(cache.shape)}")
    if mode not in ("linear", "circular"):
        raise Unsupported(f"unknown mode '{mode}'")
    room(c, cache.shape[0] + extent)
    first = constant(c, np.zeros(cache.shape[0], np.int64))
    if optional(node, 2):
        first = value(c, node.input[2]).cast("int64")
    if first.shape != cache.shape[:1]:
        raise Unsupported(f"{list(first.shape)} places for a batch of {cache.shape[0]}")
    along = [1] * rank
    along[axis] = extent
    entry = first.constant(np.arange(extent).reshape(along)) - first.reshape(
        -1, *(1,) * (rank - 1)
    )
    if mode == "circular":
        entry = entry.op("floor_mod", extent)
    new = (entry >= 0) & (entry < update.shape[axis])
    at = entry.op("expand", shape=cache.shape)
    return update.op("take_along", at, axis=axis).where(new, cache).name


def _one_hot(c: OnnxContext, node: onnx.NodeProto) -> str:
    indices, values = c.value(node.input[0]), c.value(node.input[2])
    depth = int(c.array(node.input[1], "the depth").item())
    axis = normal(attributes(node).get("axis", -1), len(c.b.shape(indices)) + 1)
    return c.op("one_hot", indices, values, name=node.output[0], depth=depth, axis=axis)


def _top_k(c: OnnxContext, node: onnx.NodeProto) -> Result:
    a = attributes(node)
    x = c.value(node.input[0])
    axis = normal(a.get("axis", -1), len(c.b.shape(x)))
    k = int(c.array(node.input[1], "the number of elements").item()) if c.opset > 9 else a["k"]
    values, indices = (*node.output, "")[:2]
    places = c.op(
        "top_k", x, name=indices or None, axis=axis, k=k, largest=bool(a.get("largest", 1))
    )
    found = c.op("take_along", x, places, name=values, axis=axis) if values else None
    return [found, places]


def _cumulative(kind: str) -> Converter:
    def convert(c: OnnxContext, node: onnx.NodeProto) -> str:
        a = attributes(node)
        x = c.value(node.input[0])
        axis = normal(int(c.array(node.input[1], "the axis").item()), len(c.b.shape(x)))
        flags = {k: bool(a.get(k, 0)) for k in ("exclusive", "reverse")}
        return c.op("cumulative", x, name=node.output[0], axis=axis, kind=kind, **flags)

    return convert


def _trilu(c: OnnxContext, node: onnx.NodeProto) -> str:
    k = int(c.array(node.input[1], "the diagonal").item()) if optional(node, 1) else 0
    upper = bool(attributes(node).get("upper", 1))
    x = c.value(node.input[0])
    reach = sum(c.b.shape(x)[-2:])  # beyond it nothing changes any more
    k = max(-reach, min(k, reach))
    return c.op("trilu", x, name=node.output[0], k=k, upper=upper)


def _reverse_sequence(c: OnnxContext, node: onnx.NodeProto) -> str:
    a = attributes(node)
    x, lengths = (c.value(i) for i in node.input)
    axes = {"batch_axis": a.get("batch_axis", 1), "time_axis": a.get("time_axis", 0)}
    return c.op("reverse_sequence", x, lengths, name=node.output[0], **axes)


def _eye_like(c: OnnxContext, node: onnx.NodeProto) -> np.ndarray:
    from onnx import helper

    a = attributes(node)
    shape = c.shape(node.input[0])
    if len(shape) != 2:
        raise Unsupported(f"its input has {len(shape)} dimensions instead of 2")
    dtype = c.b.types[c.value(node.input[0])].dtype
    kind = helper.tensor_dtype_to_np_dtype(a["dtype"]) if "dtype" in a else np.dtype(dtype)
    return np.eye(*shape, k=a.get("k", 0)).astype(kind)


def _known(what: str) -> Converter:
    """For operators whose result has a shape that their inputs say: all of them must be constants.

    Then the importer evaluates them, and does not come here.
    """

    def convert(c: OnnxContext, node: onnx.NodeProto) -> Result:
        raise ConstantNeeded(next(i for i in node.input if i not in c.constants), what)

    return convert


CONVERTERS: dict[str, Converter] = {
    "ConstantOfShape": _known("the shape"),
    "CumProd": _cumulative("prod"),
    "CumSum": _cumulative("sum"),
    "EyeLike": _eye_like,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Range": _known("what it starts from, ends at or adds"),
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top_k,
    "Trilu": _trilu,
}
