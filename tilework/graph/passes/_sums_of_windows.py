"""Sums of the data that each output of a convolution reads, of sums of channels."""

from __future__ import annotations

from tilework.graph.ir import Builder
from tilework.graph.operators import Shape
from tilework.graph.operators.base import Attrs


def sums_of_windows(b: Builder, total: str, kernel: Shape, attrs: Attrs) -> str:
    """The sums of windows of a map [N, 1, ...] of int32, with zeros around it.

    Args:
        b: where nodes are added.
        total: the map.
        kernel: of the convolution.
        attrs: its attributes.
    """
    *steps, last = attrs["strides"]
    window = {k: attrs[k] for k in ("pads", "dilation")} | {"strides": (*steps, 1)}
    n, _, *size = b.shape(total)
    maps = b.op("reshape", total, shape=(n, *size))
    sums = b.op("window_sums", maps, kernel=kernel, **window)
    n, *size = b.shape(sums)
    total = b.op("reshape", sums, shape=(n, 1, *size))
    if last == 1:
        return total
    # of neighbours that fill vectors, those that an output reads
    each, zero = (1,) * (1 + len(size)), (0,) * (2 + len(size))
    shape = (n, 1, *size[:-1], (size[-1] - 1) // last + 1)
    return b.op("slice", total, begin=zero, size=shape, stride=(*each, last))
