"""Counts of kernels whose blocks stage tiles of operands in shared memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilework.index.extents import known
from tilework.kinds.cuda.architectures import ArchLimits
from tilework.kinds.cuda.expansion import expansion
from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.facts import Access, block_facts
from tilework.kinds.cuda.features.fetch import add_fetch
from tilework.kinds.cuda.features.finish import add_finish
from tilework.kinds.cuda.features.lanes import (
    SECTOR_BYTES,
    Floats,
    Lanes,
    digits,
    wavefronts,
)
from tilework.kinds.cuda.features.memory import add_loads, elements, unique_bytes, vector_width
from tilework.kinds.cuda.geometry import geometry, held
from tilework.kinds.cuda.staging import DIRECT, Box, box, fetched, operands, spans
from tilework.space.nest import BlockNest, Ints
from tilework.te.expr import Axis

_TURNS_TOGETHER = 4.0
"""Vectors of an operand that a thread has under way at a time, when nothing else asks for it."""


class _Tile:
    """What all operands of a tiled block share: loops, lanes, expansion."""

    def __init__(self, nest: BlockNest, counts: Counts) -> None:
        self.nest, self.counts = nest, counts
        self.span = spans(nest)
        self.copies = expansion(nest)
        block = nest.block
        ones = np.ones(nest.count)
        self.fetches, self.terms, self.bodies = ones.copy(), ones.copy(), ones.copy()
        for axis in block.reduce:
            outer, inner = nest.tiles[axis]
            self.fetches = self.fetches * outer
            self.terms = self.terms * inner
            self.bodies = self.bodies * np.ceil(inner / self.copies[axis])
        threads = digits([nest.tiles[a][2] for a in block.spatial])
        self.lanes: dict[Axis, Lanes] = {
            a: t * nest.tiles[a][3][:, None] for a, t in zip(block.spatial, threads, strict=True)
        }

    def loads(self, access: Access) -> Floats:
        """Elements that a thread loads of an operand in one fetch."""
        extents: dict[Axis, Ints] = {a: self.nest.tiles[a][3] for a in self.nest.block.spatial}
        extents |= self.copies
        loads = elements(access, extents, self.nest.count) * self.bodies
        for axis in self.nest.block.spatial:
            if axis in access.axes:
                loads = loads * self.nest.tiles[axis][1]
        return loads


def tiled_counts(nest: BlockNest, limits: ArchLimits, constants: Constants) -> Counts:
    """Counts of a tiled block."""
    counts = Counts.none(geometry(nest))
    tile, facts, g = _Tile(nest, counts), block_facts(nest.block), counts.geometry
    steps = tile.fetches * tile.terms
    counts.fetches, counts.terms = tile.fetches, tile.terms
    counts.multiply_adds = g.accumulators * steps * facts.term
    counts.calls = g.accumulators * steps * facts.term_calls
    counts.instructions = tile.fetches * tile.bodies * constants.loop_instructions
    counts.instructions += g.accumulators * 1.0
    any_staged = np.zeros(nest.count, bool)
    waits = np.zeros(nest.count)
    batch = np.zeros(nest.count)
    for i, (operand, access) in enumerate(zip(operands(nest.block), facts.reads, strict=True)):
        staged = nest.values[f"stage{i}"] != DIRECT
        any_staged |= staged
        if staged.any():
            shape = box(nest, i, operand, tile.span)
            _shared_loads(tile, access, shape, staged, i)
            rounds = add_fetch(
                counts, tile.fetches, nest, i, operand, shape, limits.async_copy, constants
            )
            loaded = np.minimum(rounds, _TURNS_TOGETHER) * shape.width * operand.itemsize / 4.0
            batch += np.where(staged, loaded, 0.0)
        if not staged.all():
            _direct_loads(tile, access, ~staged, constants, i)
            waits = np.maximum(waits, np.where(staged, 0.0, _waits(tile, access, constants)))
    counts.barriers = 2.0 * tile.fetches * any_staged
    counts.chain = _chain(tile, any_staged, waits, constants)
    counts.rounds = tile.fetches * tile.bodies
    flight = fetched(nest, g.threads, limits.async_copy).in_flight
    computing = g.accumulators + g.fragments + flight
    fetching = g.accumulators + np.where(nest.values["stages"] > 1, flight, batch)
    counts.registers = np.maximum(computing, fetching) + constants.base_registers
    counts.live = computing + 16.0
    counts.put("in_flight", flight * 1.0)
    counts.put("batch", batch)
    add_finish(counts, nest, tile.lanes, constants)
    return counts


def _shared_loads(
    tile: _Tile,
    access: Access,
    shape: Box,
    staged: np.ndarray[tuple[int], np.dtype[np.bool_]],
    number: int,
) -> None:
    """Loads of fragments from shared memory."""
    counts, nest = tile.counts, tile.nest
    width = _fragment_width(tile, access, shape)
    addresses = np.zeros((nest.count, 32), np.int64)
    for form, stride in zip(access.forms, shape.strides, strict=True):
        assert form is not None
        for axis, c in form.coefficients.items():
            if axis.kind == "spatial":
                addresses += tile.lanes[axis] * (stride * c)[:, None]
    loads = tile.loads(access) / width
    waves = wavefronts(addresses, width, access.itemsize)
    counts.lds += np.where(staged, loads * tile.fetches, 0.0)
    per_block = loads * tile.fetches * waves * counts.warps
    counts.shared_wavefronts += np.where(staged, per_block, 0.0)
    counts.put(f"conflicts_{number}", np.where(staged, waves / width, 0.0))
    counts.put(f"fragment_width_{number}", np.where(staged, width, 0.0))


def _fragment_width(tile: _Tile, access: Access, shape: Box) -> Ints:
    """Neighbours that one load from shared memory takes: along an axis that is expanded."""
    nest = tile.nest
    steps: dict[Axis, Ints] = {}
    for form, stride in zip(access.forms, shape.strides, strict=True):
        assert form is not None
        for axis, c in form.coefficients.items():
            steps[axis] = steps.get(axis, 0) + stride * c
    width = np.ones(nest.count, np.int64)
    for axis in steps:
        if axis.kind == "spatial":
            extent = nest.tiles[axis][3]
        else:
            inner = nest.tiles[axis][-1]
            extent = np.where(tile.copies[axis] == inner, inner, 1)
        for lanes in (2, 4):
            fits = (steps[axis] == 1) & (extent & (lanes - 1) == 0)
            for other, step in steps.items():
                if other is not axis:
                    fits &= (step & (lanes - 1) == 0) | (tile.span[other] == 1)
            width = np.where(fits, np.maximum(width, lanes), width)
    return width


def _direct_loads(
    tile: _Tile,
    access: Access,
    direct: np.ndarray[tuple[int], np.dtype[np.bool_]],
    constants: Constants,
    number: int,
) -> None:
    """Loads of an operand that is not staged."""
    counts, nest = tile.counts, tile.nest
    last = nest.block.spatial[-1] if nest.block.spatial else None
    registers = {a: nest.tiles[a][3] for a in nest.block.spatial}
    width = vector_width(access, last, registers, nest.count)
    loads = tile.loads(access) * tile.fetches / width
    where: Mapping[Axis, Lanes] = tile.lanes
    unique = unique_bytes(access, tile.span, nest.count) * tile.fetches
    addresses = access.addresses(where, nest.count)
    touched = add_loads(counts, access, addresses, loads, unique, constants, direct)
    counts.put(f"direct_sectors_{number}", np.where(direct, touched, 0.0))
    counts.instructions += np.where(direct, loads * constants.address_instructions / 4.0, 0.0)


def _chain(
    tile: _Tile,
    staged: np.ndarray[tuple[int], np.dtype[np.bool_]],
    waits: Floats,
    constants: Constants,
) -> Floats:
    """Latencies that one warp of a block waits for; ``waits`` is what direct loads add."""
    held_points = np.ones(tile.nest.count)
    for axis in tile.nest.block.spatial:
        held_points = held_points * held(tile.nest, axis)
    together = np.minimum(held_points, 4.0)
    dependent = constants.multiply_add_latency * held_points / together
    inner = tile.terms * dependent + np.where(staged, tile.bodies, 0.0) * constants.shared_latency
    fetch = constants.memory_latency + 2 * constants.barrier
    ahead = np.maximum(fetch - inner, constants.barrier)
    exposed = np.where(tile.nest.values["stages"] == 2, ahead, fetch)
    each = np.where(staged, exposed, 0.0) + waits + inner
    return tile.fetches * each + constants.start


def _waits(tile: _Tile, access: Access, constants: Constants) -> Floats:
    """Cycles that a thread waits for direct loads in one fetch.

    Each pass through the loop over terms waits for the first-level cache, and for the second-level
    one as often as it comes to another sector.
    """
    moved = np.zeros(tile.nest.count)
    for form, stride in zip(access.forms, access.strides, strict=True):
        for axis, c in form.coefficients.items() if form is not None else ():
            if axis.kind == "reduce":
                inner = tile.nest.tiles[axis][-1]
                step = np.where(inner > 1, abs(known(c)) * stride * tile.copies[axis], 0)
                moved = np.maximum(moved, step * access.itemsize / SECTOR_BYTES)
    miss = np.minimum(moved, 1.0) * constants.l2_latency
    return tile.bodies * (constants.l1_latency + miss) + constants.l2_latency
