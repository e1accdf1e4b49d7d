"""The toy's schedule space: one rule of its own, one level of tiles, vectors of its own width."""

from __future__ import annotations

import numpy as np

from tilework.space.decision import Open
from tilework.space.levels import Level, Levels, Role, Tiling
from tilework.space.protocol import Space
from tilework.space.rules import always_inline, skip, tile_with_fusion
from tilework.space.state import Branch
from tilework.space.tables import divisors, spatial_table

_OUTER = Level("S", Role.serial)
_INNER = Level("R", Role.inner)
_TILE = Level("S", Role.vector)
_NEST = Levels((_OUTER, _INNER, _TILE))


def loop_of_its_own(facts, state, op):
    """A second sketch for every reduction, whose consumer waits until it is done."""
    return Branch([state.root(op)]) if op.reduce_axes and not facts.is_output(op) else []


class ToySpace(Space):
    version = 1
    rules = (always_inline, loop_of_its_own, tile_with_fusion, skip)
    tiling = Tiling(
        reuse=_NEST, reduction=_NEST, elementwise=Levels((_OUTER, _TILE)), ragged=_NEST
    )

    def capabilities(self, target):
        return ()

    def decisions(self, block, target):
        out = []
        for axis in block.spatial:
            last = axis is block.spatial[-1]
            sizes = (min(target.width, axis.extent),) if last else divisors(axis.extent)
            out.append(Open(axis.name, spatial_table(axis.extent, 1, sizes), "tile", axis))
        return out

    def valid(self, nest, target):
        ok = np.ones(nest.count, bool)
        for axis in nest.block.spatial:
            ok &= nest.tiles[axis][-1] >= 1
            ok &= nest.tiles[axis][-1] <= axis.extent
        return ok

    def canonical(self, nest, target):
        return {}


SPACE = ToySpace()
