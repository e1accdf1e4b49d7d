"""Counts of products on tensor cores."""

from __future__ import annotations

import numpy as np

from tilework.kinds.cuda.architectures import WARP
from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.coverage import coverage
from tilework.kinds.cuda.features.facts import Access, block_facts, comparisons
from tilework.kinds.cuda.features.lanes import Floats, Lanes
from tilework.kinds.cuda.features.memory import add_loads, add_stores
from tilework.kinds.cuda.geometry import geometry
from tilework.kinds.cuda.mma.instructions import COLUMNS, INSTRUCTIONS, ROWS
from tilework.kinds.cuda.mma.tile import Tiles
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis

_WAVEFRONT_BYTES = 128
_MATRICES = 4
"""That one ``ldmatrix`` brings, each in a wavefront."""
_RESULT_LATENCY = 33.0
"""Cycles until an instruction's sums can be used by the next one."""
_REGISTERS = (1.03, 3.7, 26.0)
"""Of a thread, for each accumulator, each piece that it fetches of one stage, and beside these:
least squares over 252 kernels for sm_80 and sm_90, random ones and those that the draft likes.
Half of them are within a tenth of it, four in five within a fifth. Fragments add nothing to it."""


def mma_counts(nest: BlockNest, constants: Constants) -> Counts:
    """Counts of a product's kernel."""
    counts, tiles = Counts.none(geometry(nest)), Tiles.of(nest)
    fetches, steps = tiles.fetches * 1.0, tiles.block_k / tiles.product.step
    counts.fetches, counts.terms = fetches, tiles.block_k * 1.0
    counts.hmma = fetches * tiles.multiplied
    counts.tensor = counts.hmma * INSTRUCTIONS[tiles.product.kind].cost
    counts.barriers = fetches
    counts.rounds = fetches
    counts.instructions = fetches * constants.loop_instructions + tiles.accumulators
    _fragments(counts, tiles, steps)
    pieces = _fetches(counts, tiles, constants)
    parts = (tiles.accumulators, pieces, np.ones(nest.count))
    counts.registers = np.sum([r * p for r, p in zip(_REGISTERS, parts, strict=True)], axis=0)
    counts.live = tiles.accumulators + tiles.fragments + 32.0
    _finish(counts, nest, tiles, constants)
    counts.chain = _chain(nest, tiles, steps, constants)
    return counts


def _fragments(counts: Counts, tiles: Tiles, steps: Floats) -> None:
    """Operands from shared memory into registers."""
    product = tiles.product
    sides = (
        (product.a, tiles.warp_m / ROWS),
        (product.b, tiles.warp_n / (2 * COLUMNS)),
    )
    for number, (factor, groups) in enumerate(sides):
        words = factor.along == "outer" and factor.itemsize == 4
        loads = tiles.fetches * steps * groups * (_MATRICES if words else 1)
        waves = loads * (1 if words else _MATRICES)
        counts.lds += loads
        counts.shared_wavefronts += waves * counts.warps
        counts.instructions += loads  # addresses
        if factor.itemsize == 4 and not factor.constant:
            counts.instructions += tiles.fetches * steps * groups * _MATRICES  # rounding
        counts.put(f"fragment_width_{number}", np.full(len(loads), 1.0 if words else 4.0))


