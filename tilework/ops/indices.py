"""Indices that come from data, made safe: no read may leave its tensor, whatever they hold."""

from __future__ import annotations

from tilework import te
from tilework.index.extents import Extent

_WIDE = ("int32", "int64", "uint32", "uint64")
"""Types that hold every position, and every extent, of a dimension."""


def index(e: te.Expr, extent: Extent, *, negative: bool = True) -> te.Expr:
    """``e`` as an index of a dimension of ``extent``, as ``int32``.

    Args:
        e: an integer; what lies outside the dimension counts as its nearest end.
        extent: of the dimension that is read.
        negative: whether negative numbers count from the end.
    """
    e = from_start(e, extent) if negative else _widened(e)
    return te.cast("int32", te.maximum(te.minimum(e, extent - 1), 0))


def from_start(e: te.Expr, extent: Extent) -> te.Expr:
    """``e`` with negative numbers counted from the end, in a type that holds all positions."""
    e = _widened(e)
    return e if e.dtype.startswith("u") else te.select(e < 0, e + extent, e)


def matches(e: te.Expr, position: te.Expr, extent: Extent) -> te.Expr:
    """Whether index ``e``, counted from the end where negative, means ``position``.

    An index outside the dimension, which has ``extent`` elements, means none of its positions.
    """
    e = _widened(e)
    at = te.cast(e.dtype, position)
    if e.dtype.startswith("u"):
        return te.equal(e, at)
    return te.any(te.equal(e, at), te.equal(e + extent, at))


def _widened(e: te.Expr) -> te.Expr:
    """``e`` in a type that an extent can be added to, and that a position can be compared in."""
    return e if e.dtype in _WIDE else te.cast("int32", e)
