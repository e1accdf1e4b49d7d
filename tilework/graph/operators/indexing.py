"""Operators that choose elements by position, or by indices; and those along an ordered dimension.

``indices`` may be of any integer type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilework import ops, te
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


# ---------------------------------------------------------------- computations


def _declare_slice(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.strided_slice(t[0], a["begin"], a["size"], a["stride"])


def _declare_arange(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.arange(a["shape"], a["axis"], a["start"], a["step"], a["dtype"])


def _declare_expand(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.expand(t[0], a["shape"])


def _declare_trilu(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.trilu(t[0], a["k"], upper=a["upper"])


def _declare_take(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.take(t[0], t[1], a["axis"], negative=a.get("negative", True))


def _declare_take_along(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.take_along(t[0], t[1], a["axis"])


def _declare_gather_nd(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.gather_nd(t[0], t[1], a["batch_dims"])


def _declare_scatter_elements(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.scatter_elements(t[0], t[1], t[2], a["axis"], a["reduction"])


def _declare_scatter_rows(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.scatter_rows(t[0], t[1], t[2], a["extents"], a["reduction"])


def _declare_replace_rows(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.replace_rows(t[0], t[1], t[2])


def _declare_one_hot(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.one_hot(t[0], t[1], a["depth"], a["axis"])


def _declare_reverse_sequence(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.reverse_sequence(t[0], t[1], a["batch_axis"], a["time_axis"])


def _declare_resample(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.resample(t[0], t[1], t[2], a["axis"])


def _declare_resample_sum(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.resample(t[0], t[1], t[2], a["axis"], unrolled=False)


def _declare_cumulative(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.cumulative(
        t[0], a["axis"], a["kind"], exclusive=a["exclusive"], reverse=a["reverse"]
    )


def _declare_top_k(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.top_k(t[0], a["k"], a["axis"], largest=a["largest"])


def _declare_col2im(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return ops.col2im(t[0], a["image"], a["block"], a["strides"], a["pads"], a["dilation"])


_POSITION = ("begin", "size", "stride")

OPERATORS = (
    Operator(
        "slice", shaped(_slice), _declare_slice, Pattern.INJECTIVE, permute=moved_lists(*_POSITION)
    ),
    Operator(
        "expand", shaped(_expand), _declare_expand, Pattern.BROADCAST, permute=moved_lists("shape")
    ),
    Operator("arange", _arange, _declare_arange, Pattern.ELEMENTWISE),  # it reads nothing
    Operator("trilu", shaped(_trilu), _declare_trilu, Pattern.INJECTIVE),
    # one index per place keeps the rank, and so may follow a layout; others never do
    Operator("take", _take, _declare_take, Pattern.INJECTIVE, moved_axes("axis"), 1),
    Operator(
        "take_along", _take_along, _declare_take_along, Pattern.INJECTIVE, moved_axes("axis")
    ),
    Operator("gather_nd", _gather_nd, _declare_gather_nd, Pattern.INJECTIVE),
    Operator("one_hot", _one_hot, _declare_one_hot, Pattern.INJECTIVE),
    Operator(
        "reverse_sequence",
        _reverse_sequence,
        _declare_reverse_sequence,
        Pattern.INJECTIVE,
        moved_axes("batch_axis", "time_axis"),
        1,
    ),
    Operator("scatter_elements", _scatter_elements, _declare_scatter_elements, Pattern.ANCHOR),
    Operator("scatter_rows", _scatter_rows, _declare_scatter_rows, Pattern.ANCHOR),
    Operator("replace_rows", _replace_rows, _declare_replace_rows, Pattern.INJECTIVE),
    # a few taps, written out, are computed within their reader; more are a sum
    Operator("resample", _resample, _declare_resample, Pattern.INJECTIVE, moved_axes("axis"), 1),
    Operator(
        "resample_sum", _resample, _declare_resample_sum, Pattern.ANCHOR, moved_axes("axis"), 1
    ),
    Operator(
        "cumulative",
        shaped(_cumulative, NUMBERS),
        _declare_cumulative,
        Pattern.ANCHOR,
        permute=moved_axes("axis"),
    ),
    Operator("top_k", _top_k, _declare_top_k, Pattern.ANCHOR, permute=moved_axes("axis")),
    Operator("col2im", shaped(_col2im, NUMBERS), _declare_col2im, Pattern.ANCHOR),
)
