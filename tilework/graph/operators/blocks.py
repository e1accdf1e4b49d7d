"""Operators that rearrange whole blocks; a pass writes them as reshapes and one move.

`tilework.graph.passes.split_blocks` replaces them, once the layout is settled.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework.graph.operators.base import (
    Attrs,
    Operator,
    Pattern,
    Shape,
    moved_axes,
    moved_lists,
    normal_axis,
    shaped,
)
from tilework.graph.operators.layouts import as_declared, channels_last
from tilework.index.extents import Extent

MODES = ("DCR", "CRD")
"""Order of the dimensions that make up the channels: depth, column, row of the block."""


def _images(shapes: Sequence[Shape], attrs: Attrs) -> tuple[Extent, Extent, Extent, Extent]:
    if len(shapes[0]) != 4:
        raise ValueError(f"expected images of 4 dimensions, got {list(shapes[0])}")
    if attrs["block"] < 1 or attrs["mode"] not in MODES:
        raise ValueError(f"block {attrs['block']} in mode '{attrs['mode']}' makes no sense")
    n, h, w, c = channels_last(shapes[0], attrs)
    return n, h, w, c


def _depth_to_space(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    n, h, w, c = _images(shapes, attrs)
    b = attrs["block"]
    if c % (b * b) != 0:
        raise ValueError(f"{c} channels cannot be divided in blocks of {b}x{b}")
    return as_declared((n, h * b, w * b, c // (b * b)), attrs)


def _space_to_depth(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    n, h, w, c = _images(shapes, attrs)
    b = attrs["block"]
    if h % b != 0 or w % b != 0:
        raise ValueError(f"images of {h}x{w} cannot be divided in blocks of {b}x{b}")
    return as_declared((n, h // b, w // b, c * b * b), attrs)


def _multiplied(name: str) -> Operator:
    """Operators with a factor for each dimension."""

    def rule(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
        return tuple(n * r for n, r in zip(shapes[0], attrs["factors"], strict=True))

    permute = moved_lists("factors")
    return Operator(name, shaped(rule), None, Pattern.INJECTIVE, permute=permute)


def _shuffle(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    extent = shapes[0][normal_axis(attrs["axis"], len(shapes[0]))]
    if extent % attrs["groups"] != 0:
        raise ValueError(f"extent {extent} cannot be divided in {attrs['groups']} groups")
    return shapes[0]


OPERATORS = (
    Operator("depth_to_space", shaped(_depth_to_space), None, Pattern.INJECTIVE),
    Operator("space_to_depth", shaped(_space_to_depth), None, Pattern.INJECTIVE),
    # an entry of each group in turn, along one dimension
    Operator("shuffle", shaped(_shuffle), None, Pattern.INJECTIVE, permute=moved_axes("axis")),
    _multiplied("tile"),  # the whole tensor, several times along a dimension
    _multiplied("repeat"),  # each element, several times in a row
)
