"""Register tiles in a matrix unit: what their steps and their ends cost."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.machine import Machine
from tilework.space.matrix_unit import groups_of, outer_and_rows
from tilework.space.nest import BlockNest

Floats = NDArray[np.float64]

_FEWEST_ROWS = 9.0
"""A product of fewer rows takes as many cycles as one of so many."""
_LATENCY = 52.0
"""Cycles from one product to the next that adds to the same sums."""
_LINE_CYCLES = 0.28
"""What reading a line of an operand adds to the products beside it."""
_KEPT_CYCLES = 4.0
"""Of a vector of sums that goes to memory and comes back."""
_UNPACKED_CYCLES = 1.7
"""Of a vector of bytes that comes from words of fewer bits and goes to memory."""
_SCALED_CYCLES = 2.2
"""Of a vector of sums of a block that goes to memory, is scaled and added."""
_SHAPING_CYCLES = 160.0
"""Where a register tile follows one of another shape."""


def unit_cycles(nest: BlockNest, pixels: Floats, vectors: Floats, machine: Machine) -> Floats:
    """Cycles per group of terms of a tile of so many rows and vectors of columns."""
    unit = nest.block.matrix
    assert unit is not None
    groups, most, cost = groups_of(nest), unit.instruction.rows, unit.instruction.cost
    around, _ = outer_and_rows([nest.tiles[a][-1] for a in nest.block.spatial[:-1]], nest.count)
    outer = np.maximum(np.minimum(around, pixels), 1.0)
    whole = np.floor(pixels / outer / most)
    rest = pixels / outer - most * whole
    each = whole * cost + np.where(rest > 0, np.maximum(rest, _FEWEST_ROWS), 0.0)
    busy = outer * vectors * each
    lines = pixels + vectors * groups
    least = np.maximum(lines / machine.load_ports, _LATENCY)
    steps = np.asarray(np.maximum(busy + _LINE_CYCLES * lines, least) / groups)
    return steps if nest.block.scaled is None else steps + _scaled_cycles(nest, pixels, vectors)


def _scaled_cycles(nest: BlockNest, pixels: Floats, vectors: Floats) -> Floats:
    """Cycles per group for a tile's part of scaled sums: what is unpacked, stored and scaled."""
    scaled, dots = nest.block.scaled, nest.block.dots
    assert scaled is not None and dots is not None
    groups = math.prod(a.typical for a in scaled.axes) / dots.count
    return np.asarray(_UNPACKED_CYCLES * vectors + _SCALED_CYCLES * pixels * vectors / groups)


def kept_cycles(work: Floats, visits: Floats) -> Floats:
    """Cycles of storing the sums of a tile of so many vectors, and of reading them again."""
    return np.asarray(_KEPT_CYCLES * work * visits)


def shaping_cycles(nest: BlockNest) -> Floats:
    """Cycles per tile for the changes between full tiles and the smaller ones at the edges."""
    changes = np.zeros(nest.count)
    for axis in nest.block.spatial:
        size = nest.tiles[axis][-1]
        smaller = (axis.typical % size > 0) & (axis.typical > size)
        changes = changes + np.where(smaller, 2.0 * size / axis.typical, 0.0)
    return np.asarray(_SHAPING_CYCLES * changes)
