"""The feature matrix of a population."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cuda.features.lanes import Floats
from tilework.kinds.cuda.features.population import Cost
from tilework.kinds.cuda.features.terms import TERMS
from tilework.kinds.cuda.tiling import FORMS, form_of
from tilework.space.levels import Role
from tilework.space.nest import BlockNest

_KERNEL = ("registers", "spills", "resident", "waves", "busiest", "dram_bytes")
_GEOMETRY = (
    "threads", "grid", "shared", "accumulators", "fragments", "expanded", "overhang",
)  # fmt: skip
_COUNTS = (
    "multiply_adds", "instructions", "calls", "lds", "sts", "ldg", "stg", "shared_wavefronts",
    "l1_cycles", "l2_bytes", "chain", "fetches", "terms", "barriers", "hmma",
)  # fmt: skip
_OPERANDS = (
    "conflicts", "fragment_width", "coalescing", "fetch_rounds", "fetch_width", "store_waves",
    "box", "direct_sectors",
)  # fmt: skip
_EXTRA = (
    *(f"{name}_{i}" for i in range(2) for name in _OPERANDS),
    "store_sectors",
    "store_width",
    "in_flight",
    "batch",
)
_LEVELS = (Role.virtual, Role.thread, Role.register)
_EXTENTS = (
    *(f"s{back}_{role}" for back in range(3) for role in _LEVELS),
    *(f"r{back}" for back in range(2)),
)

FEATURE_NAMES: tuple[str, ...] = (
    *FORMS, *_GEOMETRY, *_KERNEL, *_COUNTS, *_EXTRA, *_EXTENTS,
    *(f"seconds_{name}" for name in TERMS if name != "launch"),
    "draft_block", "draft_total",
)  # fmt: skip
"""Column names of the feature matrix: log2(1 + number), but log2(1 + ns) for seconds; forms are 0
or 1."""


def feature_matrix(costs: list[Cost]) -> NDArray[np.float32]:
    """Features from costs: float32 of shape (P, S, F) for S blocks."""
    count = len(costs[0].seconds)
    out = np.empty((count, len(costs), len(FEATURE_NAMES)), np.float32)
    total = np.sum([c.seconds for c in costs], axis=0)
    for s, cost in enumerate(costs):
        columns = _numbers(cost)
        own = form_of(cost.nest.block)
        for c, name in enumerate(FORMS):
            out[:, s, c] = name == own
        at = len(FORMS)
        values = np.stack([*columns, *_times(cost, total)], axis=1)
        out[:, s, at:] = np.log2(values + 1.0)
    return out


def _numbers(cost: Cost) -> list[Floats]:
    nothing = np.zeros(cost.nest.count)
    return [
        *(np.asarray(getattr(cost.counts.geometry, n), np.float64) for n in _GEOMETRY),
        *(getattr(cost.kernel, n) for n in _KERNEL),
        *(getattr(cost.counts, n) for n in _COUNTS),
        *(cost.counts.extra.get(n, nothing) for n in _EXTRA),
        *_extents(cost.nest),
    ]


def _times(cost: Cost, total: Floats) -> list[Floats]:
    parts = [cost.kernel.parts[name] for name in TERMS if name != "launch"]
    return [t * 1e9 for t in (*parts, cost.seconds, total)]


def _extents(nest: BlockNest) -> list[Floats]:
    """Loops by position: of the last three spatial axes, and of the last two reduce axes."""
    one = np.ones(nest.count)
    levels = {level.role: n for level, n in nest.block.levels.numbered if level.kind == "S"}
    out: list[Floats] = []
    for back in range(3):
        axes = nest.block.spatial
        own = nest.tiles[axes[-1 - back]] if back < len(axes) else ()
        for role in _LEVELS:
            at = levels.get(role)
            out.append(own[at] * 1.0 if at is not None and at < len(own) else one)
    for back in range(2):
        axes = nest.block.reduce
        out.append(nest.tiles[axes[-1 - back]][-1] * 1.0 if back < len(axes) else one)
    return out
