"""What the border of a padded map leaves to compute, for all candidates at once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilework.space.blocks import Block
from tilework.space.bounds import Bound, conjuncts
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Compare, IfThenElse, walk

Floats = NDArray[np.float64]


def split_axes(block: Block) -> dict[Axis, list[Bound]]:
    """Bounds by axis where the lowering leaves out the taps that fall on padding."""
    out: dict[Axis, list[Bound]] = {}
    for b in block.bounds:
        out.setdefault(b.axis, []).append(b)
    return {a: found for a, found in out.items() if all(b.skips for b in found)}


def parts(block: Block, axis: Axis, sizes: Floats) -> list[tuple[Floats, Floats]]:
    """Register tiles of a split axis as (number, points used), by how much of them is used.

    Numbers count tiles times taps, in units of all taps: tiles without a border count once. The
    first part uses all points, the others at least half and less, with their mean.
    """
    unique, where = np.unique(sizes, return_inverse=True)
    table = np.array([_parts(block, axis, min(int(n), axis.extent))[0] for n in unique])
    return [(table[where, i, 0], table[where, i, 1]) for i in range(table.shape[1])]


def tested(nest: BlockNest) -> Floats:
    """Share of the tiles whose loads still ask whether they fall on padding."""
    block = nest.block
    guards = [n for n in walk(block.source) if isinstance(n, IfThenElse)]
    count = nest.count
    if not guards:
        return np.zeros(count)
    known = block.bounds
    nodes = {b.node for b in known}
    comparisons = [c for g in guards for c in conjuncts(g.cond)]
    if not all(isinstance(c, Compare) and c in nodes for c in comparisons):
        return np.ones(count)
    inside = np.ones(count)
    for axis in {b.axis for b in known}:
        own = [b for b in known if b.axis is axis]
        size = nest.tiles[axis][-1]
        unique, where = np.unique(size, return_inverse=True)
        border = np.array([_parts(block, axis, min(int(n), axis.extent))[1] for n in unique])
        at_loads = np.full(count, not all(b.skips for b in own))
        for tap in {b.tap for b in own if b.tap is not None}:
            levels = nest.tiles[tap]
            if len(levels) > 1:  # taps of one visit are not known where code is generated
                at_loads |= (levels[0] > 1) & (size > 1)
        inside = inside * (1.0 - np.where(at_loads, border[where], 0.0))
    return 1.0 - inside


@lru_cache(maxsize=4096)
def _parts(block: Block, axis: Axis, size: int) -> tuple[list[tuple[float, float]], float]:
    own = [b for b in block.bounds if b.axis is axis]
    taps = max([b.tap.extent for b in own if b.tap is not None], default=1)
    count = -(-axis.extent // size)
    used = np.ones((count * size, taps), bool)
    position, tap = np.arange(count * size)[:, None], np.arange(taps)[None, :]
    for b in own:
        used &= b.slope * position + b.step * tap + b.const >= 0
    used[axis.extent :] = True
    border = 1.0 - float(np.mean(used.reshape(count, size * taps).all(axis=1)))
    used[axis.extent :] = False
    points = used.reshape(count, size, taps).sum(axis=1)
    out: list[tuple[float, float]] = []
    many = 2 * points >= size
    for part in (points == size, many & (points < size), ~many & (points > 0)):
        number = int(part.sum())
        out.append((number / taps, float(points[part].mean()) if number else 0.0))
    return out, border
