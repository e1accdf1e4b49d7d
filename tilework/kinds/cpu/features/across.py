"""What sums across lanes cost: `tilework.kinds.cpu.llvm.across`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.tile import TileShape
from tilework.kinds.cpu.machine import Machine

Floats = NDArray[np.float64]
_ACROSS = 2.0
"""Cycles of a vector of sums and one of which some terms are there."""


def across_cycles(shape: TileShape, together: Floats, machine: Machine) -> Floats:
    """Cycles of a sum across lanes, of as many terms together; 0 where they go one by one.

    Each halving waits for the one before, and those of two sums go on beside each other.
    """
    vectors = together // machine.lanes
    lanes = math.log2(machine.lanes) * machine.latency / 2
    alone = shape.sizes[-1] == 1 if shape.sizes else np.ones(shape.nest.count, bool)
    whole = alone & (vectors > 0) & (together % machine.lanes == 0)
    return np.where(whole, lanes + _ACROSS * vectors, 0.0)
