"""The feature matrix of a population, and the costs that it is made of.

Machines compare by ratios, so that what was learnt on one says something on another: cycles are
shares of the block's own cycles, bytes of data are shares of the caches, accumulators of the
registers, vectors of the lanes. How long a block takes is no feature; see `SketchCost.seconds`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.cache import BoundedCache
from tilework.frozen import frozen
from tilework.kinds.cpu.features.cost import BlockCost
from tilework.kinds.cpu.features.handover import handover_cycles
from tilework.kinds.cpu.features.slabs import slab_seconds
from tilework.kinds.cpu.machine import Machine
from tilework.once import cached_property
from tilework.space.blocks import Block
from tilework.space.decision import Rows
from tilework.space.nest import BlockRows
from tilework.space.sketch import Sketch

_ACCESSES = range(3)


@frozen(eq=False)
class SketchCost:
    """What rows of a sketch cost, block by block.

    Attributes:
        sketch, rows, machine: of what, and where.
        parts: the rows as each block sees them.
        blocks: cost of each block, for the rows that differ in it.
    """

    sketch: Sketch
    rows: Rows
    machine: Machine
    parts: list[BlockRows]
    blocks: list[BlockCost]

    @staticmethod
    def of(sketch: Sketch, rows: Rows, machine: Machine) -> SketchCost:
        """The cost of rows on a machine.

        The last result is kept, because a population's features and draft scores are asked for one
        after the other and share all of the work.
        """
        global _last
        known = _last
        same = known is not None and known.sketch is sketch and known.machine == machine
        if known is not None and same and np.array_equal(known.rows, rows):
            return known
        parts = sketch.programs.parts(rows)
        blocks = [_block_cost(part, machine) for part in parts]
        cost = _last = SketchCost(sketch, np.array(rows), machine, parts, blocks)
        return cost

    @cached_property
    def seconds(self) -> list[NDArray[np.float64]]:
        """Predicted seconds of each block and row."""
        out = [p.of_all(t.seconds) for p, t in zip(self.parts, self.blocks, strict=True)]
        if len(out) > 1:
            waits = handover_cycles(self.parts, self.machine)
            out = [t + w / self.machine.clock_hz for t, w in zip(out, waits, strict=True)]
        slabs = self.sketch.slabs
        return out if slabs is None else slab_seconds(out, slabs, self.machine)


_last: SketchCost | None = None
_KEPT: BoundedCache[tuple[Block, Machine, bytes], BlockCost] = BoundedCache(
    1 << 14, weight=lambda cost: cost.nest.count
)
"""Of blocks that tell few rows apart: each step of a search asks for the same ones."""


def _block_cost(part: BlockRows, machine: Machine) -> BlockCost:
    if not part.key:
        return BlockCost(part.nest, machine)
    key = part.nest.block, machine, part.key
    return _KEPT.get_or_make(key, lambda: BlockCost(part.nest, machine))


def feature_matrix(cost: SketchCost) -> NDArray[np.float32]:
    """Features from terms: float32 of shape (P, S, F) for S blocks; see `FEATURE_NAMES`."""
    machine, blocks = cost.machine, cost.blocks
    count = len(cost.rows)
    out = np.empty((count, len(blocks), len(FEATURE_NAMES)), np.float32)
    total = np.log2(np.sum(cost.seconds, axis=0)).astype(np.float32)
    by = np.log2([machine.registers, machine.l1_bytes, machine.l2_bytes, machine.lanes])
    registers, l1, l2, lanes = by.astype(np.float32)
    for s, (part, t) in enumerate(zip(cost.parts, blocks, strict=True)):
        named = t.terms()
        terms = np.empty((len(_TERMS), part.nest.count), np.float32)
        for row, name in zip(terms, _TERMS, strict=True):
            row[:] = named[name]
        terms += 1.0
        log = part.of_all(np.log2(terms, out=terms))
        seconds = np.log2(cost.seconds[s]).astype(np.float32)
        columns = np.empty((len(FEATURE_NAMES), count), np.float32)
        at = 0
        for where, less in (
            (_AT_PLAIN, None),
            (_AT_CYCLES, seconds + np.float32(np.log2(machine.clock_hz))),
            (_AT_IN_REGISTERS, registers),
            (_AT_PER_ACCUMULATOR, log[_AT_ACCUMULATORS]),
            (_AT_TRAFFIC, log[_AT_COMPUTE]),
            (_AT_FOOTPRINTS, l1),
            (_AT_FOOTPRINTS, l2),
            (_AT_SCRATCH, l1),
            (_AT_GUARDED, log[_AT_LOADS]),
            (_AT_WIDTH, lanes),
        ):
            here = columns[at : at + len(where)]
            here[:] = log[where]
            if less is not None:
                here -= less
            at += len(where)
        columns[at] = seconds - total
        dots = part.nest.block.dots
        columns[at + 1] = np.log2(dots.count if dots is not None else 1)
        out[:, s, :] = columns.T
    return out


_PLAIN = (
    "chunks", "balance", "pixels", "vectors", "accumulators", "step_cycles", "step_loads",
    "guarded_loads", "unrolled_steps", "reduce_inner", "reduce_visits", "wasted_slots", "threads",
    "scratch", "unroll", "parallel",
    *(f"s{back}_{level}" for back in range(3) for level in range(4)),
    *(f"r{back}_{level}" for back in range(3) for level in range(2)),
)  # fmt: skip
_CYCLES = ("compute", "finish", "attached", "memory_l2", "memory_l3", "memory_dram")
_IN_REGISTERS = ("accumulators", "vectors", "pixels")
_PER_ACCUMULATOR = ("step_cycles", "step_loads")
_TRAFFIC = (
    *(f"traffic_l{level}" for level in (1, 2, 3)),
    *(f"traffic_{level}_{i}" for i in _ACCESSES for level in range(2)),
)

FEATURE_NAMES: tuple[str, ...] = (
    *_PLAIN,
    *(f"{name}_share" for name in _CYCLES),
    *(f"{name}_of_registers" for name in _IN_REGISTERS),
    *(f"{name}_per_accumulator" for name in _PER_ACCUMULATOR),
    *(f"{name}_per_cycle" for name in _TRAFFIC),
    *(f"footprint_{i}_of_{cache}" for cache in ("l1", "l2") for i in _ACCESSES),
    "scratch_of_l1", "guarded_share", "width_of_lanes", "block_share", "points_per_step",
)  # fmt: skip
"""Column names of the feature matrix: log2(1 + term), or the difference of two such numbers."""

_TERMS = (
    *_PLAIN,
    *_CYCLES,
    *_TRAFFIC,
    *(f"footprint_{i}" for i in _ACCESSES),
)
"""Terms of which logarithms are taken, each once."""


def _at(*names: str) -> NDArray[np.intp]:
    return np.array([_TERMS.index(name) for name in names], np.intp)


_AT_PLAIN, _AT_CYCLES, _AT_TRAFFIC = _at(*_PLAIN), _at(*_CYCLES), _at(*_TRAFFIC)
_AT_IN_REGISTERS, _AT_PER_ACCUMULATOR = _at(*_IN_REGISTERS), _at(*_PER_ACCUMULATOR)
_AT_FOOTPRINTS = _at(*(f"footprint_{i}" for i in _ACCESSES))
_AT_SCRATCH, _AT_GUARDED, _AT_WIDTH = _at("scratch"), _at("guarded_loads"), _at("s0_3")
_AT_ACCUMULATORS, _AT_COMPUTE, _AT_LOADS = (
    _TERMS.index(name) for name in ("accumulators", "compute", "step_loads")
)
