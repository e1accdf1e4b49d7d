"""The register tile and its shorter versions: instructions of one reduction step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.access import Access
from tilework.kinds.cpu.features.borders import checked_share, parts
from tilework.kinds.cpu.features.facts import BlockFacts, block_facts
from tilework.kinds.cpu.features.sets import crowded
from tilework.kinds.cpu.machine import Machine
from tilework.lower.expansion import expansion, tile_vectors
from tilework.once import cached_property
from tilework.space.nest import BlockNest
from tilework.space.panels import panels, sharing
from tilework.space.ragged import copies
from tilework.te.expr import Axis

Floats = NDArray[np.float64]
_UNPACKS_WITH = 2.0
_SUMS_WAIT = 2.0
"""How many times as long it takes that a tile which unpacks weights lacks a register: it is the
sums that go through memory."""
_MASKED_LANES = 16  # vectors this wide may leave lanes idle
_SINGLE, _FAR = 2.0, 6.0
"""Loads that a lane which is read by itself takes as long as: it is put into its vector. As far
from the one before as a run says, its address is computed first."""
_WRITTEN = 3
"""Ways of a set of L1 that rows of what is written take besides those of a padded one, where a run
decides extents. One of known extents is one choice of many; here one serves them all."""
_BITS = np.array([float(n.bit_count()) for n in range(_MASKED_LANES)])
"""Of a number of lanes that are left, vectors of a power of two that take them."""


class TileShape:
    """The register tile: points times vectors, and its shorter versions at the edges."""

    def __init__(self, nest: BlockNest, tiles: dict[Axis, Floats], machine: Machine) -> None:
        self.nest, self.lanes = nest, machine.lanes
        spatial = nest.block.spatial
        self.sizes = [tiles[a][-1] for a in spatial]
        several = [tiles[a][-1] for a in spatial[:-1] if not a.unit]
        self.pixels = _product(several, nest.count)
        last = self.sizes[-1] if self.sizes else np.ones(nest.count)
        self.vectors = register_count(last, self.lanes)
        self.work = self.pixels * self.vectors

    @cached_property
    def finished(self) -> Floats:
        """Registers of a tile that hold points of the output.

        At a point of a family vectors may reach several times as far as their axis; a version of
        the tile has as many as there are. How much its rows reach beyond theirs is left in: rows
        that are tall for the longest extents are no better for it.
        """
        last = self.nest.block.spatial[-1] if self.sizes else None
        if last is None or not last.open:
            return self.work
        there = np.minimum(self.sizes[-1], last.typical)
        return self.pixels * register_count(there, self.lanes)

    @cached_property
    def panel(self) -> NDArray[np.bool_]:
        """Whether weights are unpacked to memory before tiles are computed."""
        return panels(self.nest)

    @cached_property
    def shared(self) -> Floats:
        """How many register tiles share a vector of weights that is unpacked."""
        return sharing(self.nest)

    @cached_property
    def numbers(self) -> dict[Axis, Floats]:
        """Register tiles along each axis that has several points."""
        each = zip(self.nest.block.spatial, self.sizes, strict=True)
        return {a: np.ceil(a.typical / size) for a, size in each if not a.unit}

    @cached_property
    def tiles(self) -> Floats:
        """Register tiles of the whole block."""
        return _product([*self.numbers.values()], self.nest.count)

    @cached_property
    def waste(self) -> Floats:
        """Points that are computed, relative to those that are needed."""
        axes = self.nest.block.spatial
        sizes = zip(axes, self.sizes, strict=True)
        points = [self.numbers[a] * size for a, size in sizes if not a.unit]
        exact = math.prod(a.typical for a in axes)
        return _product(points, self.nest.count) / exact

    def sum_over_versions(self, cost: Callable[[Floats, Floats], Floats]) -> Floats:
        """Sum of ``cost(pixels, vectors)`` over all register tiles, full and shorter ones.

        Where taps on padding are left out, over taps, too, in units of all taps. All versions
        are asked for at once, as V x P.
        """
        count, axes = self.nest.count, self.nest.block.spatial
        versions: list[tuple[Floats | float, ...]] = [(1.0, 1.0, 1.0)]
        facts = block_facts(self.nest.block)
        borders = facts.borders
        for i, (a, size) in enumerate(zip(axes, self.sizes, strict=True)):
            vector = i == len(axes) - 1
            if a.typical == 1 and not vector:
                continue
            if borders[a].splits:
                others = [
                    own
                    for b, own in zip(axes, self.sizes, strict=True)
                    if b is not a and b.open and borders[b].bounds
                ]
                each = parts(borders[a], size, bool(facts.serial), others)
                pieces = [(np.where(s > 0, n, 0.0), s) for n, s in each if n.any() and s.any()]
            else:
                full = np.floor(a.typical / size)
                left = a.typical - full * size
                pieces = [(full, size), (left > 0, left)] if left.any() else [(full, size)]
            if vector:
                pieces = [(n, register_count(s, self.lanes)) for n, s in pieces]
            versions = [
                (number * n, pixels, s) if vector else (number * n, pixels * s, vectors)
                for number, pixels, vectors in versions
                for n, s in pieces
            ]
        table = np.empty((3, len(versions), count))
        for k, version in enumerate(versions):
            table[0, k], table[1, k], table[2, k] = version
        number, pixels, vectors = table
        return np.asarray(np.add.reduce(number * cost(pixels, vectors), axis=0))


def _product(factors: Sequence[Floats], count: int) -> Floats:
    """The product of arrays of whole numbers."""
    if not factors:
        return np.ones(count)
    out, *more = factors
    for factor in more:
        out = out * factor
    return out


def register_count(size: Floats, lanes: int) -> Floats:
    """Registers (whole and partial) that a vector loop of ``size`` elements takes."""
    whole: Floats = np.floor(size / lanes)
    rest = (size - whole * lanes).astype(np.int64)
    if lanes >= _MASKED_LANES:
        return whole + (rest > 0)
    return np.asarray(whole + _BITS.take(rest))


def unrolled_steps(nest: BlockNest) -> dict[Axis, Floats]:
    """How far the innermost loop of each reduce axis is expanded, as the lowering does it.

    It counts points, where the lowering counts steps of several points (`Dots`), and knows nothing
    of tiles at a border: there the lowering expands further, or less.
    Terms that data limit are not expanded; accumulators that take them in turns count instead.
    """
    block = nest.block
    if not block.reduce:
        return {}
    ragged = block.ragged.ends
    work = tile_vectors([nest.tiles[a][-1] for a in block.spatial])
    several = [a for a in block.reduce if not a.unit]
    factors = expansion(
        {a: nest.tiles[a][-1] for a in several if a not in ragged},
        np.maximum(nest.unroll // np.maximum(work, 1), 1),
        always=block.const_axes,
        serial=block_facts(block).serial,
    )
    if ragged:
        factors |= dict.fromkeys((a for a in block.reduce if a in ragged), copies(nest.unroll))
    steps = {a: n.astype(np.float64) for a, n in factors.items()}
    units = (a for a in block.reduce if a.unit and a not in ragged)
    return steps | {a: np.ones(nest.count) for a in units}


def _elements(access: Access, shape: TileShape, unrolled: dict[Axis, Floats]) -> Floats | float:
    """Elements (of vectors: vectors) that an expanded body reads through ``access``, each once.

    Where windows overlap, several taps of several pixels read the same element.
    """
    spatial = shape.nest.block.spatial
    sizes = dict(zip(spatial[:-1], shape.sizes[:-1], strict=True)) | unrolled
    total: Floats | float = 1.0
    for dim in access.dims:
        choices: Floats | float = 1.0
        reach: Floats | float = 1.0
        for a, c in (dim or {}).items():
            if a in sizes and not a.unit:
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
    stalls: Floats | float
    loads: Floats | float
    guarded: Floats | float
    scattered: Floats | float
    wait: Floats | float


def step_cycles(
    facts: BlockFacts,
    shape: TileShape,
    unrolled: dict[Axis, Floats],
    steps: Floats,
    inner: Floats | float,
    machine: Machine,
) -> StepCycles:
    """What one reduction step of the full register tile costs.

    Args:
        facts: of the block.
        shape: its register tile.
        unrolled: how far the innermost loops are expanded.
        steps: of an expanded body.
        inner: steps between two visits of the tile.
        machine: the machine.
    """
    nest, windows = shape.nest, facts.windows
    padded = any(a.open and border.bounds for a, border in facts.borders.items())
    written = _WRITTEN if padded else 0
    local = [facts.accesses[i] for i in facts.local]
    loads: Floats | float = 0.0
    cycles: Floats | float = 0.0
    guarded: Floats | float = 0.0
    conflicts: Floats | float = 0.0
    scattered: Floats | float = 0.0
    spread: list[Floats] = []  # how many of what reads single elements
    for access in facts.inner:
        n = access.share * _loads(access, shape, unrolled, steps, windows, machine)
        if access.lane_stride > 1 and shape.sizes:
            scattered = scattered + n / machine.broadcast_ports
        loads = loads + n
        if access.lane_stride == 1:
            cycles = cycles + n / machine.load_ports
        else:
            cycles = cycles + n / machine.broadcast_ports
        if not access.packed and access.lane_stride != 1:
            spread.append(n)
        elif windows and access.slides and access not in local:
            conflicts = conflicts + n * crowded(access, nest, machine.l1_ways - written)
        if access.guarded:
            guarded = guarded + n
    if spread:
        thrashes = _thrashes(facts, shape, machine)
        for n in spread:
            conflicts = conflicts + np.where(thrashes, n, 0.0)
    unpacked = _unpacked_from(facts, shape)
    pressure = np.maximum(shape.work + _held(shape) + unpacked + 1 - machine.registers, 0.0)
    pressure = pressure * np.where(unpacked > 0, _SUMS_WAIT, 1.0)
    updates = shape.work * facts.update_ops
    wait = _latency(shape, inner * (loads + updates), machine)
    busy = facts.busy(shape.work, shape.vectors, machine, shape)
    cycles = cycles + machine.spill_loads * pressure / machine.load_ports
    per_step = np.maximum(together(busy, cycles), wait)
    if any(access.guarded for access in facts.inner):
        guarded = guarded * checked_share(nest, unrolled)
    stalls = machine.guard_cycles * guarded + machine.conflict_cycles * conflicts
    return StepCycles(per_step, stalls, loads, guarded, scattered, wait)


def _held(shape: TileShape) -> Floats:
    """Vectors that registers hold for several points; of a single one they are operands."""
    return np.where(shape.pixels > 1, shape.vectors, 0.0)


def _unpacked_from(facts: BlockFacts, shape: TileShape) -> Floats | float:
    """Vectors that a tile unpacks weights from, and of a mask and of what is subtracted."""
    scaled = facts.block.scaled
    if scaled is None or scaled.whole is not None:
        return 0.0
    return np.where(shape.panel, 0.0, shape.vectors + _UNPACKS_WITH)


def _loads(
    access: Access,
    shape: TileShape,
    unrolled: dict[Axis, Floats],
    steps: Floats,
    windows: bool,
    machine: Machine,
) -> Floats:
    """Loads of an access in one step of the full register tile."""
    if windows and access.slides:
        n = _elements(access, shape, unrolled) / steps
    else:
        spatial = shape.nest.block.spatial
        each = zip(spatial[:-1], shape.sizes[:-1], strict=True)
        own = [size for a, size in each if a in access.axes and not a.unit]
        n = _product(own, shape.nest.count)
        if windows:  # what finds no register is read again for every use
            fits = shape.work + steps * shape.vectors < machine.registers
            n = np.where(fits, n, shape.pixels)
        elif not access.lane_stride:
            fits = shape.work + _held(shape) < machine.registers
            n = np.where(fits, n, n * shape.vectors)
    if access.lane_stride == 1:
        return n * shape.vectors
    if access.lane_stride and shape.sizes:  # a single element has no lanes
        return np.asarray(n * shape.sizes[-1] * (_FAR if access.far else _SINGLE))
    return n


def _latency(shape: TileShape, instructions: Floats, machine: Machine) -> Floats | float:
    """Cycles before the next step can add to the same register.

    Copies of a register take turns, and a core that looks ahead works on the next tiles meanwhile:
    the more of them, the fewer ``instructions`` a visit of the tile takes.
    """
    nest = shape.nest
    if not nest.block.reduce:
        return 0.5
    each = machine.latency / (1.0 + machine.ahead / np.maximum(instructions, 1.0))
    return np.asarray(each / copies(nest.unroll) if nest.block.ragged.ends else each)


def _thrashes(facts: BlockFacts, shape: TileShape, machine: Machine) -> NDArray[np.bool_]:
    """Whether what a register tile reads element by element competes for too few sets of L1.

    Neighbours a power of two apart fall into few of its 64 sets; with more of them than these
    sets hold, every reduction step misses. A row of pixels reaches no more sets than it has
    pixels, so that a few long strides suffice. Vectors that are collected element by element
    come from one such place for each lane.
    """
    lines: Floats | float = 0.0
    sets: Floats | float = 0.0
    for strides in facts.scattered:
        common: Floats | float = 64.0
        pixels: Floats | float = 1.0
        reached: Floats | float = 1.0
        for i, apart in strides:
            size = shape.sizes[i]
            pixels = pixels * size
            if apart < 64:
                common = np.minimum(common, np.where(size > 1, apart, 64.0))
                reached = reached * np.minimum(size, 64 // apart)
        lines = lines + pixels
        sets = np.maximum(sets, np.minimum(64 / common, reached))
    crowds = np.asarray(lines >= machine.l1_ways * sets)
    return crowds if crowds.ndim else np.full(shape.nest.count, crowds)


def version_cycles(
    facts: BlockFacts,
    pixels: Floats,
    vectors: Floats,
    machine: Machine,
    step: StepCycles,
    shape: TileShape,
) -> Floats:
    """Cycles per reduction step of a tile version, without stalls; at most the full tile's.

    ``step`` is that of the full tile, which has the register tile's ``shape``.
    """
    work = pixels * vectors
    busy = facts.busy(work, vectors, machine, shape)
    if facts.windows:
        loads = step.base * work / shape.work
    else:
        single = np.where(work + vectors < machine.registers, pixels, work)
        loads = single / machine.broadcast_ports + vectors / machine.load_ports
        if isinstance(step.scattered, np.ndarray):
            loads = loads + step.scattered * work / shape.work
    return np.minimum(np.maximum(together(busy, loads), step.wait), step.base)


def together(busy: Floats, loads: Floats) -> Floats:
    """Cycles of instructions, or of data on their way, that go on beside each other.

    The slower of the two decides, but where they are about equal each waits for the other now and
    then: a fifth more.
    """
    both = np.square(np.square(busy)) + np.square(np.square(loads))
    return np.asarray(np.sqrt(np.sqrt(both)))
