"""Positions that data decide: indices read from a tensor."""

from __future__ import annotations

from tilework import te
from tilework.te.expr import is_unsigned


def position(index: te.Expr, extent: int) -> te.Expr:
    """Where a number taken from data points in a dimension of ``extent`` elements, as ``int32``.

    A negative number counts from the end. One that is out of range is brought to the nearest
    element, so that no data can have a kernel read beyond a tensor.
    """
    if index.dtype not in ("int32", "int64", "uint32", "uint64"):
        index = te.cast("int32", index)
    if is_unsigned(index.dtype):
        return te.cast("int32", te.minimum(index, extent - 1))
    from_start = te.select(index < 0, index + extent, index)
    return te.cast("int32", te.maximum(te.minimum(from_start, extent - 1), 0))
