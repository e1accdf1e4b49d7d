"""Products with block-sparse constant weights (`tilework.ops.sparse`), which `sparsify` makes.

sparse_dense(x, data, indices, indptr; units)           x[M, K] -> [M, units]
sparse_conv(x, data, indices, indptr; units, strides,   1 x 1 windows, any number of spatial
            axis)                                       axes; channels are dimension ``axis``
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te
from tilework.graph.operators.base import (
    Attrs,
    Operator,
    Pattern,
    Shape,
    ValueType,
    moved_axes,
    normal_axis,
)
from tilework.index.extents import Extent, known, known_shape
from tilework.ops.sparse import check_bsr, sparse_conv, sparse_dense

SPARSE = ("sparse_dense", "sparse_conv")


def _checked(types: Sequence[ValueType], attrs: Attrs, columns: Extent) -> str:
    """The element type, if the arrays of the weight fit the data's channels."""
    x, data, indices, indptr = types
    shapes = [known_shape(t.shape) for t in (data, indices, indptr)]
    check_bsr(shapes[0], shapes[1], shapes[2], known(columns), attrs["units"])
    if x.dtype != "float32" or data.dtype != "float32":
        raise ValueError(f"it is defined for float32, not {x.dtype} and {data.dtype}")
    if indices.dtype != "int32" or indptr.dtype != "int32":
        raise ValueError("indices and indptr must be int32")
    return x.dtype


def _dense(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    shape = types[0].shape
    if len(shape) != 2:
        raise ValueError(f"the data has {len(shape)} dimensions, expected 2")
    return ValueType((shape[0], attrs["units"]), _checked(types, attrs, shape[1]))


def _conv(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    shape = types[0].shape
    if len(shape) < 3 or len(attrs["strides"]) != len(shape) - 2:
        raise ValueError(f"{len(attrs['strides'])} strides do not fit {len(shape)} dimensions")
    channel = _channel(attrs, len(shape))
    dtype = _checked(types, attrs, shape[channel])
    size = [n for d, n in enumerate(shape) if d not in (0, channel)]
    out: Shape = (shape[0], *(-(-n // s) for n, s in zip(size, attrs["strides"], strict=True)))
    return ValueType((*out[:channel], attrs["units"], *out[channel:]), dtype)


def _channel(attrs: Attrs, rank: int) -> int:
    axis = normal_axis(attrs["axis"], rank)
    if axis not in (1, rank - 1):
        raise ValueError(f"channels are dimension 1 or {rank - 1}, not {axis}")
    return axis


def _declare_dense(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    return sparse_dense(t[0], t[1], t[2], t[3], a["units"])


def _declare_conv(a: Attrs, t: Sequence[te.Tensor], free: bool) -> te.Tensor:
    last = _channel(a, t[0].ndim) != 1
    return sparse_conv(t[0], t[1], t[2], t[3], a["units"], a["strides"], channels_last=last)


OPERATORS = (
    Operator("sparse_dense", _dense, _declare_dense, Pattern.ANCHOR),
    Operator("sparse_conv", _conv, _declare_conv, Pattern.ANCHOR, moved_axes("axis"), 1),
)
