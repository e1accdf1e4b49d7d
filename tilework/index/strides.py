"""Strides: how far neighbours in each dimension lie apart, in elements."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.index.extents import Extent, Number


def row_major(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Strides of a dense array: the last dimension's elements are neighbours."""
    return in_order(shape, range(len(shape)), 0)


def in_order(extents: Sequence[Number], order: Sequence[int], pad: Number) -> tuple[Number, ...]:
    """Strides of dimensions that lie in this order, ``pad`` elements behind each innermost row."""
    out: dict[int, Number] = {}
    step = 0 * pad + 1
    for place, d in enumerate(reversed(order)):
        out[d] = step
        step = step * extents[d]
        if place == 0:
            step = step + pad
    return tuple(out[d] for d in range(len(extents)))


def reach(extents: Sequence[Number], strides: Sequence[Number], one: Number) -> Number:
    """Elements from the first to the end of the last one, those between included.

    ``one`` says in which numbers: 1, or an array of ones.
    """
    for extent, stride in zip(extents, strides, strict=True):
        one = one + (extent - 1) * stride
    return one
