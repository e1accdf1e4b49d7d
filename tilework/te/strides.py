"""Distances in memory between what neighbouring points read."""

from __future__ import annotations

from tilework.index.extents import Extent
from tilework.index.form import constant, position
from tilework.index.strides import row_major
from tilework.te.affine import linear
from tilework.te.expr import Axis, Expr, Read, reads


def element_stride(read: Read, axis: Axis) -> Extent:
    """Elements between what neighbours along ``axis`` read of a row-major tensor.

    0 for the same element; indices that are not linear count as standing still.
    """
    forms = [linear(i) or constant(0) for i in read.indices]
    return position(forms, row_major(read.tensor.shape)).step(axis)


def scattered(body: Expr, axis: Axis) -> bool:
    """Whether neighbours along ``axis`` are read from distant places (transposition)."""
    return any(element_stride(read, axis) not in (0, 1) for read in reads(body))
