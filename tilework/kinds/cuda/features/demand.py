"""What is known of a kernel's registers before it is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cuda.architectures import ArchLimits, most_registers
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.facts import block_facts
from tilework.kinds.cuda.geometry import least_blocks, level_product, registers_asked
from tilework.kinds.cuda.registers import demand
from tilework.kinds.cuda.tiling import FORMS, form_of
from tilework.space.levels import Role
from tilework.space.nest import BlockNest

_FURTHER = (
    "in_flight",
    "batch",
    "store_width",
    *(f"{n}_{i}" for n in ("fetch_rounds", "fetch_width", "fragment_width") for i in (0, 1)),
)


def register_inputs(nest: BlockNest, counts: Counts, limits: ArchLimits) -> dict[str, Any]:
    """Numbers by the names of `tilework.kinds.cuda.registers.INPUTS`."""
    facts, g, block = block_facts(nest.block), counts.geometry, nest.block
    staged = sum((nest.values[f"stage{i}"] > 0) * 1 for i in range(len(facts.reads))
                 if f"stage{i}" in nest.values)  # fmt: skip
    numbers: dict[str, Any] = {
        "counted": counts.registers,
        "accumulators": g.accumulators,
        "fragments": g.fragments,
        "expanded": g.expanded,
        "copies": g.expanded / np.maximum(g.accumulators, 1),
        "threads": g.threads,
        "most": most(nest, counts, limits),
        "fetches": counts.fetches,
        "terms": counts.terms,
        "bodies": counts.rounds / np.maximum(counts.fetches, 1.0),
        "virtual": level_product(nest, Role.virtual),
        "staged": staged,
        "reads": len(facts.reads),
        "finish_reads": len(facts.finish_reads),
        "guards": facts.guards,
        "dimensions": len(facts.write.shape),
        "calls": facts.term_calls + facts.finish_calls,
        "hmma": counts.hmma / np.maximum(counts.fetches, 1.0),
        "form": FORMS.index(form_of(block)),
        "arch": limits.number,
    }
    for name in _FURTHER:
        numbers[name] = counts.extra.get(name, 0.0)
    return numbers


def most(nest: BlockNest, counts: Counts, limits: ArchLimits) -> NDArray[np.int64]:
    """Registers that a thread may take."""
    threads = counts.geometry.threads
    blocks = least_blocks(threads, registers_asked(nest))
    return np.maximum(most_registers(limits, np.maximum(threads, 1), blocks), 16)


def expected_registers(
    nest: BlockNest, counts: Counts, limits: ArchLimits
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Registers of a thread, and those that will not fit, for P rows."""
    wanted = demand(register_inputs(nest, counts, limits), nest.count)
    bound = most(nest, counts, limits)
    return np.minimum(np.maximum(np.ceil(wanted), 16.0), bound), np.maximum(wanted - bound, 0.0)
