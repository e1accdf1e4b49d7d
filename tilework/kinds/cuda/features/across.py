"""Counts of kernels whose neighbouring threads share the terms of a point."""

from __future__ import annotations

import math

import numpy as np

from tilework.kinds.cuda.architectures import WARP
from tilework.kinds.cuda.expansion import expanded_terms
from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.coverage import coverage
from tilework.kinds.cuda.features.facts import block_facts
from tilework.kinds.cuda.features.finish import add_finish
from tilework.kinds.cuda.features.lanes import Floats, Lanes, digits
from tilework.kinds.cuda.features.memory import add_loads, unique_bytes
from tilework.kinds.cuda.geometry import geometry
from tilework.space.nest import BlockNest, Ints
from tilework.te.expr import Axis


def across_counts(nest: BlockNest, constants: Constants) -> Counts:
    """Counts of a reduction that neighbouring threads share."""
    block, count = nest.block, nest.count
    counts, facts = Counts.none(geometry(nest)), block_facts(block)
    lanes, groups = nest.values["lanes"], nest.values["groups"]
    total = math.prod(a.typical for a in block.reduce)
    own, mean = np.ceil(total / lanes), total / lanes  # some lanes may have nothing to do
    copies = expanded_terms(nest)
    bodies = np.ceil(own / copies)
    counts.multiply_adds = mean * facts.term
    counts.calls = mean * facts.term_calls
    counts.instructions = bodies * constants.loop_instructions
    where = coordinates(nest, lanes)
    covered = _covered(nest, groups * 1.0)
    for number, access in enumerate(facts.reads):
        varies = any(a in access.axes for a in block.reduce)
        loads = mean if varies else np.ones(count)
        unique = unique_bytes(access, covered, count)
        addresses = access.addresses(where, count)
        touched = add_loads(counts, access, addresses, loads, unique, constants)
        counts.instructions += loads * constants.address_instructions
        counts.put(f"direct_sectors_{number}", touched)
    counts.fetches, counts.terms = bodies, own / bodies
    counts.rounds = bodies
    counts.chain = bodies * constants.l1_latency + constants.start + constants.memory_latency
    counts.chain += own * facts.term * constants.multiply_add_latency
    add_combine(counts, lanes, np.ones(count), constants)
    counts.registers = copies * len(facts.reads) + constants.base_registers
    counts.live = copies * 1.0 + 16.0
    add_finish(counts, nest, where, constants, np.minimum(WARP / lanes, 1.0))
    return counts


def add_combine(counts: Counts, lanes: Ints, values: Floats, constants: Constants) -> None:
    """Reductions of ``values`` registers a thread over ``lanes`` neighbouring threads."""
    steps = np.ceil(np.log2(np.minimum(lanes, WARP)))
    wide = lanes > WARP
    more = np.where(wide, np.ceil(np.log2(np.maximum(lanes / WARP, 1.0))), 0.0)
    counts.instructions += 2.0 * values * (steps + more) + np.where(wide, 4.0 * values, 0.0)
    counts.chain += values * (steps + more) * constants.shuffle_latency
    counts.chain += np.where(wide, 2.0 * constants.barrier + constants.shared_latency, 0.0)
    counts.barriers += np.where(wide, 2.0, 0.0)
    counts.shared_wavefronts += np.where(wide, 2.0 * values * counts.warps, 0.0)
    counts.sts += np.where(wide, values, 0.0)
    counts.lds += np.where(wide, values, 0.0)


def coordinates(nest: BlockNest, lanes: Ints) -> dict[Axis, Lanes]:
    """Coordinates of the first term of each of a warp's threads."""
    block = nest.block
    ones = np.ones(nest.count, np.int64)
    lane = np.arange(WARP) % np.minimum(lanes, WARP)[:, None]
    of_point = digits([ones * a.typical for a in block.reduce])
    terms = [np.take_along_axis(d, lane, axis=1) for d in of_point]
    points = digits([ones * a.typical for a in block.spatial], lanes)
    return dict(zip((*block.reduce, *block.spatial), (*terms, *points), strict=True))


def _covered(nest: BlockNest, groups: Floats) -> dict[Axis, Floats]:
    """Points of each axis that a block has, and all terms."""
    ones = np.ones(nest.count)
    axes = nest.block.spatial
    covered = coverage([ones * a.typical for a in axes], groups)
    return dict(zip(axes, covered, strict=True)) | {a: ones * a.typical for a in nest.block.reduce}
