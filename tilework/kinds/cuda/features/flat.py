"""Counts of kernels whose threads compute small tiles straight from memory."""

from __future__ import annotations

import numpy as np

from tilework.kinds.cuda.expansion import expansion
from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.coverage import coverage
from tilework.kinds.cuda.features.facts import accesses, block_facts
from tilework.kinds.cuda.features.finish import add_finish, register_extent
from tilework.kinds.cuda.features.lanes import Floats, Lanes, digits
from tilework.kinds.cuda.features.memory import (
    add_loads,
    elements,
    unique_bytes,
    vector_width,
)
from tilework.kinds.cuda.geometry import geometry
from tilework.kinds.cuda.tiling import form_of
from tilework.space.nest import BlockNest, Ints
from tilework.te.expr import Axis
from tilework.te.flops import mean_terms

_OUTSTANDING = 8.0
"""Loads of a thread that are on their way at a time, when its loop is expanded."""


def flat_counts(nest: BlockNest, constants: Constants) -> Counts:
    """Counts of direct blocks, points, transforms by constant matrices, and ragged sums."""
    block, count = nest.block, nest.count
    counts, facts = Counts.none(geometry(nest)), block_facts(block)
    g, serial = counts.geometry, nest.values.get("serial", np.ones(count, np.int64))
    lanes = _lanes(nest)
    points = g.accumulators * serial * 1.0
    ragged = mean_terms(block.op)
    copies = expansion(nest)
    terms, bodies = np.ones(count), np.ones(count)
    for axis in block.reduce:
        extent = ragged.get(axis, float(axis.typical))
        terms = terms * extent
        bodies = bodies * np.ceil(extent / copies[axis])
    transform = block.transform
    if transform is not None:
        counts.multiply_adds = np.full(count, float(transform.operations()))
        reads, writes = transform.points()
        read = accesses(transform.data)
        per_read = np.full(count, float(reads))
        bodies = np.ones(count)
        counts.registers = np.full(count, reads + writes / 2 + constants.base_registers)
        counts.live = counts.registers - 8.0
    else:
        counts.multiply_adds = points * terms * facts.term
        counts.calls = points * terms * facts.term_calls
        read, per_read = facts.reads, None
        held = g.accumulators + g.fragments * np.minimum(terms, 4.0)
        counts.registers = held + constants.base_registers
        counts.live = g.accumulators + g.fragments + 16.0
    counts.instructions = bodies * serial * constants.loop_instructions
    extents: dict[Axis, Ints] = {a: register_extent(nest, a) for a in block.spatial} | copies
    last = block.spatial[-1] if block.spatial else None
    covered = _covered(nest, g.threads * serial * 1.0)
    requests = np.zeros(count)
    for number, access in enumerate(read):
        width = vector_width(access, last, extents, count)
        loads = per_read if per_read is not None else elements(access, extents, count) * bodies
        loads = loads * serial / width
        requests = requests + loads
        whole = covered | {a: np.full(count, a.typical) for a in block.reduce}
        unique = unique_bytes(access, whole, count)
        addresses = access.addresses(lanes, count)
        touched = add_loads(counts, access, addresses, loads, unique, constants)
        counts.instructions += loads * constants.address_instructions
        counts.put(f"direct_sectors_{number}", touched)
    counts.fetches, counts.terms = bodies, terms / bodies
    counts.rounds = bodies
    trips = np.ceil(requests / np.minimum(np.maximum(requests / bodies, 1.0), _OUTSTANDING))
    counts.chain += constants.start + constants.memory_latency
    counts.chain += (trips - 1.0) * constants.l1_latency
    counts.chain += counts.multiply_adds * constants.multiply_add_latency / 4.0
    add_finish(counts, nest, lanes, constants, points)
    return counts


def _lanes(nest: BlockNest) -> dict[Axis, Lanes]:
    """Coordinates of the first point of each of a warp's threads."""
    axes, level = nest.block.spatial, _shared_level(nest)
    outer = digits([nest.tiles[a][level] for a in axes])
    return {
        a: place * register_extent(nest, a)[:, None] for a, place in zip(axes, outer, strict=True)
    }


def _covered(nest: BlockNest, threads: Floats) -> dict[Axis, Floats]:
    """Points of each axis that a block of threads computes."""
    axes, level = nest.block.spatial, _shared_level(nest)
    covered = coverage([nest.tiles[a][level] * 1.0 for a in axes], threads)
    return {
        a: np.minimum(n * register_extent(nest, a), a.typical)
        for a, n in zip(axes, covered, strict=True)
    }


def _shared_level(nest: BlockNest) -> int:
    """The spatial level that threads are shared out over."""
    return 1 if form_of(nest.block) == "ragged" else 0
