"""Operators that choose elements by position, or by indices; and those along an ordered dimension.

``indices`` may be of any integer type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tilework import ops
from tilework.dtypes import NARROW_FLOATS
from tilework.graph.operators.base import (
    ANY,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Attrs,
    Operator,
    Pattern,
    Shape,
    ValueType,
    common_dtype,
    declared,
    moved_axes,
    moved_lists,
    normal_axis,
    shaped,
)
from tilework.index.symbols import range_of, same


def _indices(kind: ValueType, what: str = "the indices") -> ValueType:
    if kind.dtype not in INTEGERS:
        raise ValueError(f"{what} are {kind.dtype}; they must be integers")
    return kind


# ---------------------------------------------------------------- by position


def _arange(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    if types:
        raise ValueError("it takes no inputs")
    shape, dtype, start = tuple(attrs["shape"]), attrs["dtype"], attrs["start"]
    if dtype not in NUMBERS:
        raise ValueError(f"there are no numbers of {dtype}")
    if attrs["step"] and not 0 <= attrs["axis"] < len(shape):
        raise ValueError(f"there is no dimension {attrs['axis']} in {list(shape)}")
    count = shape[attrs["axis"]] if attrs["step"] else 1
    for end in (start, start + (count - 1) * attrs["step"]):
        low, high = range_of(end)
        if low < -(2**31) or high >= 2**31:
            raise ValueError(f"its numbers from {start} on leave the range of int32")
    return ValueType(shape, dtype)


def _slice(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    for d, (n, begin, size, stride) in enumerate(
        zip(shapes[0], attrs["begin"], attrs["size"], attrs["stride"], strict=True)
    ):
        last = begin + (size - 1) * stride
        if size > 0 and not (begin >= 0 and begin < n and last >= 0 and last < n):
            raise ValueError(f"elements {begin} to {last} of dimension {d}, whose extent is {n}")
    return tuple(attrs["size"])


def _expand(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    shape = tuple(attrs["shape"])
    if len(shape) != len(shapes[0]) or any(
        n != 1 and not same(n, m) for n, m in zip(shapes[0], shape, strict=True)
    ):
        raise ValueError(f"{list(shapes[0])} cannot be expanded to {list(shape)}")
    return shape


def _trilu(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    if len(shapes[0]) < 2:
        raise ValueError("a triangle needs two dimensions")
    return shapes[0]


# ---------------------------------------------------------------- by indices


def _take(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, indices = types
    _indices(indices)
    axis = normal_axis(attrs["axis"], len(x.shape))
    return ValueType((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)


def _take_along(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, indices = types
    _indices(indices)
    _inner(x.shape, indices.shape, normal_axis(attrs["axis"], len(x.shape)))
    return ValueType(indices.shape, x.dtype)


def _inner(shape: Shape, part: Shape, axis: int) -> None:
    """Check that ``part`` fits in ``shape`` apart from dimension ``axis``."""
    if len(part) != len(shape) or any(
        d != axis and n > m for d, (n, m) in enumerate(zip(part, shape, strict=False))
    ):
        raise ValueError(f"indices of shape {list(part)} do not fit {list(shape)}")


def _gather_nd(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, indices = types
    batch = attrs["batch_dims"]
    if not indices.shape:
        raise ValueError("the indices must have a dimension")
    depth = indices.shape[-1]
    _indices(indices)
    if not 0 <= batch < min(len(x.shape), len(indices.shape)):
        raise ValueError(f"{batch} batch dimensions do not fit")
    if x.shape[:batch] != indices.shape[:batch] or batch + depth > len(x.shape):
        raise ValueError(f"positions of {depth} numbers do not fit {list(x.shape)}")
    return ValueType((*indices.shape[:-1], *x.shape[batch + depth :]), x.dtype)


def _scatter_elements(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, indices, updates = types
    _indices(indices)
    _inner(x.shape, indices.shape, normal_axis(attrs["axis"], len(x.shape)))
    if indices.shape != updates.shape:
        raise ValueError("there must be as many updates as indices")
    return _scattered(x, updates, attrs)


def _scatter_rows(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, indices, updates = types
    _indices(indices)
    extents = attrs["extents"]
    rows = math.prod(extents)
    if len(x.shape) != 2 or x.shape[0] != rows or indices.shape[1:] != (len(extents),):
        raise ValueError(f"expected rows [{rows}, R] and positions [J, {len(extents)}]")
    if updates.shape != (indices.shape[0], x.shape[1]):
        raise ValueError(f"expected updates [{indices.shape[0]}, {x.shape[1]}]")
    return _scattered(x, updates, attrs)


def _replace_rows(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, rows, updates = types
    _indices(rows)
    if len(x.shape) != 2 or rows.shape != x.shape[:1] or updates.shape[1:] != x.shape[1:]:
        raise ValueError("expected rows [P, R], row numbers [P] and updates [J, R]")
    return ValueType(x.shape, common_dtype([x, updates], ANY))


def _append_rows(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    past, new, starts = types
    _indices(starts, "the starts")
    (b, m, cached, h), rows = past.shape, attrs["rows"]
    if new.shape != (b, m, new.shape[2], h) or starts.shape != (b, 1):
        raise ValueError(
            f"{list(new.shape)} from {list(starts.shape)} do not fit {[b, m, cached, h]}"
        )
    if rows < cached:
        raise ValueError(f"{rows} rows do not hold the {cached} that there are")
    return ValueType((b, m, rows, h), common_dtype([past, new], ANY))


def _write_rows(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    cache, new, *places = types
    axis = attrs["axis"]
    around = [(*t.shape[:axis], *t.shape[axis + 1 :]) for t in (cache, new)]
    if len(new.shape) != len(cache.shape) or around[0] != around[1] or axis < 1:
        raise ValueError(f"new rows {list(new.shape)} do not fit {list(cache.shape)}")
    for given in places:
        if _indices(given, "the places").shape != cache.shape[:1]:
            raise ValueError(f"{list(given.shape)} places for a batch of {cache.shape[0]}")
    return ValueType(cache.shape, common_dtype([cache, new], ANY))


def _scattered(x: ValueType, updates: ValueType, attrs: Attrs) -> ValueType:
    if attrs["reduction"] not in ops.SCATTER_REDUCTIONS:
        raise ValueError(f"unknown reduction '{attrs['reduction']}'")
    return ValueType(x.shape, common_dtype([x, updates], ANY))


def _one_hot(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    indices, values = types
    if values.shape != (2,):
        raise ValueError("there must be two values, for off and on")
    if indices.dtype == "bool":
        raise ValueError("the indices are bool; they must be numbers")
    if attrs["depth"] < 1:
        raise ValueError(f"a depth of {attrs['depth']} leaves no place; it must be positive")
    axis = normal_axis(attrs["axis"], len(indices.shape) + 1)
    shape = (*indices.shape[:axis], attrs["depth"], *indices.shape[axis:])
    return ValueType(shape, values.dtype)


def _reverse_sequence(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, lengths = types
    batch, time = attrs["batch_axis"], attrs["time_axis"]
    if batch == time or len(x.shape) < 2:
        raise ValueError("the batch and the time need a dimension each")
    if _indices(lengths, "the lengths").shape != (x.shape[batch],):
        raise ValueError(f"expected {x.shape[batch]} lengths, got {list(lengths.shape)}")
    return x


def _resample(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, positions, weights = types
    axis = normal_axis(attrs["axis"], len(x.shape))
    if _indices(positions).shape != weights.shape or len(weights.shape) != 2:
        raise ValueError("positions and weights must be matrices of one shape")
    computed = "float32" if x.dtype in NARROW_FLOATS else x.dtype
    if computed not in FLOATS or weights.dtype != computed:
        raise ValueError(f"it is not defined for {x.dtype} with weights of {weights.dtype}")
    return ValueType((*x.shape[:axis], weights.shape[0], *x.shape[axis + 1 :]), x.dtype)


# ---------------------------------------------------------------- along an order


def _cumulative(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    normal_axis(attrs["axis"], len(shapes[0]))
    return shapes[0]


def _top_k(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    (x,) = types
    common_dtype(types, NUMBERS)
    axis, k = normal_axis(attrs["axis"], len(x.shape)), attrs["k"]
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"there are {x.shape[axis]} elements in dimension {axis}, not {k}")
    return ValueType((*x.shape[:axis], k, *x.shape[axis + 1 :]), "int64")


def _col2im(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (x,) = shapes
    taps = math.prod(attrs["block"])
    if len(x) != 3 or x[1] % taps:
        raise ValueError(f"expected columns [N, C * {taps}, L], got {list(x)}")
    return (x[0], x[1] // taps, *attrs["image"])


_POSITION = ("begin", "size", "stride")

OPERATORS = (
    Operator(
        "slice",
        shaped(_slice),
        declared(ops.strided_slice, *_POSITION),
        Pattern.INJECTIVE,
        permute=moved_lists(*_POSITION),
    ),
    Operator(
        "expand",
        shaped(_expand),
        declared(ops.expand, "shape"),
        Pattern.BROADCAST,
        permute=moved_lists("shape"),
    ),
    Operator(
        "arange",
        _arange,
        declared(ops.arange, "shape", "axis", "start", "step", "dtype"),
        Pattern.ELEMENTWISE,
    ),  # it reads nothing
    Operator("trilu", shaped(_trilu), declared(ops.trilu, "k", "upper"), Pattern.INJECTIVE),
    # one index per place keeps the rank, and so may follow a layout; others never do
    Operator(
        "take",
        _take,
        declared(ops.take, "axis", "negative"),
        Pattern.INJECTIVE,
        moved_axes("axis"),
        1,
    ),
    Operator(
        "take_along",
        _take_along,
        declared(ops.take_along, "axis"),
        Pattern.INJECTIVE,
        moved_axes("axis"),
    ),
    Operator("gather_nd", _gather_nd, declared(ops.gather_nd, "batch_dims"), Pattern.INJECTIVE),
    Operator("one_hot", _one_hot, declared(ops.one_hot, "depth", "axis"), Pattern.INJECTIVE),
    Operator(
        "reverse_sequence",
        _reverse_sequence,
        declared(ops.reverse_sequence, "batch_axis", "time_axis"),
        Pattern.INJECTIVE,
        moved_axes("batch_axis", "time_axis"),
        1,
    ),
    Operator(
        "scatter_elements",
        _scatter_elements,
        declared(ops.scatter_elements, "axis", "reduction"),
        Pattern.ANCHOR,
    ),
    Operator(
        "scatter_rows",
        _scatter_rows,
        declared(ops.scatter_rows, "extents", "reduction"),
        Pattern.ANCHOR,
    ),
    Operator("replace_rows", _replace_rows, declared(ops.replace_rows), Pattern.INJECTIVE),
    Operator("append_rows", _append_rows, declared(ops.append_rows, "rows"), Pattern.INJECTIVE),
    Operator(
        "write_rows", _write_rows, declared(ops.write_rows, "axis", "circular"), Pattern.OPAQUE
    ),
    # a few taps, written out, are computed within their reader; more are a sum
    Operator(
        "resample",
        _resample,
        declared(ops.resample, "axis"),
        Pattern.INJECTIVE,
        moved_axes("axis"),
        1,
    ),
    Operator(
        "resample_sum",
        _resample,
        declared(partial(ops.resample, unrolled=False), "axis"),
        Pattern.ANCHOR,
        moved_axes("axis"),
        1,
    ),
    Operator(
        "cumulative",
        shaped(_cumulative, NUMBERS),
        declared(ops.cumulative, "axis", "kind", "exclusive", "reverse"),
        Pattern.ANCHOR,
        permute=moved_axes("axis"),
    ),
    Operator(
        "top_k",
        _top_k,
        declared(ops.top_k, "k", "axis", "largest"),
        Pattern.ANCHOR,
        permute=moved_axes("axis"),
    ),
    Operator(
        "col2im",
        shaped(_col2im, NUMBERS),
        declared(ops.col2im, "image", "block", "strides", "pads", "dilation"),
        Pattern.ANCHOR,
    ),
)
