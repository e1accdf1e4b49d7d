"""What no row of a sketch takes less than: by its multiply-adds and its results alone."""

from __future__ import annotations

import math

from tilework.kinds.cpu.features.cost import CALL_CYCLES, transform_cycles
from tilework.kinds.cpu.features.facts import BlockFacts, block_facts
from tilework.kinds.cpu.features.versions import points_left
from tilework.kinds.cpu.machine import Machine
from tilework.space.blocks import Block
from tilework.te.expr import Axis


def least_seconds(block: Block, machine: Machine) -> float:
    """Seconds that `BlockCost` predicts at least, whatever a block's tiles are.

    All threads are busy, no lane is idle, and nothing but the ports for multiply-adds holds the
    instructions up.
    """
    facts = block_facts(block)
    vectors = math.prod(a.typical for a in block.spatial) / machine.lanes
    cycles = vectors * facts.finish_cycles(machine)
    if block.transform is not None:
        fixed = block.op.attrs.get("tile", {})
        tile = (
            a.points if a in block.const_axes else fixed.get(a.name, 1) for a in block.spatial[:-1]
        )
        each = transform_cycles(facts, block.transform, machine)
        cycles += vectors / math.prod(tile) * each
    elif block.matrix is None and not block.ragged:
        cycles += _multiply_adds(facts, machine)
    return (cycles / machine.cores + CALL_CYCLES) / machine.clock_hz


def _multiply_adds(facts: BlockFacts, machine: Machine) -> float:
    """Cycles that the ports are busy with the points that are not left out at borders."""
    block = facts.block
    points = math.prod(_used(facts, a) for a in block.spatial)
    points *= math.prod(a.typical for a in block.reduce)
    together = block.dots.count if block.dots is not None else 1
    return points / together / machine.lanes * facts.update_ops / machine.fma_ports


def _used(facts: BlockFacts, axis: Axis) -> float:
    """Points of an axis, in the mean of the taps, that are computed."""
    border = facts.borders[axis]
    if not border.splits:
        return axis.typical
    return sum(number * points for number, points in points_left(border, axis.typical))
