"""Operators with indices, and those along an ordered dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.aten.context import (
    AtenContext,
    Converter,
    Unsupported,
    Value,
    few_enough,
    used,
)
from tilework.graph.aten.dtypes import array_of
from tilework.index.extents import Extent, known
from tilework.index.symbols import range_of


def _known(x: Any, extent: Extent) -> NDArray[Any] | None:
    """Constant indices counted from the front; None if a run brings them, or decides that."""
    if isinstance(x, Value):
        return None
    indices = array_of(x).astype(np.int64)
    if not isinstance(extent, int):
        within = indices.size and indices.min() >= 0 and range_of(extent)[0] > indices.max()
        return indices if within else None
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise Unsupported("indices out of range")
    return np.where(indices < 0, indices + extent, indices)


def taken(c: AtenContext, v: Value, indices: NDArray[Any], axis: int) -> Value:
    """Entries of one dimension at constant indices: a slice or a repetition where they are one."""
    shape = c.shape(v)
    flat, extent = indices.reshape(-1), shape[axis]
    result = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    if not flat.size:
        return c.op("take", v, c.constant(indices.astype(np.int32), "indices"), axis=axis)
    steps = np.unique(np.diff(flat))
    if flat.size == 1 or (steps.size == 1 and steps[0] != 0):
        stride = int(steps[0]) if steps.size else 1
        return c.reshape(c.along(v, axis, int(flat[0]), flat.size, stride), result)
    times = flat.size // extent
    if flat.size == times * extent and (flat == np.arange(flat.size) // max(times, 1)).all():
        factors = [times if d == axis else 1 for d in range(len(shape))]
        return c.reshape(c.op("repeat", v, factors=tuple(factors)), result)
    table = c.constant(indices.astype(np.int32), "indices")
    return c.op("take", v, table, axis=axis, negative=False)


def _at(c: AtenContext, v: Value, indices: Any, axis: int) -> Value:
    fixed = _known(indices, c.shape(v)[axis])
    if fixed is not None:
        return taken(c, v, fixed, axis)
    return c.op("take", v, c.value(indices), axis=axis)


def _embedding(c: AtenContext, weight: Any, indices: Any, *args: Any) -> Value:
    return _at(c, c.value(weight), indices, 0)


def _index_select(c: AtenContext, x: Any, dim: int, index: Any) -> Value:
    v = c.value(x)
    if not c.rank(v) or len(c.shape(index)) != 1:
        raise Unsupported("of a scalar")
    return _at(c, v, index, c.axis(dim, c.rank(v)))


def _gather(c: AtenContext, x: Any, dim: int, index: Any, **kwargs: Any) -> Value:
    v = c.value(x)
    if not c.rank(v) or not c.shape(index):
        raise Unsupported("of a scalar")
    return c.op("take_along", v, c.value(index), axis=c.axis(dim, c.rank(v)))


def _index(c: AtenContext, x: Any, indices: Sequence[Any]) -> Value:
    v = c.value(x)
    given = {d: i for d, i in enumerate(indices) if i is not None}
    for i in given.values():
        kind = c.dtype(i) if isinstance(i, Value) else str(i.dtype).removeprefix("torch.")
        if kind in ("bool", "uint8"):
            raise Unsupported("a mask decides the shape of its result")
    if len(given) == 1:
        ((axis, index),) = given.items()
        return _at(c, v, index, axis)
    dims = sorted(given)
    if dims != list(range(dims[0], dims[-1] + 1)):
        raise Unsupported("indices of dimensions that are apart")
    crossed = _crossed(c, v, given)
    return _together(c, v, given) if crossed is None else crossed


def _crossed(c: AtenContext, v: Value, given: dict[int, Any]) -> Value | None:
    """Indices that each vary along one dimension of the result: one dimension after the other."""
    ranks = {len(c.shape(i)) for i in given.values()}
    rank = max(ranks)
    if rank != len(given):
        return None
    tables = {}
    for place, (axis, index) in enumerate(sorted(given.items())):
        shape = c.shape(index)
        padded = (1,) * (rank - len(shape)) + shape
        if any(n != 1 for d, n in enumerate(padded) if d != place):
            return None
        fixed = _known(index, c.shape(v)[axis])
        if fixed is None:
            return None
        tables[axis] = fixed.reshape(-1)
    for axis, table in tables.items():
        v = taken(c, v, table, axis)
    return v


def _together(c: AtenContext, v: Value, given: dict[int, Any]) -> Value:
    """Indices that are one position each: the places are counted in one dimension."""
    shape, dims = c.shape(v), sorted(given)
    first, last = dims[0], dims[-1]
    flat: Value | None = None
    for d in dims:
        index, extent = given[d], c.value(shape[d], "int64")
        fixed = _known(index, shape[d])
        if fixed is not None:
            at = c.constant(fixed, "indices")
        else:
            at = c.value(index, "int64")
            below = c.op("less", at, c.number(0, "int64"))
            counted = c.op("add", at, extent)
            at = c.op("where", below, counted, at)
        if flat is None:
            flat = at
        else:
            flat = c.op("add", c.op("multiply", flat, extent), at)
    assert flat is not None
    rows = math.prod(shape[d] for d in dims)
    folded = c.reshape(v, (*shape[:first], rows, *shape[last + 1 :]))
    return c.op("take", folded, flat, axis=first, negative=False)


def _unfold(c: AtenContext, x: Any, dim: int, size: int, step: int) -> Value:
    """Windows along a dimension; their elements are the last dimension of the result."""
    v = c.value(x)
    if not c.rank(v):
        raise Unsupported("of a scalar")
    axis = c.axis(dim, c.rank(v))
    starts = np.arange(0, known(c.shape(v)[axis]) - size + 1, step)
    y = taken(c, v, starts[:, None] + np.arange(size), axis)
    order = [d for d in range(c.rank(y)) if d != axis + 1]
    return c.transpose(y, [*order, axis + 1])


def _top_k(
    c: AtenContext,
    x: Any,
    k: int,
    dim: int = -1,
    largest: bool = True,
    order: bool = True,
) -> Any:
    v = c.value(x)
    if not c.rank(v):
        raise Unsupported("of a scalar")
    axis = c.axis(dim, c.rank(v))
    few_enough(c.shape(v)[axis])
    places = c.op("top_k", v, axis=axis, k=int(k), largest=bool(largest))
    values = c.op("take_along", v, places, axis=axis) if used(c, 0) else None
    return values, places


CONVERTERS: dict[str, Converter] = {
    "embedding": _embedding,
    "index_select": _index_select,
    "gather": _gather,
    "index.Tensor": _index,
    "_unsafe_index.Tensor": _index,
    "topk": _top_k,
    "unfold": _unfold,
}
