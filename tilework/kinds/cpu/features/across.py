"""What sums across lanes cost: `tilework.kinds.cpu.llvm.across`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.tile import TileShape
from tilework.kinds.cpu.llvm.across import FEWEST_BYTES, MOST_BYTES
from tilework.kinds.cpu.machine import Machine

Floats = NDArray[np.float64]
_ACROSS = 2.0
"""Cycles of a vector of sums and one of which some terms are there."""
_WIDTHS = tuple(1 << n for n in range(MOST_BYTES.bit_length()))
_BYTES, _HALVING = 1.0, 0.7
"""Cycles of a group of bytes whose eighths are summed, and of adding two of these parts."""


def across_cycles(shape: TileShape, together: Floats, machine: Machine) -> Floats:
    """Cycles of a sum across lanes, of as many terms together; 0 where they go one by one.

    Each halving waits for the one before, and those of two sums go on beside each other.
    """
    vectors = together // machine.lanes
    lanes = math.log2(machine.lanes) * machine.latency / 2
    alone = shape.sizes[-1] == 1 if shape.sizes else np.ones(shape.nest.count, bool)
    whole = alone & (vectors > 0) & (together % machine.lanes == 0)
    return np.where(whole, lanes + _ACROSS * vectors, 0.0)


def byte_cycles(together: Floats) -> Floats:
    """Cycles of a sum of so many bytes; 0 where they go one by one."""
    whole = together // MOST_BYTES
    left = (together - whole * MOST_BYTES).astype(np.int64)
    cycles = whole * _cycles_of(MOST_BYTES)
    for width in _WIDTHS[:-1]:
        cycles = cycles + np.where(left & width, _cycles_of(width), 0.0)
    return np.where(together >= FEWEST_BYTES, cycles, 0.0)


def _cycles_of(width: int) -> float:
    return _BYTES + _HALVING * max(math.log2(width / 8), 0.0)
