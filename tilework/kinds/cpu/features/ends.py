"""What register tiles read as they end, and wait for.

A sum takes long enough for a core to fetch what its next steps read. What the end of a tile adds
to the sums, the other operand of a residual, comes in one burst, and the next tile begins before
the first of it is there only as far as a core looks ahead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.features.facts import BlockFacts
from tilework.kinds.cpu.features.footprints import Walk
from tilework.kinds.cpu.features.tile import TileShape
from tilework.kinds.cpu.features.traffic import Traffic
from tilework.kinds.cpu.machine import Machine

Floats = NDArray[np.float64]
_QUEUE = 40.0
"""Lines that are on their way from L3 at its full rate: so many at that rate are its latency."""
_AT_ONCE = 16.0
"""Lines that a core itself waits for at a time."""
_STREAMS = 16.0
"""Runs of lines, side by side, that are followed and fetched ahead."""
_UNSEEN = 3.0
"""Lines of a run before it is followed."""


def waiting_cycles(
    facts: BlockFacts, shape: TileShape, traffic: Traffic, machine: Machine
) -> Floats | float:
    """Cycles that all register tiles wait for what they read as they end.

    Args:
        facts: of the block.
        shape: its register tile.
        traffic: of the block.
        machine: the machine.
    """
    into = traffic.into[1]
    widths, touched = traffic.widths, traffic.touched
    if facts.block.transform is not None or widths is None or touched is None:
        return 0.0
    first: Floats | float = 0.0
    lines: Floats | float = 0.0
    for i, access in enumerate(facts.accesses):
        large = access.tensor_bytes > machine.l1_bytes
        if access.once and not access.store and large and into[i].any():
            followed = _followed(facts.walk, i, widths, touched[i])
            beyond = np.minimum(into[i] / (LINE_BYTES * shape.tiles * shape.work), 1.0)
            unseen = beyond * np.minimum(_UNSEEN / followed, 1.0)
            first = np.maximum(first, unseen)
            lines = lines + unseen * shape.work
    latency = _QUEUE * LINE_BYTES / machine.l3_rate
    return latency * shape.tiles * (first + lines / _AT_ONCE)


def _followed(walk: Walk, i: int, widths: Floats, touched: Floats) -> Floats:
    """Lines that follow each other in memory and in time, of an access, in few runs at once."""
    states = walk.own_states(i)
    shape = len(states), touched.shape[-1]
    lines = walk.runs(i, widths, states).lines().reshape(shape)
    many = touched.take(states, axis=0) > _STREAMS * LINE_BYTES * lines
    number = np.where(np.logical_or.reduce(many, axis=0), many.argmax(axis=0), len(states))
    last = np.maximum(number, 1) - 1
    return np.where(number > 0, lines[last, np.arange(shape[1])], 1.0)
