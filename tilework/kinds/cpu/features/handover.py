"""Cycles in which threads wait for what an earlier nest left: a cost between two nests.

A nest's outermost parallel loop decides which part of its result each core has in its cache. A
nest that reads the result finds its part there if its own outermost parallel loop runs over the
same dimension; else each core fetches most of it from the others, line by line.

What transforms by constant matrices write, or read, at all points of a tile lies apart there. If
it does not stay near, its lines come before they are written, go, and come again, and nothing
runs ahead of that: it takes as long as memory does to bring them once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes
from tilework.frozen import frozen
from tilework.index.extents import typicals
from tilework.kinds.cpu.machine import Machine
from tilework.once import cached_property
from tilework.space.blocks import Block
from tilework.space.nest import BlockRows
from tilework.te.affine import linear
from tilework.te.expr import Axis, Binary, Expr, reads
from tilework.te.tensor import Operation

Floats = NDArray[np.float64]
NEAR_BYTES = 2 << 20
"""Of one array, that a core may count on to find in L3, which it shares with others."""


def handover_cycles(parts: Sequence[BlockRows], machine: Machine) -> list[Floats]:
    """Per nest and row, the cycles that its slowest thread waits for results of earlier nests."""
    producers: dict[Operation, _Shared] = {}
    out: list[Floats] = []
    for part in parts:
        total, shared = part.of_all(np.zeros(part.nest.count)), _Shared(part)
        for read in _handed(part.nest.block) if producers else ():
            producer = producers.get(read.op)
            if producer is None:
                continue
            if _apart(producer.part.nest.block, part.nest.block):
                total = total + read.beyond(machine)
            if machine.cores > 1:
                own = {a: d for d, a in enumerate(producer.part.nest.block.spatial)}
                apart = producer.dimension(own) != shared.dimension(read.dims)
                wait = read.bytes_of(machine) / machine.handover_rate
                total = total + np.where(apart, wait, 0.0)
        out.append(total)
        producers[part.nest.block.result] = shared
    return out


@frozen(eq=False)
class _Handed:
    """A read of what another nest may have computed.

    Attributes:
        op: what computes it.
        dims: the dimension of the tensor in which an axis moves, the first if there are several.
        size: bytes of the tensor.
    """

    op: Operation
    dims: Mapping[Axis, int]
    size: float

    def beyond(self, machine: Machine) -> float:
        """Cycles until memory has brought it once, if it does not stay near."""
        stays = self.size <= max(machine.l2_bytes, NEAR_BYTES) * machine.cores
        return 0.0 if stays else self.size / machine.memory_rate / _readers(machine)

    def bytes_of(self, machine: Machine) -> float:
        """What one of the cores needs of it and another has."""
        return self.size / machine.cores * (1.0 - 1.0 / machine.cores)


def _readers(machine: Machine) -> float:
    """Cores that memory delivers to at full rate."""
    return min(machine.cores, machine.memory_cores)


def _apart(producer: Block, consumer: Block) -> bool:
    return producer.transform is not None or consumer.transform is not None


@lru_cache(maxsize=2048)
def _handed(block: Block) -> tuple[_Handed, ...]:
    """The reads of a block (cached: blocks live as long as their search space)."""
    out = []
    for read in dict.fromkeys(reads(block.source)):
        dims: dict[Axis, int] = {}
        for d, index in enumerate(read.indices):
            for axis in _axes(index):
                dims.setdefault(axis, d)
        shape = typicals(read.tensor.shape)
        size = float(np.prod(shape, dtype=np.float64)) * dtype_bytes(read.tensor.dtype)
        out.append(_Handed(read.tensor.op, dims, size))
    return tuple(out)


def _axes(index: Expr) -> set[Axis]:
    if isinstance(index, Binary) and index.op == "//":
        index = index.a
    form = linear(index)
    return set() if form is None else set(form.coefficients)


@frozen(eq=False)
class _Shared:
    """What the threads of a nest share out.

    Attributes:
        part: the rows.
    """

    part: BlockRows

    def dimension(self, dims: Mapping[Axis, int]) -> NDArray[np.int64]:
        """The dimension that the outermost parallel loop runs over; -1 where one thread does all.

        A loop that moves along no dimension of the tensor is -2.
        """
        loops = self.part.nest.block.parallel_loops
        return np.array([*(dims.get(axis, -2) for axis, _ in loops), -1])[self._outermost]

    @cached_property
    def _outermost(self) -> NDArray[np.int64]:
        """Which loop the outermost parallel one of each row is; -1 where there is none."""
        nest = self.part.nest
        out, parallel = np.full(nest.count, -1, np.int64), nest.parallel
        for i, (axis, level) in reversed(list(enumerate(nest.block.parallel_loops))):
            if axis.typical > 1:
                out[(parallel > i) & (nest.tiles[axis][level] > 1)] = i
        return self.part.of_all(out)
