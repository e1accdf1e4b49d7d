"""Distances in memory between what neighbouring points read."""

from __future__ import annotations

from tilework.te.affine import linear
from tilework.te.expr import Axis, Expr, Read, reads


def element_stride(read: Read, axis: Axis) -> int:
    """Elements between what neighbours along ``axis`` read of a row-major tensor.

    0 for the same element; indices that are not linear count as standing still.
    """
    stride, total = 1, 0
    for index, size in zip(reversed(read.indices), reversed(read.tensor.shape), strict=True):
        form = linear(index)
        total += stride * form.coefficients.get(axis, 0) if form is not None else 0
        stride *= size
    return total


def scattered(body: Expr, axis: Axis) -> bool:
    """Whether neighbours along ``axis`` are read from distant places (transposition)."""
    return any(element_stride(read, axis) not in (0, 1) for read in reads(body))
