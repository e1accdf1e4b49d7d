"""Cycles in which threads wait for data that other cores hold: a cost between two nests.

A nest's outermost parallel loop decides which part of its result each core has in its cache. A
nest that reads the result finds its part there if its own outermost parallel loop runs over the
same dimension; else each core fetches most of it from the others, line by line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes
from tilework.kinds.cpu.machine import Machine
from tilework.space.nest import BlockNest
from tilework.te.affine import linear
from tilework.te.expr import Axis, Binary, Expr, Read, reads
from tilework.te.tensor import Operation

Floats = NDArray[np.float64]


def handover_cycles(nests: Sequence[BlockNest], machine: Machine) -> list[Floats]:
    """Per nest and row, the cycles that its slowest thread waits for results of earlier nests."""
    made: dict[Operation, BlockNest] = {}
    out: list[Floats] = []
    for nest in nests:
        total = np.zeros(nest.count)
        for read in dict.fromkeys(reads(nest.block.source)):
            producer = made.get(read.tensor.op)
            if producer is not None and machine.cores > 1:
                apart = _dimension(producer, _own_dims(producer)) != _dimension(
                    nest, [_axes(i) for i in read.indices]
                )
                total = total + np.where(apart, _bytes(read, machine) / machine.handover_rate, 0.0)
        out.append(total)
        made[nest.block.result] = nest
    return out


def _bytes(read: Read, machine: Machine) -> float:
    """What one of the cores needs of a tensor and another has."""
    size = float(np.prod(read.tensor.shape, dtype=np.float64)) * dtype_bytes(read.tensor.dtype)
    return size / machine.cores * (1.0 - 1.0 / machine.cores)


def _own_dims(nest: BlockNest) -> list[set[Axis]]:
    return [{a} for a in nest.block.spatial]


def _axes(index: Expr) -> set[Axis]:
    if isinstance(index, Binary) and index.op == "//":
        index = index.a
    form = linear(index)
    return set() if form is None else set(form.coefficients)


def _dimension(nest: BlockNest, dims: Sequence[set[Axis]]) -> NDArray[np.int64]:
    """The dimension that the outermost parallel loop runs over; -1 where one thread does all.

    A loop that moves along no dimension of the tensor is -2.
    """
    found = np.full(nest.count, -1, np.int64)
    for i, (axis, level) in enumerate(nest.block.parallel_loops):
        here = (nest.parallel > i) & (nest.tiles[axis][level] > 1) & (found == -1)
        where = next((d for d, axes in enumerate(dims) if axis in axes), -2)
        found = np.where(here, where, found)
    return found
