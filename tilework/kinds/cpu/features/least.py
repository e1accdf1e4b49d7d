"""What no row of a sketch takes less than: by its multiply-adds, results and data alone."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tilework.kinds.cpu.features.access import Access
from tilework.kinds.cpu.features.cost import CALL_CYCLES, transform_cycles
from tilework.kinds.cpu.features.facts import BlockFacts, block_facts
from tilework.kinds.cpu.features.tile import register_count
from tilework.kinds.cpu.features.traffic import followed, warm
from tilework.kinds.cpu.features.versions import points_left
from tilework.kinds.cpu.machine import Machine
from tilework.space.blocks import Block
from tilework.te.expr import Axis


def least_seconds(block: Block, machine: Machine, closely: bool = False) -> float:
    """Seconds that `BlockCost` predicts at least, whatever a block's tiles are.

    All threads are busy as soon as they are woken, or one alone, no lane is idle, nothing but the
    ports for multiply-adds holds the instructions up, and all data come once.

    Args:
        closely: lanes are idle that the innermost axis has no points for, and elements that are
            collected one by one hold instructions up, too.
    """
    facts = block_facts(block)
    busy = _instructions(facts, machine, closely)
    rates = machine.l2_rate, machine.l3_rate, machine.memory_rate
    memory = [n / rate for n, rate in zip(_moved(facts, machine), rates, strict=True)]
    panels = followed(facts, machine)
    if panels:
        stream = sum(_bytes(facts.accesses[i]) for i in panels) / machine.l2_rate
        busy, memory[0] = max(busy, stream), max(memory[0] - stream, 0.0)
    slowest = max(busy, *memory)
    cycles = slowest + machine.not_hidden * (busy + sum(memory) - slowest)
    shared = max(cycles / machine.cores, memory[2] / min(machine.cores, machine.memory_cores))
    if machine.cores > 1:
        shared = min(shared + machine.fork_cycles, cycles)
    return (shared + CALL_CYCLES) / machine.clock_hz


def _instructions(facts: BlockFacts, machine: Machine, closely: bool) -> float:
    """Cycles of instructions of one core, of steps and of results."""
    block = facts.block
    lanes = _lanes(facts, machine) if closely else machine.lanes
    vectors = math.prod(a.typical for a in block.spatial) / lanes
    finish = vectors * facts.finish_cycles(machine)
    if block.transform is not None:
        fixed = block.op.attrs.get("tile", {})
        tile = (
            a.points if a in block.const_axes else fixed.get(a.name, 1) for a in block.spatial[:-1]
        )
        each = transform_cycles(facts, block.transform, machine)
        return finish + vectors / math.prod(tile) * each
    if block.matrix is not None or block.ragged or block.scatter is not None:
        return finish
    adds = _multiply_adds(facts, machine, lanes)
    return finish + max(adds, _collected(facts, machine) if closely else 0.0)


def _moved(facts: BlockFacts, machine: Machine) -> list[float]:
    """Bytes that come into L1, L2 and L3: what is not there before."""
    block = facts.block
    if block.attached_reductions or block.ragged or block.scatter is not None:
        return [0.0, 0.0, 0.0]
    sizes = [_bytes(access) for access in facts.accesses]
    near = warm(facts, machine)
    return [sum(n for i, n in enumerate(sizes) if i not in there) for there in near]


@lru_cache(maxsize=4096)
def _bytes(access: Access) -> float:
    """Bytes of an access, each once: of a dimension what its longest axis reaches."""
    size, seen = float(access.element_bytes), set[Axis]()
    for dim, extent in zip(access.dims, access.shape, strict=True):
        if dim is None:
            size *= extent
            continue
        alone = [a for a in dim if a not in seen]
        seen.update(alone)
        reach = max((1 + min(dim[a], 1) * (a.typical - 1) for a in alone), default=1)
        size *= min(reach, extent)
    return size


def _multiply_adds(facts: BlockFacts, machine: Machine, lanes: float) -> float:
    """Cycles that the ports are busy with the points that are not left out at borders."""
    points = math.prod(_used(facts, a) for a in facts.block.spatial)
    return points * _steps(facts.block) / lanes * facts.update_ops / machine.fma_ports


def _steps(block: Block) -> float:
    """Steps of a block's sums."""
    return math.prod(a.typical for a in block.reduce) / (block.dots.count if block.dots else 1)


def _collected(facts: BlockFacts, machine: Machine) -> float:
    """Cycles of loads of single elements for lanes, of accesses that differ at all points."""
    block = facts.block
    if not block.spatial or facts.borders[block.spatial[-1]].splits:
        return 0.0
    *several, last = block.spatial
    moving = {a for a in several if not a.unit}
    shares = (a.share for a in facts.inner if a.lane_stride > 1 and moving <= a.axes)
    each = 2.0 * sum(shares) / machine.broadcast_ports
    if not each:
        return 0.0
    rows = math.prod(_used(facts, a) for a in several) * _steps(block)
    return rows * each * _elements(last.typical, machine.lanes)


@lru_cache(maxsize=1024)
def _elements(points: int, lanes: int) -> float:
    """Elements that are collected for a row of points at least, however long register tiles are.

    A tile that is shorter than others is taken for its share of their vectors.
    """
    sizes = np.arange(1.0, 2 * points + 1)
    whole = np.floor(points / sizes)
    left = register_count(points - whole * sizes, lanes)
    return float(np.min(sizes * (whole + left / register_count(sizes, lanes))))


def _lanes(facts: BlockFacts, machine: Machine) -> float:
    """Lanes of a vector that have a point, in the mean, however long register tiles are."""
    last = facts.block.spatial[-1] if facts.block.spatial else None
    points = 1 if last is None else last.typical
    if last is not None and facts.borders[last].splits:
        return machine.lanes
    return points / math.ceil(points / machine.lanes)


def _used(facts: BlockFacts, axis: Axis) -> float:
    """Points of an axis, in the mean of the taps, that are computed."""
    border = facts.borders[axis]
    if not border.splits:
        return axis.typical
    return sum(number * points for number, points in points_left(border, axis.typical))
