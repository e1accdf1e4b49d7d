"""What is touched of a tensor that is read at places which data decide.

Of a table, ``x[index[b], k]`` reads as many rows as ``b`` has points, and no more: as of a tensor
with a row for each point. Where a place is one of the last dimension, it is a line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from tilework.dtypes import dtype_bytes
from tilework.index.extents import Typical, typical
from tilework.index.strides import row_major
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.te import expr as x

Dim = dict[x.Axis, float] | None
"""|Coefficient| of each axis in an index; None where the index is not linear."""


def moved_by_data(read: x.Read) -> tuple[int, ...]:
    """The dimensions of a tensor in which data decide the place."""
    return tuple(d for d, index in enumerate(read.indices) if x.reads(index))


def found_dims(
    read: x.Read,
    dims: Sequence[Dim],
    shape: Sequence[Typical],
    rename: Mapping[x.Axis, x.Axis] = MappingProxyType({}),
) -> tuple[tuple[Dim, ...], tuple[Typical, ...]]:
    """Dimensions and shape of what a read finds by data.

    Args:
        read: the read.
        dims: of its linear indices.
        shape: of its tensor.
        rename: axes that ``dims`` have in place of those of the read.
    """
    out, sizes = list(dims), list(shape)
    elsewhere = {a for dim in dims for a in dim or ()}
    for first, last in _runs(moved_by_data(read)):
        inside = (n for i in read.indices[first : last + 1] for n in x.walk(i))
        own = dict.fromkeys(rename.get(n, n) for n in inside if isinstance(n, x.Axis))
        end = last == len(out) - 1
        each = max(LINE_BYTES // dtype_bytes(read.tensor.dtype), 1) if end else 1
        axes = [a for a in own if a not in elsewhere]
        extents = [a.typical for a in axes]
        steps: Dim = {a: each * typical(n) for a, n in zip(axes, row_major(extents), strict=True)}
        whole = math.prod(sizes[first : last + 1])
        out[first : last + 1] = [*({} for _ in range(first, last)), steps]
        ones = [Typical(1)] * (last - first)
        sizes[first : last + 1] = [*ones, Typical(min(whole, each * math.prod(extents)))]
    return tuple(out), tuple(sizes)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of numbers that follow one another."""
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        own = [number for _, number in run]
        yield own[0], own[-1]
