"""What terms cost that go where they belong, one by one: `tilework.space.scattering`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.facts import BlockFacts
from tilework.kinds.cpu.features.tile import TileShape
from tilework.kinds.cpu.machine import Machine
from tilework.space.blocks import Block

Floats = NDArray[np.float64]
_PLACE_CYCLES = 8.0
"""Of a term and tile: finding the place, asking whether it is one, and the address of it."""
_UPDATE_CYCLES = 2.0
"""Of a vector that is read, added to and stored."""


def term_cycles(block: Block, shape: TileShape, facts: BlockFacts, machine: Machine) -> Floats:
    """Cycles of one term: the tiles of one point of the axis that terms mean."""
    assert block.scatter is not None
    tiles = shape.tiles / block.scatter.axis.typical
    each = _UPDATE_CYCLES + facts.update_ops / machine.fma_ports
    return tiles * (_PLACE_CYCLES + shape.work * each)


def bytes_into(block: Block, facts: BlockFacts, cache_bytes: float) -> list[float]:
    """Bytes of each access that come into a cache: each once, and results as terms find them."""
    assert block.scatter is not None
    terms = float(np.prod([a.typical for a in block.reduce]))
    turns = max(terms / block.scatter.axis.typical, 1.0)
    out = []
    for access in facts.accesses:
        again = access.store and access.tensor_bytes > cache_bytes
        out.append(access.tensor_bytes * (turns if again else 1.0))
    return out
