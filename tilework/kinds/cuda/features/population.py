"""Counts and terms of all kernels of a sketch, for all rows of a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np

from tilework.frozen import frozen
from tilework.kinds.cuda.architectures import ArchLimits
from tilework.kinds.cuda.features.across import across_counts
from tilework.kinds.cuda.features.constants import CONSTANTS, Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.flat import flat_counts
from tilework.kinds.cuda.features.lanes import Floats
from tilework.kinds.cuda.features.mma import mma_counts
from tilework.kinds.cuda.features.rows import rows_counts
from tilework.kinds.cuda.features.terms import KernelCounts, combined, kernel_of
from tilework.kinds.cuda.features.tiled import tiled_counts
from tilework.kinds.cuda.target import CudaTarget
from tilework.kinds.cuda.tiling import form_of
from tilework.space.decision import Rows
from tilework.space.nest import BlockNest
from tilework.space.sketch import Sketch

_TOGETHER = 2048
"""Rows whose lanes are in the processor's caches at a time."""


@frozen(eq=False)
class Cost:
    """One kernel of a sketch, for P rows: loops, counts, terms, and seconds."""

    nest: BlockNest
    counts: Counts
    kernel: KernelCounts
    seconds: Floats


def costs(
    sketch: Sketch,
    rows: Rows,
    registers: Floats | None = None,
    spills: Floats | None = None,
) -> list[list[Cost]]:
    """Costs of every kernel of a sketch, for some rows after the others: few enough for caches.

    The last counts are kept, because a population's features and draft scores are asked for one
    after the other and share all of the work.

    Args:
        sketch: whose kernels.
        rows: P rows.
        registers: of a thread of each kernel (P x S), where they are known.
        spills: registers that did not fit (P x S), where they are known.
    """
    known = _population(sketch, rows)
    if registers is None and spills is None:
        if known.costs is None:
            known.costs = _scored(known, None, None)
        return known.costs
    return _scored(known, registers, spills)


@dataclass(eq=False)
class _Population:
    """Rows of a sketch, what has been counted of them, and what that costs."""

    sketch: Sketch
    rows: Rows
    counted: list[list[tuple[BlockNest, Counts]]]
    costs: list[list[Cost]] | None = None


def _scored(
    known: _Population, registers: Floats | None, spills: Floats | None
) -> list[list[Cost]]:
    target = CudaTarget.of(known.sketch.target)
    outputs = {t.op for t in known.sketch.dag.outputs}
    out, at = [], 0
    for counted in known.counted:
        blocks, here = [], slice(at, at + counted[0][0].count)
        for s, (nest, counts) in enumerate(counted):
            own = None if registers is None else np.asarray(registers[here, s], np.float64)
            lost = None if spills is None else np.asarray(spills[here, s], np.float64)
            kernel = kernel_of(nest, counts, target, outputs, CONSTANTS, own, lost)
            blocks.append(Cost(nest, counts, kernel, combined(kernel.parts, CONSTANTS)))
        out.append(blocks)
        at = here.stop
    return out


def _population(sketch: Sketch, rows: Rows) -> _Population:
    global _last
    known = _last
    same = known is not None and known.sketch is sketch
    if known is not None and same and np.array_equal(known.rows, rows):
        return known
    limits, counted = CudaTarget.of(sketch.target).limits, []
    for first in range(0, max(len(rows), 1), _TOGETHER):
        nests = sketch.nests(rows[first : first + _TOGETHER])
        counted.append([(nest, block_counts(nest, limits)) for nest in nests])
    _last = _Population(sketch, np.array(rows), counted)
    return _last


_last: _Population | None = None


def block_counts(nest: BlockNest, limits: ArchLimits, constants: Constants = CONSTANTS) -> Counts:
    """Counts of one block's kernel."""
    match form_of(nest.block):
        case "tiled":
            return tiled_counts(nest, limits, constants)
        case "across":
            return across_counts(nest, constants)
        case "rows":
            return rows_counts(nest, constants)
        case "direct" | "transform" | "points" | "ragged":
            return flat_counts(nest, constants)
        case "mma":
            return mma_counts(nest, constants)
        case form:
            assert_never(form)
