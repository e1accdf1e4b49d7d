"""What slabs cost: as often as much as one, and what arguments take to come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.cost import CALL_CYCLES
from tilework.kinds.cpu.features.traffic import COLD_WEIGHT_BYTES
from tilework.kinds.cpu.machine import Machine
from tilework.space.sketch import Sketch
from tilework.space.slabs import Slabs


def slab_seconds(
    each: Sequence[NDArray[np.float64]], slabs: Slabs, machine: Machine
) -> list[NDArray[np.float64]]:
    """Predicted seconds of each block and row in all slabs, from those in one.

    Blocks of a slab are one region, which is entered once; ``machine`` has one core.
    """
    entered = CALL_CYCLES / machine.clock_hz
    moved = _argument_seconds(slabs, machine) / len(each)
    return [slabs.each * (t - entered) + moved + entered for t in each]


def least_of_slabs(each: float, sketch: Sketch, machine: Machine) -> float:
    """Seconds that `slab_seconds` predicts at least, from what one slab takes at least."""
    slabs = sketch.slabs
    assert slabs is not None
    entered = len(sketch.blocks) * CALL_CYCLES / machine.clock_hz
    return slabs.each * (each - entered) + _argument_seconds(slabs, machine)


def _argument_seconds(slabs: Slabs, machine: Machine) -> float:
    """Arguments come from the cache that holds them all, into which results go as well.

    Weights that transforms made larger come from memory, as they do where there are no slabs.
    """
    size, weights = slabs.argument_bytes, slabs.weight_bytes
    first = weights / machine.memory_rate / machine.clock_hz if weights >= COLD_WEIGHT_BYTES else 0
    return first + _moved_seconds(size, slabs, machine)


def _moved_seconds(size: float, slabs: Slabs, machine: Machine) -> float:
    if size <= machine.l2_bytes:
        rate = machine.l2_rate
    elif size <= machine.l3_bytes:
        rate = machine.l3_rate
    else:
        return (
            size / machine.memory_rate / min(slabs.cores, machine.memory_cores) / machine.clock_hz
        )
    return size / rate / slabs.cores / machine.clock_hz
