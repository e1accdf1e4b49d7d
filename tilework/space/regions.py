"""Touched regions: what part of a producer the inner loops of a nest read."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes
from tilework.index.extents import Extent
from tilework.index.form import Form
from tilework.space.blocks import Attached, Block
from tilework.space.nest import BlockNest
from tilework.te.affine import linear
from tilework.te.expr import Axis, Read, reads

Ints = NDArray[np.int64]
N = TypeVar("N", Ints, Extent)


def inner_level(nest: BlockNest, axis: Axis, depth: int) -> int:
    """First level of ``axis`` inside the ``depth`` outermost levels of the nest."""
    return _inner_level(nest.block, axis, depth)


def _inner_level(block: Block, axis: Axis, depth: int) -> int:
    spatial, reduce = block.levels.within(depth)
    return spatial if axis.kind == "spatial" else reduce


def attached_read(block: Block, attached: Attached) -> Read:
    """The single read through which the anchor or another producer uses an attached one."""
    source = block.source if attached.reader is None else attached.reader.source
    (read,) = [r for r in reads(source) if r.tensor.op is attached.op]
    return read


@lru_cache(maxsize=2048)
def _read_at(block: Block, attached: Attached) -> tuple[Form[Axis], ...]:
    """Where a block reads an attached producer (cached: blocks live as long as their space)."""
    forms = [linear(index) for index in attached_read(block, attached).indices]
    return tuple(f for f in forms if f is not None)  # the rule attaches only linear accesses


def attached_extents(nest: BlockNest, attached: Attached) -> list[Ints]:
    """Extents of the producer's region per visit, one array of length P per dimension."""
    count = nest.count
    return region(
        nest.block,
        attached,
        nest.span,
        lambda axis: np.full(count, nest.extent(axis), np.int64),
        lambda axis, width: np.minimum(width, nest.extent(axis)),
        np.ones(count, np.int64),
    )


def region(
    block: Block,
    attached: Attached,
    span: Callable[[Axis, int], N],
    whole: Callable[[Axis], N],
    cut: Callable[[Axis, N], N],
    one: N,
) -> list[N]:
    """Extents of an attached producer's region per visit, by dimension.

    Args:
        block, attached: the nest's block, and one of its producers.
        span: points of an axis that the loops from a level inwards cover.
        whole: all points of an axis.
        cut: the smaller one of an axis of the producer and a number of points.
        one: 1, in the numbers that are asked for.
    """
    reader = attached.reader
    if reader is None:
        spans = {
            a: span(a, _inner_level(block, a, attached.depth))
            for a in (*block.spatial, *block.reduce)
        }
    else:
        outer = region(block, reader, span, whole, cut, one)
        spans = dict(zip(reader.axes, outer, strict=True))
        for a in reader.block.reduce if reader.block is not None else ():
            spans[a] = whole(a)
    forms = _read_at(block, attached)
    return [
        cut(axis, form.width(spans, one))
        for form, axis in zip(forms, attached.op.axes, strict=True)
    ]


def scratch_bytes(nest: BlockNest) -> NDArray[np.int64]:
    """Bytes of thread-local buffers: partial sums, tiles written late, attached producers."""
    block = nest.block
    total = np.zeros(nest.count, np.int64)
    if block.levels.reuse and (block.write_depth or block.sums == "tile"):
        tile = np.full(len(total), dtype_bytes(block.op.dtype), np.int64)
        for axis in block.spatial:
            tile = tile * nest.held(axis)
        revisit = np.zeros(len(total), bool)
        for axis in block.reduce:
            revisit |= nest.tiles[axis][0] > 1
        total += np.where(revisit, tile, 0) if not block.write_depth else tile
    for attached in block.attached:
        size = np.full(len(total), dtype_bytes(attached.op.dtype), np.int64)
        for extent in attached_extents(nest, attached):
            size = size * extent
        total += size
    return total
