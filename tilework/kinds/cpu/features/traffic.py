"""Traffic between the caches, by one rule.

Walking from the innermost loop outwards, a tensor's traffic into a cache of C bytes grows with a
loop's trip count, except where one iteration of the loop touches no more than C bytes in total:
then the data of the previous iteration is still there, and traffic grows only by the tensor's new
data (not at all if its address does not depend on the loop).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.features.access import Access, BlockFacts, plain_access
from tilework.kinds.cpu.features.local import region_visits
from tilework.kinds.cpu.machine import Machine
from tilework.space.nest import BlockNest
from tilework.space.regions import attached_extents
from tilework.te.expr import Axis, reads

Floats = NDArray[np.float64]
_COLD_WEIGHT_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes per access into each cache level, and each access's footprint of one outer tile."""

    into: list[list[Floats]]
    footprint: list[Floats]


def traffic_of(
    nest: BlockNest, facts: BlockFacts, tiles: dict[Axis, list[Floats]], machine: Machine
) -> Traffic:
    """Bytes per access into L1, L2 and L3, and what one outer tile of each access takes."""
    block = nest.block
    count = nest.count
    sizes = (machine.l1_bytes, machine.l2_bytes, machine.l3_bytes)
    spans = {a: np.ones(count) for a in (*block.spatial, *block.reduce)}
    touched = [_Touched(a, spans, count) for a in facts.accesses]
    now = [one.bytes for one in touched]
    into = [[f.copy() for f in now] for _ in sizes]
    whole = _total(now)
    footprint = now
    runs = [one.run_lines() for one in touched]
    for axis, level in reversed(block.loops):
        trips = tiles[axis][level]
        if (trips == 1).all():
            continue
        spans[axis] = np.minimum(spans[axis] * trips, axis.typical)
        after = [
            touched[i].grown(axis) if axis in access.axes else now[i]
            for i, access in enumerate(facts.accesses)
        ]
        fits = [whole <= size for size in sizes]
        for i, access in enumerate(facts.accesses):
            if access.once and axis.kind == "reduce":
                continue
            grown = after[i] / now[i] if axis in access.axes else 1.0
            for per_access, fit in zip(into, fits, strict=True):
                per_access[i] = per_access[i] * np.where(fit, grown, trips)
        now = after
        whole = _total(now)
        if axis.kind == "spatial" and level == block.levels.visited:
            footprint = now
            runs = [one.run_lines() for one in touched]
    l3 = machine.l3_bytes * machine.cores
    for level, size, weights in ((1, machine.l2_bytes, 0), (2, l3, _COLD_WEIGHT_BYTES)):
        for i in _warm(facts, size, weights):  # what a producer has left need not come from beyond
            into[level][i] = np.maximum(into[level][i] - now[i], 0.0)
    for per_access in into[1:]:
        for i, run in enumerate(runs):
            per_access[i] = per_access[i] * (1.0 + machine.stray_lines / run)
    if block.attached_reductions:
        for per_access in into[1:]:  # a thread's buffer stays in its own caches
            for i in facts.local:
                per_access[i] = np.zeros(count)
        for per_access, more in zip(into, _local_traffic(nest, sizes), strict=True):
            per_access += more
    return Traffic(into, footprint)


def _total(parts: Sequence[Floats]) -> Floats:
    """The sum of some arrays, in order; without the copy of them all that ``np.sum`` makes."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


class _Touched:
    """Bytes of cache lines that an access touches while its axes run over growing spans.

    The width of each dimension is kept: a loop moves along few of them.
    """

    def __init__(self, access: Access, spans: dict[Axis, Floats], count: int) -> None:
        self._access, self._spans, self._count = access, spans, count
        self._widths = [self._width(i) for i in range(len(access.dims))]
        self.bytes = self._product()

    def grown(self, axis: Axis) -> Floats:
        """The bytes after the span of one of the access's axes has grown."""
        for i, dim in enumerate(self._access.dims):
            if dim is not None and axis in dim:
                self._widths[i] = self._width(i)
        self.bytes = self._product()
        return self.bytes

    def run_lines(self) -> Floats:
        """Lines that follow each other in memory, on average."""
        access = self._access
        if access.packed:
            return self.bytes / LINE_BYTES
        run = np.full(self._count, access.element_bytes / LINE_BYTES)
        whole = np.ones(self._count, bool)
        for width, extent in zip(reversed(self._widths), reversed(access.shape), strict=True):
            run = np.where(whole, run * width, run)
            whole = whole & (np.asarray(width) >= extent)
        return np.maximum(run, 1.0)

    def _width(self, i: int) -> Floats | float:
        access = self._access
        dim, extent = access.dims[i], access.shape[i]
        width: Floats | float
        if dim is None:
            width = float(extent)
        else:
            width = 1.0
            for axis, c in dim.items():
                width = width + c * (self._spans[axis] - 1)
            width = np.minimum(width, extent)
        if i == len(access.dims) - 1 and not access.packed:
            lines = np.ceil(width * access.element_bytes / LINE_BYTES)
            width = lines * (LINE_BYTES / access.element_bytes)
        return width

    def _product(self) -> Floats:
        size = np.full(self._count, float(self._access.element_bytes))
        for width in self._widths:
            size = size * width
        return size


def _local_traffic(nest: BlockNest, sizes: Sequence[float]) -> list[list[Floats]]:
    """Bytes that the inputs of attached reductions bring into each level, per access.

    A tensor that fits into a cache comes into it once; a larger one comes with every visit.
    """
    out: list[list[Floats]] = [[] for _ in sizes]
    local = {a.op for a in nest.block.attached}
    for attached in nest.block.attached:
        spans = {
            a: e.astype(np.float64)
            for a, e in zip(attached.axes, attached_extents(nest, attached), strict=True)
        }
        count = nest.count
        reduce = attached.block.reduce if attached.block is not None else ()
        spans |= {a: np.full(count, float(a.typical)) for a in reduce}
        visits = region_visits(nest, attached)
        for read in reads(attached.source):
            if read.tensor.op in local:
                continue
            access = plain_access(read)
            whole = float(np.prod(access.shape, dtype=np.float64)) * access.element_bytes
            each = visits * _Touched(access, spans, count).bytes
            for level, size in zip(out, sizes, strict=True):
                level.append(np.minimum(each, whole) if whole <= size else each)
    return out


def _warm(facts: BlockFacts, size: float, weights: float) -> list[int]:
    """Accesses whose tensors are in a cache of ``size`` bytes when the block starts.

    In a network these are the results of the layer before, and of weights those that are smaller
    than ``weights``: none in L2, in L3 all but large ones, which come from memory.
    """
    found = [
        i for i, a in enumerate(facts.accesses) if not (a.packed and a.tensor_bytes >= weights)
    ]
    total = sum(facts.accesses[i].tensor_bytes for i in found)
    return found if total <= size else []


def first_pass(facts: BlockFacts, traffic: Traffic, busy: Floats, machine: Machine) -> Floats:
    """Cycles lost because weights come from memory during the first of several passes over them.

    Only that pass's share of the instructions can hide them.
    """
    packed = [i for i, a in enumerate(facts.accesses) if a.packed]
    near, far = (
        np.sum([traffic.into[level][i] for i in packed], axis=0) + np.zeros(len(busy))
        for level in (0, 2)
    )
    passes = np.maximum(near / np.maximum(far, 1.0), 1.0)
    memory = far / machine.memory_rate
    return np.maximum(memory - busy / passes, 0.0) - np.maximum(memory - busy, 0.0)
