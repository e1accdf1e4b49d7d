"""ONNX operators with indices, and those along an ordered dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

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
from tilework.graph.onnx.numbers import NotKnown, numbers
from tilework.graph.onnx.protos import NodeProto, numpy_type
from tilework.graph.onnx.shares import share_of
from tilework.graph.onnx.values import arange, constant, value
from tilework.index.extents import Extent, known, known_shape
from tilework.index.symbols import Symbolic, is_static, range_of


def taken(
    c: OnnxContext, value: str, indices: np.ndarray, axis: int, name: str | None = None
) -> str:
    """Entries of one dimension at constant ``indices``, which are in range.

    Equidistant ones are a slice.
    """
    shape = c.b.shape(value)
    flat = indices.reshape(-1).astype(np.int64)
    steps = np.diff(flat)
    result = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    if flat.size == 1 or (steps.size and steps[0] != 0 and (steps == steps[0]).all()):
        begin: list[Extent] = [0] * len(shape)
        stride = [1] * len(shape)
        begin[axis], stride[axis] = int(flat[0]), int(steps[0]) if steps.size else 1
        size = [*shape[:axis], flat.size, *shape[axis + 1 :]]
        part = sliced(c, value, begin, size, stride, name)
        if c.b.shape(part) == result:
            return part
        return c.op("reshape", part, shape=result, name=name)
    table = c.b.constant(indices.astype(np.int32), "indices")
    return c.op("take", value, table, name=name, axis=axis, negative=False)


def _gather(c: OnnxContext, node: NodeProto) -> str:
    data, indices = node.input
    x = c.value(data)
    axis = normal(attributes(node).get("axis", 0), len(c.b.shape(x)))
    if indices in c.constants:
        extent = c.b.shape(x)[axis]
        if isinstance(extent, Symbolic):
            return _taken_of(c, x, c.constants[indices], axis, node.output[0])
        places = indices_in_range(c.constants[indices], extent)
        return taken(c, x, places, axis, node.output[0])
    return c.op("take", x, c.value(indices), name=node.output[0], axis=axis)


def _taken_of(c: OnnxContext, x: str, indices: np.ndarray, axis: int, name: str) -> str:
    """Entries at constant indices of a dimension that a run brings.

    Raises:
        Unsupported: one is out of range in some runs.
    """
    shape = c.b.shape(x)
    least, low, high = range_of(shape[axis])[0], int(indices.min()), int(indices.max())
    if low < -least or high >= least:
        raise Unsupported(
            f"indices from {low} to {high} for a dimension of {shape[axis]}, which may be {least}"
        )
    if indices.size > 1:
        return c.op("take", x, c.b.constant(indices, "indices"), name=name, axis=axis)
    begin: list[Extent] = [0] * len(shape)
    begin[axis] = low if low >= 0 else shape[axis] + low
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    part = sliced(c, x, begin, one, [1] * len(shape), name)
    result = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    return part if c.b.shape(part) == result else c.op("reshape", part, shape=result, name=name)


def _gather_elements(c: OnnxContext, node: NodeProto) -> str:
    x = c.value(node.input[0])
    axis = normal(attributes(node).get("axis", 0), len(c.b.shape(x)))
    indices = _checked(c, node.input[1], [c.b.shape(x)[axis]])
    return c.op("take_along", x, indices, name=node.output[0], axis=axis)


def _checked(c: OnnxContext, indices: str, extents: Sequence[Extent]) -> str:
    """Indices as a value of the network; constant ones must be in range.

    Args:
        extents: of the dimension; or of several, which the entries of the last dimension mean.
    """
    given = c.constants.get(indices)
    if given is not None:
        columns = given.reshape(-1, len(extents))
        for d, n in enumerate(extents):
            indices_in_range(columns[:, d], range_of(n)[0])
    return c.value(indices)


def _gather_nd(c: OnnxContext, node: NodeProto) -> str:
    batch = attributes(node).get("batch_dims", 0)
    x = c.value(node.input[0])
    depth = known((c.shape(node.input[1]) or (0,))[-1])
    indices = _checked(c, node.input[1], c.b.shape(x)[batch : batch + depth])
    return c.op("gather_nd", x, indices, name=node.output[0], batch_dims=batch)


def _scatter_elements(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x, updates = c.value(node.input[0]), c.value(node.input[2])
    axis = normal(a.get("axis", 0), len(c.b.shape(x)))
    indices = _checked(c, node.input[1], [c.b.shape(x)[axis]])
    reduction = a.get("reduction", "none")
    return c.op(
        "scatter_elements", x, indices, updates,
        name=node.output[0], axis=axis, reduction=reduction,
    )  # fmt: skip


def _scatter_nd(c: OnnxContext, node: NodeProto) -> str:
    data, indices, updates = node.input
    reduction = attributes(node).get("reduction", "none")
    x = c.value(data)
    shape, where = c.b.shape(x), c.shape(indices)
    depth = known(where[-1])
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
    if indices in c.constants and reduction == "none" and is_static(outer):
        positions = c.constants[indices].reshape(-1, depth)
        table = c.b.constant(_writers(positions, outer), "rows")
        y = c.op("replace_rows", x, table, new)
    else:
        at = c.op("reshape", _checked(c, indices, outer), shape=(count, depth))
        y = c.op("scatter_rows", x, at, new, extents=outer, reduction=reduction)
    return c.op("reshape", y, name=node.output[0], shape=shape)


def _writers(positions: np.ndarray, shape: Sequence[Extent]) -> np.ndarray:
    """The last of ``positions`` that means each row, or -1."""
    extents = known_shape(shape)
    columns = [indices_in_range(positions[:, d], n) for d, n in enumerate(extents)]
    table = np.full(math.prod(extents), -1, np.int32)
    table[np.ravel_multi_index(tuple(columns), tuple(extents))] = np.arange(len(positions))
    return table


def _tensor_scatter(c: OnnxContext, node: NodeProto) -> str:
    """A cache with new entries from a place on that each sample of the batch has."""
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
    if optional(node, 2):
        first = value(c, node.input[2]).cast("int64")
    else:
        first = constant(c, np.zeros(1, np.int64)).op("expand", shape=cache.shape[:1])
    if first.shape != cache.shape[:1]:
        raise Unsupported(f"{list(first.shape)} places for a batch of {cache.shape[0]}")
    if mode == "circular":
        first = first.op("floor_mod", extent)
    how = {"axis": axis, "circular": mode == "circular"}
    return cache.op("write_rows", update, first, **how).name


def _one_hot(c: OnnxContext, node: NodeProto) -> str:
    indices, values = c.value(node.input[0]), c.value(node.input[2])
    depth = int(c.array(node.input[1], "the depth").item())
    axis = normal(attributes(node).get("axis", -1), len(c.b.shape(indices)) + 1)
    return c.op("one_hot", indices, values, name=node.output[0], depth=depth, axis=axis)


def _top_k(c: OnnxContext, node: NodeProto) -> Result:
    a = attributes(node)
    x = c.value(node.input[0])
    axis = normal(a.get("axis", -1), len(c.b.shape(x)))
    k = c.extents(node.input[1], "the number of elements")[0] if c.opset > 9 else a["k"]
    values, indices = (*node.output, "")[:2]
    places = c.op(
        "top_k", x, name=indices or None, axis=axis, k=k, largest=bool(a.get("largest", 1))
    )
    largest = c.op("take_along", x, places, name=values, axis=axis) if values else None
    return [largest, places]


def _cumulative(kind: str, c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x = c.value(node.input[0])
    axis = normal(int(c.array(node.input[1], "the axis").item()), len(c.b.shape(x)))
    flags = {k: bool(a.get(k, 0)) for k in ("exclusive", "reverse")}
    return c.op("cumulative", x, name=node.output[0], axis=axis, kind=kind, **flags)


def _trilu(c: OnnxContext, node: NodeProto) -> str:
    k = int(c.array(node.input[1], "the diagonal").item()) if optional(node, 1) else 0
    upper = bool(attributes(node).get("upper", 1))
    x = c.value(node.input[0])
    reach = range_of(sum(c.b.shape(x)[-2:]))[1]  # beyond it nothing changes any more
    k = max(-reach, min(k, reach))
    return c.op("trilu", x, name=node.output[0], k=k, upper=upper)


def _reverse_sequence(c: OnnxContext, node: NodeProto) -> str:
    a = attributes(node)
    x, lengths = (c.value(i) for i in node.input)
    axes = {"batch_axis": a.get("batch_axis", 1), "time_axis": a.get("time_axis", 0)}
    return c.op("reverse_sequence", x, lengths, name=node.output[0], **axes)


def _eye_like(c: OnnxContext, node: NodeProto) -> str | np.ndarray:
    a = attributes(node)
    shape, k = c.shape(node.input[0]), a.get("k", 0)
    if len(shape) != 2:
        raise Unsupported(f"its input has {len(shape)} dimensions instead of 2")
    dtype = c.b.types[c.value(node.input[0])].dtype
    kind = numpy_type(a["dtype"]) if "dtype" in a else np.dtype(dtype)
    if is_static(shape):
        rows, columns = known_shape(shape)
        return np.eye(rows, columns, k=k).astype(kind)
    row, column = arange(c, (shape[0], 1), 0, start=k), arange(c, (1, shape[1]), 1)
    return c.op("cast", row.op("equal", column).name, name=node.output[0], to=kind.name)


def _range(c: OnnxContext, node: NodeProto) -> str:
    """Numbers from a start to a limit that a run brings."""
    arrays = [c.known(i) for i in node.input]
    for name, x in zip(node.input, arrays, strict=True):
        if x is None:
            raise ConstantNeeded(name, "what it starts from, ends at or adds")
    try:
        parts = [numbers(x) for x in arrays if x is not None]
    except NotKnown as e:
        raise Unsupported("its numbers are not whole") from e
    (start,), (limit,), (step,) = ([share_of(i) for i in x.items] for x in parts)
    if step.whole == 0:
        raise Unsupported("its step is 0")
    if start.by == limit.by == step.by == 1:
        first, by = start.whole, known(step.whole)
        way = limit.whole - first if by > 0 else first - limit.whole
        attrs = {"shape": (-(-way // abs(by)),), "axis": 0, "start": first, "step": by}
        return c.op("arange", name=node.output[0], dtype=parts[0].dtype, **attrs)
    share = limit.minus(start)
    steps = None if share is None else share.over(step)
    if steps is None:
        raise Unsupported("how many numbers there are is not known exactly before a run")
    places = arange(c, (steps.ceil,), dtype=parts[0].dtype)
    return (places * (known(step.whole) / step.by) + known(start.whole) / start.by).name


def _filled(c: OnnxContext, node: NodeProto) -> str:
    """One number everywhere, in a shape that a run brings."""
    if node.input[0] in c.constants:  # which the importer evaluates, if it has the room
        raise Unsupported("its result is too large")
    shape = c.extents(node.input[0], "the shape")
    value = attributes(node).get("value")
    array = np.zeros(1, np.float32) if value is None else c.tensor(value).reshape(-1)[:1]
    one = c.b.constant(array.reshape((1,) * len(shape)), "filling")
    return c.op("expand", one, name=node.output[0], shape=tuple(shape))


CONVERTERS: dict[str, Converter] = {
    "ConstantOfShape": _filled,
    "CumProd": partial(_cumulative, "prod"),
    "CumSum": partial(_cumulative, "sum"),
    "EyeLike": _eye_like,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Range": _range,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "TopK": _top_k,
    "Trilu": _trilu,
}
