"""Producers computed inside their consumer's nest: what computing their regions costs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.facts import block_facts
from tilework.kinds.cpu.features.tile import register_count
from tilework.kinds.cpu.machine import Machine
from tilework.space.blocks import Attached
from tilework.space.nest import BlockNest
from tilework.space.regions import attached_extents, inner_level
from tilework.te.expr import IfThenElse, walk
from tilework.te.strides import scattered

Floats = NDArray[np.float64]
_SCATTERED_CYCLES = 1.0  # a load and an insertion for each element


def attached_cycles(nest: BlockNest, machine: Machine) -> Floats:
    """Cycles of computing the regions of all attached producers, recomputation included."""
    total = np.zeros(nest.count)
    for attached in nest.block.attached:
        visits = region_visits(nest, attached)
        size = np.ones(len(total))
        extents = attached_extents(nest, attached)
        if attached.block is not None:
            total += visits * _local_reduction_cycles(nest, attached, machine)
            continue
        for extent in extents:
            size = size * extent
        lines = size / np.maximum(extents[-1], 1)
        vector = _vector_cycles(attached, machine.lanes)
        total += visits * (size / machine.lanes * vector + lines * 6.0)
    return total


@lru_cache(maxsize=2048)
def _vector_cycles(attached: Attached, lanes: int) -> float:
    """Cycles to compute a vector of an elementwise producer."""
    if scattered(attached.body, attached.op.axes[-1]):
        return _SCATTERED_CYCLES * lanes
    return 2.0 if any(isinstance(n, IfThenElse) for n in walk(attached.body)) else 1.2


def region_visits(nest: BlockNest, attached: Attached) -> Floats:
    """How often the region of an attached producer is computed: recomputation included."""
    visits = np.ones(nest.count)
    for a in (*nest.block.spatial, *nest.block.reduce):
        visits = visits * nest.outer_trips(a, inner_level(nest, a, attached.depth))
    return visits


def _local_reduction_cycles(nest: BlockNest, attached: Attached, machine: Machine) -> Floats:
    """Cycles to compute the region of an attached reduction once, in its register tiles."""
    block = attached.block
    assert block is not None
    facts = block_facts(block)
    extents = [e.astype(np.float64) for e in attached_extents(nest, attached)]
    one = np.ones(nest.count)
    above = np.prod([one, *extents[:-2]], axis=0)
    pixels, last = (
        np.minimum(t, e)
        for t, e in zip(
            nest.local[attached],
            (extents[-2] if len(extents) > 1 else one, extents[-1] if extents else one),
            strict=True,
        )
    )
    points = float(np.prod([a.typical for a in block.reduce], dtype=np.float64))
    across = block.spatial[-2] if len(block.spatial) > 1 else None
    total = np.zeros(len(one))
    for count_p, size_p in _cuts(extents[-2] if len(extents) > 1 else one, pixels):
        for count_v, size_v in _cuts(extents[-1] if extents else one, last):
            vectors = register_count(size_v, machine.lanes)
            work = size_p * vectors
            loads, guarded = np.zeros(len(one)), np.zeros(len(one))
            for access in facts.accesses:
                if access.once or access.store:
                    continue
                n = size_p if across in access.axes else one
                n = n * (
                    vectors
                    if access.lane_stride == 1
                    else size_v * 2.0
                    if access.lane_stride
                    else 1.0
                )
                loads = loads + n
                guarded = guarded + (n if access.guarded else 0.0)
            step = (
                np.maximum.reduce(
                    [
                        facts.busy(work, vectors, machine),
                        loads / machine.load_ports,
                        np.full(len(one), machine.latency),
                    ]
                )
                + machine.guard_cycles * guarded
            )
            done = work * facts.finish_cycles(machine) + machine.tile_cycles
            total += above * count_p * count_v * (step * points + done)
    return total


def _cuts(extent: Floats, size: Floats) -> list[tuple[Floats, Floats]]:
    """Number and size of the full tiles of a region's dimension, and of the shorter last one."""
    whole = np.floor(extent / size)
    rest = extent - whole * size
    return [(whole, size), (np.where(rest > 0, 1.0, 0.0), np.maximum(rest, 1.0))]
