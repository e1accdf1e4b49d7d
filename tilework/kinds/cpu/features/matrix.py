"""The feature matrix of a population, and the costs that it is made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cpu.features.cost import BlockCost, block_cost
from tilework.kinds.cpu.features.handover import handover_cycles
from tilework.kinds.cpu.machine import Machine
from tilework.space.decision import Rows
from tilework.space.sketch import Sketch


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


def feature_matrix(found: list[BlockCost]) -> NDArray[np.float32]:
    """Features from terms: float32 of shape (P, S, F) for S blocks; logarithms of the terms."""
    out = np.empty((len(found[0].seconds), len(found), len(FEATURE_NAMES)), np.float32)
    total = np.log2(np.sum([t.seconds for t in found], axis=0) * 1e9)
    for s, t in enumerate(found):
        columns = [t.compute, t.finish, t.attached, *t.traffic, t.chunks, t.balance,
                   *t.extra.values()]  # fmt: skip
        for c, column in enumerate(columns):
            out[:, s, c] = np.log2(column + 1.0)
        out[:, s, len(columns)] = np.log2(t.seconds * 1e9)
        out[:, s, len(columns) + 1] = total
    return out


FEATURE_NAMES: tuple[str, ...] = (
    "compute", "finish", "attached", "traffic_l1", "traffic_l2", "traffic_l3", "chunks",
    "balance", "pixels", "vectors", "accumulators", "step_cycles", "step_loads", "guarded_loads",
    "unrolled_steps", "reduce_points", "reduce_inner", "reduce_visits", "tiles", "wasted_slots",
    "threads", "scratch", "unroll", "parallel", "memory_l2", "memory_l3", "memory_dram",
    *(f"{kind}_{i}" for i in range(3) for kind in ("footprint", "traffic_0", "traffic_1")),
    *(f"s{back}_{level}" for back in range(3) for level in range(4)),
    *(f"r{back}_{level}" for back in range(3) for level in range(2)),
    "draft_block", "draft_total",
)  # fmt: skip
"""Column names of the feature matrix: log2(1 + term); the two draft columns are log2 of ns."""
