"""Counts of what a thread does with its finished values: epilogue and stores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.facts import block_facts
from tilework.kinds.cuda.features.lanes import Floats, Lanes
from tilework.kinds.cuda.features.memory import add_loads, add_stores, elements, vector_width
from tilework.kinds.cuda.geometry import held
from tilework.space.levels import Role
from tilework.space.nest import BlockNest, Ints
from tilework.te.expr import Axis


def add_finish(
    counts: Counts,
    nest: BlockNest,
    lanes: Mapping[Axis, Lanes],
    constants: Constants,
    points: Floats | None = None,
) -> None:
    """Epilogue and stores of a thread.

    Args:
        counts: where they are added.
        nest: the rows.
        lanes: coordinates of the first point of each of a warp's threads.
        constants: of the model.
        points: that a thread finishes; its accumulators by default.
    """
    facts, block = block_facts(nest.block), nest.block
    own = {a: held(nest, a) for a in block.spatial}
    registers = {a: register_extent(nest, a) for a in block.spatial}
    last = block.spatial[-1] if block.spatial else None
    done = counts.geometry.accumulators * 1.0 if points is None else points
    share = done / np.maximum(counts.geometry.accumulators, 1)
    counts.instructions += done * (facts.finish + constants.address_instructions)
    counts.calls += done * facts.finish_calls
    for access in facts.finish_reads:
        width = vector_width(access, last, registers, nest.count)
        loads = elements(access, own, nest.count) * share / width
        addresses = access.addresses(lanes, nest.count)
        unique = loads * width * access.itemsize * counts.geometry.threads
        add_loads(counts, access, addresses, loads, unique, constants)
    if facts.finish_reads:
        counts.chain += constants.memory_latency
    width = vector_width(facts.write, last, registers, nest.count)
    addresses = facts.write.addresses(lanes, nest.count)
    add_stores(counts, facts.write, addresses, done / width, width)


def register_extent(nest: BlockNest, axis: Axis) -> Ints:
    """Neighbouring points of an axis that a thread computes."""
    for level, number in nest.block.levels.numbered:
        if level.role is Role.register and level.kind == "S" and number < len(nest.tiles[axis]):
            extent: Ints = nest.tiles[axis][number]
            return extent
    return np.ones(nest.count, np.int64)
