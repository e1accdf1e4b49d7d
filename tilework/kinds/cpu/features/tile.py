"""The register tile and its shorter versions: instructions of one reduction step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.access import Access, BlockFacts
from tilework.kinds.cpu.features.borders import checked_share, parts, split_axes
from tilework.kinds.cpu.features.sets import crowded
from tilework.kinds.cpu.machine import Machine
from tilework.lower.expansion import expansion, tile_vectors
from tilework.space.bounds import serial_taps
from tilework.space.limited import copies
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis

Floats = NDArray[np.float64]
_MASKED_LANES = 16  # vectors this wide may leave lanes idle


class TileShape:
    """The register tile: rows of pixels times vectors, and its shorter versions at the edges."""

    def __init__(self, nest: BlockNest, tiles: dict[Axis, list[Floats]], machine: Machine) -> None:
        self.nest, self.lanes = nest, machine.lanes
        count = nest.count
        self.sizes = [tiles[a][-1] for a in nest.block.spatial]
        self.pixels = np.ones(count)
        for size in self.sizes[:-1]:
            self.pixels = self.pixels * size
        last = self.sizes[-1] if self.sizes else np.ones(count)
        self.vectors = register_count(last, self.lanes)
        self.work = self.pixels * self.vectors
        self.tiles = np.ones(count)
        slots = np.ones(count)
        for a, size in zip(nest.block.spatial, self.sizes, strict=True):
            n = np.ceil(a.typical / size)
            self.tiles = self.tiles * n
            slots = slots * n * size
        exact = float(np.prod([a.typical for a in nest.block.spatial], dtype=np.float64))
        self.waste = slots / exact

    def sum_over_versions(self, cost: Callable[[Floats, Floats], Floats]) -> Floats:
        """Sum of ``cost(pixels, vectors)`` over all register tiles, full and shorter ones.

        Where taps on padding are left out, over taps, too, in units of all taps.
        """
        versions: list[tuple[Floats, Floats, Floats]] = []
        count = len(self.pixels)
        versions.append((np.ones(count), np.ones(count), np.ones(count)))
        axes = self.nest.block.spatial
        split = split_axes(self.nest.block)
        for i, (a, size) in enumerate(zip(axes, self.sizes, strict=True)):
            full = np.floor(a.typical / size)
            rest = a.typical - full * size
            found = [(full, size), (np.ones(count), rest)]
            if a in split:
                found = parts(self.nest.block, a, size)
            grown: list[tuple[Floats, Floats, Floats]] = []
            vector = i == len(axes) - 1
            for number, pixels, vectors in versions:
                for n, s in found:
                    if not n.any() or not s.any():
                        continue
                    n = np.where(s > 0, n, 0.0)
                    if vector:
                        grown.append((number * n, pixels, register_count(s, self.lanes)))
                    else:
                        grown.append((number * n, pixels * s, vectors))
            versions = grown
        total = np.zeros(count)
        for number, pixels, vectors in versions:
            total += number * cost(pixels, vectors)
        return total


def register_count(size: Floats, lanes: int) -> Floats:
    """Registers (whole and partial) that a vector loop of ``size`` elements takes."""
    whole = np.floor(size / lanes)
    rest = (size - whole * lanes).astype(np.int64)
    if lanes >= _MASKED_LANES:
        return whole + (rest > 0)
    bits = np.zeros(len(size))
    width = lanes // 2
    while width:
        bits += (rest & width) > 0
        width //= 2
    return whole + bits


def unrolled_steps(nest: BlockNest) -> dict[Axis, Floats]:
    """How far the innermost loop of each reduce axis is expanded, as the lowering does it.

    It counts points, where the lowering counts steps of several points (`Dots`), and knows nothing
    of tiles at a border: there the lowering expands further, or less.
    Terms that data limit are not expanded; accumulators that take them in turns count instead.
    """
    block = nest.block
    if not block.reduce:
        return {}
    limited = block.limits.ends
    work = tile_vectors([nest.tiles[a][-1] for a in block.spatial])
    found = expansion(
        {a: nest.tiles[a][-1] for a in block.reduce if a not in limited},
        np.maximum(nest.unroll // np.maximum(work, 1), 1),
        always=block.const_axes,
        serial=serial_taps(block),
    )
    found |= dict.fromkeys((a for a in block.reduce if a in limited), copies(nest.unroll))
    return {a: n.astype(np.float64) for a, n in found.items()}


def _elements(access: Access, shape: TileShape, unrolled: dict[Axis, Floats]) -> Floats:
    """Elements (of vectors: vectors) that an expanded body reads through ``access``, each once.

    Where windows overlap, several taps of several pixels read the same element.
    """
    spatial = shape.nest.block.spatial
    sizes = dict(zip(spatial[:-1], shape.sizes[:-1], strict=True)) | unrolled
    total = np.ones(len(shape.pixels))
    for dim in access.dims:
        choices, reach = np.ones(len(total)), np.ones(len(total))
        for a, c in (dim or {}).items():
            if a in sizes:
                choices = choices * sizes[a]
                reach = reach + c * (sizes[a] - 1)
        total = total * np.minimum(choices, reach)
    return total


class StepCycles(NamedTuple):
    """One reduction step of the full register tile.

    Attributes:
        base: cycles of its instructions.
        stalls: cycles that come on top.
        loads, guarded: number of its loads, and of those under a condition.
        scattered: cycles of vectors that are collected element by element.
        wait: cycles before the next step can add to the same register.
    """

    base: Floats
    stalls: Floats
    loads: Floats
    guarded: Floats
    scattered: Floats
    wait: Floats


def step_cycles(
    facts: BlockFacts,
    shape: TileShape,
    unrolled: dict[Axis, Floats],
    inner: Floats,
    machine: Machine,
) -> StepCycles:
    """What one reduction step of the full register tile costs.

    Args:
        facts: of the block.
        shape: its register tile.
        unrolled: how far the innermost loops are expanded.
        inner: steps between two visits of the tile.
        machine: the machine.
    """
    loads = np.zeros(len(shape.pixels))
    cycles = np.zeros(len(shape.pixels))
    guarded = np.zeros(len(shape.pixels))
    conflicts = np.zeros(len(shape.pixels))
    scattered = np.zeros(len(shape.pixels))
    spread: list[tuple[Floats, Access]] = []  # what reads single elements, and how many
    spatial = shape.nest.block.spatial
    steps = np.ones(len(shape.pixels))
    for factor in unrolled.values():
        steps = steps * factor
    windows = facts.windows
    for i, access in enumerate(facts.accesses):
        if access.once or (access.store and shape.nest.block.reduce):
            continue
        if windows and access.slides:
            n = _elements(access, shape, unrolled) / steps
        else:
            n = np.ones(len(shape.pixels))
            for a, size in zip(spatial[:-1], shape.sizes[:-1], strict=True):
                if a in access.axes:
                    n = n * size
            if windows:  # what finds no register is read again for every use
                fits = shape.work + steps * shape.vectors < machine.registers
                n = np.where(fits, n, shape.pixels)
            elif not access.lane_stride:
                fits = shape.work + shape.vectors < machine.registers
                n = np.where(fits, n, n * shape.vectors)
        if access.lane_stride == 1:
            n = n * shape.vectors
        elif access.lane_stride and shape.sizes:  # a single element has no lanes
            n = n * shape.sizes[-1] * 2.0
            scattered = scattered + n / machine.broadcast_ports
        loads = loads + n
        if access.lane_stride == 1:
            cycles = cycles + n / machine.load_ports
        else:
            cycles = cycles + n / machine.broadcast_ports
        if not access.packed and access.lane_stride != 1:
            spread.append((n, access))
        elif windows and access.slides and i not in facts.local:
            conflicts = conflicts + n * crowded(access, shape.nest, machine.l1_ways)
        if access.guarded:
            guarded = guarded + n
    thrashes = _thrashes([a for _, a in spread], shape, machine)
    for n, _ in spread:
        conflicts = conflicts + np.where(thrashes, n, 0.0)
    pressure = np.maximum(shape.work + shape.vectors + 1 - machine.registers, 0.0)
    updates = shape.work * facts.update_ops
    wait = _latency(shape, inner * (loads + updates), machine)
    busy = shape.work * facts.update_ops_rate(machine)
    cycles = cycles + machine.spill_loads * pressure / machine.load_ports
    per_step = np.maximum(_together(busy, cycles), wait)
    guarded = guarded * checked_share(shape.nest, unrolled)
    stalls = machine.guard_cycles * guarded + machine.conflict_cycles * conflicts
    return StepCycles(per_step, stalls, loads, guarded, scattered, wait)


def _latency(shape: TileShape, instructions: Floats, machine: Machine) -> Floats:
    """Cycles before the next step can add to the same register.

    Copies of a register take turns, and a core that looks ahead works on the next tiles meanwhile:
    the more of them, the fewer ``instructions`` a visit of the tile takes.
    """
    nest = shape.nest
    if not nest.block.reduce:
        return np.full(len(shape.pixels), 0.5)
    each = machine.latency / (1.0 + machine.ahead / np.maximum(instructions, 1.0))
    return np.asarray(each / copies(nest.unroll) if nest.block.limits.ends else each)


def _thrashes(accesses: Sequence[Access], shape: TileShape, machine: Machine) -> NDArray[np.bool_]:
    """Whether what a register tile reads element by element competes for too few sets of L1.

    Neighbours a power of two apart fall into few of its 64 sets; with more of them than these
    sets hold, every reduction step misses. A row of pixels reaches no more sets than it has
    pixels, so that a few long strides suffice. Vectors that are collected element by element
    come from one such place for each lane.
    """
    spatial = shape.nest.block.spatial
    lines = np.zeros(len(shape.pixels))
    sets = np.zeros(len(shape.pixels))
    for access in accesses:
        common = np.full(len(lines), 64, np.int64)
        pixels = np.ones(len(lines))
        reached = np.ones(len(lines))
        for a, size in zip(spatial, shape.sizes, strict=True):
            if a in access.axes and (access.lane_stride or a is not spatial[-1]):
                stride = access.stride_lines(a)
                common = np.where(size > 1, np.gcd(common, stride), common)
                reached = reached * np.minimum(size, 64 // np.gcd(64, stride))
                pixels = pixels * size
        lines = lines + pixels
        sets = np.maximum(sets, np.minimum(64 // common, reached))
    return (lines > 0) & (lines >= machine.l1_ways * sets)


def version_cycles(
    facts: BlockFacts,
    pixels: Floats,
    vectors: Floats,
    machine: Machine,
    base: Floats,
    full: Floats,
    scattered: Floats,
    wait: Floats,
) -> Floats:
    """Cycles per reduction step of a tile version, without stalls; at most the full tile's.

    ``base``, ``full`` and ``scattered`` are the cycles and the registers of the full tile, and
    its cycles of collecting vectors element by element; ``wait`` is its latency.
    """
    work = pixels * vectors
    busy = work * facts.update_ops_rate(machine)
    if facts.windows:
        loads = base * work / full
    else:
        single = np.where(work + vectors < machine.registers, pixels, work)
        loads = single / machine.broadcast_ports + vectors / machine.load_ports
        loads = loads + scattered * work / full
    return np.minimum(np.maximum(_together(busy, loads), wait), base)


def _together(busy: Floats, loads: Floats) -> Floats:
    """Cycles of multiply-adds and loads that go on beside each other.

    The slower of the two decides, but where they are about equal each waits for the other now and
    then: a fifth more.
    """
    return np.asarray((busy**4 + loads**4) ** 0.25)
