"""Strides: how far neighbours in each dimension lie apart, in elements."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.index.extents import Extent, Number
from tilework.index.symbols import certain

Strides = tuple[Extent, ...]
"""Elements between neighbours in each dimension."""


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


def viewed(
    shape: Sequence[Extent], strides: Sequence[Extent], other: Sequence[Extent]
) -> tuple[Extent, ...] | None:
    """Strides of the same elements, in the same order, under another shape; None: there are none.

    A dimension of one shape may be several of the other, if these lie densely in each other.
    """
    mine = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    wanted = [d for d, n in enumerate(other) if n != 1]
    out: list[Extent] = [1] * len(other)
    while mine and wanted:
        whole, step = mine.pop()
        d = wanted.pop()
        part, out[d] = other[d], step
        while part != whole:
            if wanted and _within(part, whole):
                d = wanted.pop()
                part, out[d] = part * other[d], part * step
            elif mine and mine[-1][1] == whole * step and _within(whole, part):
                whole = whole * mine.pop()[0]
            else:
                return None
    return None if mine or wanted else tuple(out)


def _within(part: Extent, whole: Extent) -> bool:
    return certain(lambda: part <= whole)