def _fetches(counts: Counts, tiles: Tiles, constants: Constants) -> Floats:
    """Operands from memory into shared memory; returns the pieces of a thread in one fetch."""
    _, m, n, _ = tiles.product.extents
    total = np.zeros(len(tiles.threads))
    blocks_m, blocks_n = -(-m // tiles.block_m), -(-n // tiles.block_n)
    sides = (
        (tiles.product.a, tiles.block_m, m / (blocks_m * tiles.block_m)),
        (tiles.product.b, tiles.block_n, n / (blocks_n * tiles.block_n)),
    )
    for number, (factor, size, inside) in enumerate(sides):
        nbytes = size * tiles.block_k * factor.itemsize * 1.0
        pieces = tiles.pieces(factor) * 1.0
        if not factor.whole:  # elements, through registers
            pieces = pieces * tiles.product.piece
            counts.sts += tiles.fetches * pieces
        total = total + pieces
        moved = tiles.fetches * nbytes * inside
        counts.ldg += tiles.fetches * pieces
        counts.l2_bytes += moved
        counts.l1_cycles += moved / constants.l1_bytes
        counts.shared_wavefronts += tiles.fetches * nbytes / _WAVEFRONT_BYTES
        guards = 0 if factor.guard is None else comparisons(factor.guard)
        each = constants.fetch_instructions + constants.guard_instructions * guards
        counts.instructions += tiles.fetches * pieces * each
        counts.put(f"fetch_rounds_{number}", pieces)
        width = tiles.product.piece if factor.whole else 1.0
        counts.put(f"fetch_width_{number}", np.full(len(pieces), width))
        counts.put(f"box_{number}", nbytes / factor.itemsize)
    return total


def _finish(counts: Counts, nest: BlockNest, tiles: Tiles, constants: Constants) -> None:
    """Epilogue and stores: pairs of neighbours along n, of rows of m."""
    facts, product = block_facts(nest.block), tiles.product
    done = tiles.accumulators * 1.0
    width = np.full(nest.count, 2 if product.n[-1].typical % 2 == 0 else 1, np.int64)
    counts.instructions += done * (facts.finish + constants.address_instructions)
    counts.calls += done * facts.finish_calls
    lane = np.arange(WARP)[None, :].repeat(nest.count, axis=0)
    where = {_last(product.n): lane % 4 * 2}
    if product.m:
        where[_last(product.m)] = lane // 4
    for access in facts.finish_reads:
        rows = tiles.block_m if any(a in access.axes for a in product.m) else 1
        unique = rows * tiles.block_n * access.itemsize * 1.0
        addresses = _within(access, where, nest.count)
        add_loads(counts, access, addresses, done / width, unique, constants)
    addresses = _within(facts.write, where, nest.count)
    add_stores(counts, facts.write, addresses, done / width, width)


def _within(access: Access, where: dict[Axis, Lanes], count: int) -> Lanes:
    return np.asarray(access.addresses(where, count), np.int64)


def _last(axes: tuple[Axis, ...]) -> Axis:
    """The innermost axis with more than one point."""
    return next((a for a in reversed(axes) if a.typical > 1), axes[-1])


def _chain(nest: BlockNest, tiles: Tiles, steps: Floats, constants: Constants) -> Floats:
    """Cycles that a block waits: for fragments and sums, and for memory as far as it shows.

    ``stages - 1`` fetches are on their way at a time, so that one arrives at least in every so
    many parts of memory's latency.
    """
    together = (tiles.warp_m // ROWS) * (tiles.warp_n // COLUMNS)
    sums = np.maximum(_RESULT_LATENCY - together * 8.0, 0.0)
    inner = constants.barrier + steps * (constants.shared_latency + sums)
    busy = tiles.multiplied * 8.0 + inner
    exposed = np.maximum(constants.memory_latency / (tiles.stages - 1) - busy, 0.0)
    if not (tiles.product.a.whole and tiles.product.b.whole):  # threads wait for what they store
        exposed = np.full_like(exposed, constants.memory_latency)
    finish = constants.memory_latency if block_facts(nest.block).finish_reads else 0.0
    first = constants.memory_latency + constants.start
    return np.asarray(first + tiles.fetches * (inner + exposed) + finish)


def wave_bytes(nest: BlockNest, access: Access, blocks: Floats) -> Floats:
    """Bytes of an operand if nothing of it is kept from one wave of blocks to the next.

    Args:
        nest: the rows.
        access: the read.
        blocks: that run at a time; neighbours along m first, then along n.
    """
    tiles = Tiles.of(nest)
    product = tiles.product
    batch, m, n, _ = product.extents
    if access.op not in (product.a.read.tensor.op, product.b.read.tensor.op):
        return np.zeros(nest.count)
    blocks_m, blocks_n = np.ceil(m / tiles.block_m), np.ceil(n / tiles.block_n)
    grid = [np.full(nest.count, float(batch)), blocks_n, blocks_m]
    total = tiles.grid * 1.0
    groups, columns, rows = coverage(grid, np.minimum(blocks, total))
    share = rows * tiles.block_m / m
    if access.op is product.b.read.tensor.op:
        share = columns * tiles.block_n / n
    needed = access.touched * access.itemsize * np.minimum(share, 1.0) * groups / batch
    return np.asarray(np.ceil(total / np.maximum(blocks, 1.0)) * needed)
