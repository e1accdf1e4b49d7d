"""Which weights of a nest are packed, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilework.index.extents import known_shape
from tilework.space.blocks import Block
from tilework.space.chosen import weight_axes
from tilework.space.instructions import Bounded
from tilework.space.nest import BlockNest
from tilework.space.packing import Packing
from tilework.te.expr import Axis, reads, walk
from tilework.te.tensor import Operation, Placeholder


class Packed(NamedTuple):
    """A weight's packing, and what indexes the packed array.

    Attributes:
        packing: the packing.
        outer: dimensions of the weight of which a tile reads one point, which come first.
        loops: behind them, as (axis, level), in order.
    """

    packing: Packing
    outer: tuple[int, ...]
    loops: tuple[tuple[Axis, int], ...]


def packings(blocks: Sequence[Block], nest: BlockNest) -> dict[Operation, Packed]:
    """Packed layouts of the constant weights that only this block's anchor reads, once."""
    block = nest.block
    free = set(block.op.attrs.get("layout_free", ()))
    out: dict[Operation, Packed] = {}
    bounded = [b for b in map(Bounded.of, walk(block.source)) if b is not None]
    if not block.reduce or block.reduce_levels < 2:
        return out
    for read in reads(block.source):
        op = read.tensor.op
        if not isinstance(op, Placeholder) or op.name not in free or _uses(blocks, op) != 1:
            continue
        axes = weight_axes(block, read)
        if axes is None or any(
            isinstance(a, Axis) and a.extent != s for a, s in zip(axes, op.shape, strict=True)
        ):
            continue
        loops = [(a, level) for a, level in block.loops if a in axes]
        dots = block.dots
        if dots is not None and dots.axis in axes:
            loops.append((dots.axis, block.reduce_levels))  # what one dot product takes: innermost
        tiles: list[tuple[int, ...]] = []
        slots: list[tuple[Axis | None, int]] = []
        for axis, size in zip(axes, known_shape(op.shape), strict=True):
            if isinstance(axis, Axis):
                cut = [int(t[0]) for t in nest.tiles[axis]]
                if dots is not None and axis is dots.axis:
                    cut[-1:] = [cut[-1] // dots.count, dots.count]
                tiles.append(tuple(cut))
                slots += [(axis, level) for level in range(len(cut))]
            else:
                tiles.append((size,))
                slots.append((None, 0))
        order = tuple(slots.index(loop) for loop in loops)
        rest = tuple(i for i in range(len(slots)) if i not in order)
        limits = next((b for b in bounded if b.a is read), None)
        packing = Packing(
            known_shape(op.shape),
            tuple(tiles),
            (*rest, *order),
            limits=None if limits is None else (limits.low, limits.high),
        )
        outer = tuple(d for d, axis in enumerate(axes) if axis is None)
        out[op] = Packed(packing, outer, tuple(loops))
    return out


def _uses(blocks: Sequence[Block], op: Operation) -> int:
    count = 0
    for block in blocks:
        bodies = [block.body, block.epilogue_body, *(b for a in block.attached for b in a.bodies)]
        count += sum(r.tensor.op is op for b in bodies if b is not None for r in reads(b))
    return count
