"""Rows that describe the same program, brought to one form."""

from __future__ import annotations

import numpy as np

from tilework.kinds.cpu.target import CpuTarget
from tilework.lower.expansion import tile_vectors
from tilework.space.matrix_unit import in_unit
from tilework.space.nest import BlockNest, Ints


def canonical(nest: BlockNest, target: CpuTarget) -> dict[str, Ints]:
    """The ``parallel`` and ``unroll`` columns of a block without what has no effect.

    Fusing a loop of one iteration into the parallel loop changes nothing, and neither does an
    unroll limit that leaves no room for a second copy of the register tile, or stands beside a
    matrix unit. One core has nobody
    to share loops with: of 1,000 programs that a search measured for it, every other one was
    another one but for that (programs that fuse take 0.9 to 2.4 % longer, for counting).
    """
    block = nest.block
    parallel = np.zeros(nest.count, np.int64)
    for i, (axis, level) in enumerate(block.parallel_loops if target.num_cores > 1 else ()):
        several = (nest.tiles[axis][level] > 1) | (axis.open)
        counts = (nest.parallel > i) & several
        parallel = np.where(counts, i + 1, parallel)
    sizes = []
    for axis in block.spatial:
        tile = nest.tiles[axis][-1]
        rest = axis.typical - (-(-axis.typical // tile) - 1) * tile
        if axis.open:
            rest = np.ones_like(tile)
        sizes.append(np.minimum(tile, rest))  # a shorter last tile leaves more room
    unroll = np.where(nest.unroll >= 2 * tile_vectors(sizes), nest.unroll, 0)
    if block.matrix is not None:
        unroll[in_unit(block, [nest.tiles[a][-1] for a in block.spatial])] = 0
    return {"parallel": parallel, "unroll": unroll}
