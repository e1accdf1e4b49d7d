"""The feature matrix of a population, and the costs that it is made of.

Machines compare by ratios, so that what was learnt on one says something on another: cycles are
shares of the block's own cycles, bytes of data are shares of the caches, accumulators of the
registers, vectors of the lanes. How long a block takes is no feature; see `block_seconds`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.cost import BlockCost, block_cost
from tilework.kinds.cpu.features.handover import handover_cycles
from tilework.kinds.cpu.machine import Machine
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch

_ACCESSES = range(3)


def block_costs(sketch: Sketch, rows: Rows, machine: Machine) -> list[BlockCost]:
    """Costs of every block of the sketch on a machine, each an array over the rows.

    The last result is kept, because a population's features and draft scores are asked for one
    after the other and share all of the work.
    """
    global _last
    known = _last
    if known is not None and known[:2] == (sketch, machine) and np.array_equal(known[2], rows):
        return known[3]
    nests = sketch.nests(rows)
    waits = handover_cycles(nests, machine)
    found = [
        replace(t, seconds=t.seconds + wait / machine.clock_hz)
        for t, wait in zip((block_cost(nest, machine) for nest in nests), waits, strict=True)
    ]
    _last = (sketch, machine, np.array(rows), found)
    return found


_last: tuple[Sketch, Machine, Rows, list[BlockCost]] | None = None


def block_seconds(found: list[BlockCost]) -> NDArray[np.float64]:
    """Predicted seconds of each block: P x S."""
    return np.stack([t.seconds for t in found], axis=1)


def feature_matrix(
    sketch: Sketch, found: list[BlockCost], machine: Machine
) -> NDArray[np.float32]:
    """Features from terms: float32 of shape (P, S, F) for S blocks; see `FEATURE_NAMES`."""
    count = len(found[0].seconds)
    out = np.empty((count, len(found), len(FEATURE_NAMES)), np.float32)
    total = np.log2(np.sum([t.seconds for t in found], axis=0)).astype(np.float32)
    by = np.log2([machine.registers, machine.l1_bytes, machine.l2_bytes, machine.lanes])
    registers, l1, l2, lanes = by.astype(np.float32)
    for s, (block, t) in enumerate(zip(sketch.blocks, found, strict=True)):
        named = {"compute": t.compute, "finish": t.finish, "attached": t.attached,
                 "chunks": t.chunks, "balance": t.balance, **t.extra,
                 **{f"traffic_l{i + 1}": moved for i, moved in enumerate(t.traffic)}}  # fmt: skip
        log = np.empty((len(_TERMS), count), np.float32)
        for row, name in zip(log, _TERMS, strict=True):
            row[:] = named[name]
        log += 1.0
        np.log2(log, out=log)
        seconds = np.log2(t.seconds).astype(np.float32)
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
        columns[at + 1] = np.log2(block.dots.count if block.dots is not None else 1)
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
