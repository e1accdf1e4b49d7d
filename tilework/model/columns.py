"""What the trees read of a program: one row for each of its blocks.

The draft's features of the block, what describes the machine, and two columns on the whole
program: how far the draft puts it behind the best it knows of the task, and how much of the
machine's peak the draft expects of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilework.model.base import Batch, CostModelError

WHOLE = ("draft.behind", "draft.efficiency")
"""The last columns. The first of them is stored as the logarithm of the drafted seconds: what is
the best is not known before all is; see `behind`."""
PEAK = "flops_per_s"
"""Which of the machine's numbers is its peak."""


def names_of(batch: Batch, machine: Mapping[str, float]) -> tuple[str, ...]:
    """Names of the columns."""
    return (*batch.draft.names, *(f"machine.{name}" for name in machine), *WHOLE)


def columns_of(batch: Batch, machine: Mapping[str, float]) -> NDArray[np.float32]:
    """The columns of a batch, P x S x C, contiguous.

    Args:
        batch: the programs.
        machine: what describes their machine; empty if the model is to know nothing of it.

    Raises:
        CostModelError: the draft computes other features than it names.
    """
    features = batch.features
    own, few = len(batch.draft.names), len(WHOLE)
    if features.shape[2] != own:
        raise CostModelError(
            f"the draft model computes {features.shape[2]} features and names {own} of them"
        )
    out = np.empty((*features.shape[:2], own + len(machine) + few), dtype=np.float32)
    out[:, :, :own] = features
    if machine:
        out[:, :, own:-few] = np.log2(list(machine.values())).astype(np.float32)
    log_s = np.log2(batch.draft_s)
    peak = np.log2(machine.get(PEAK, 1.0))
    out[:, :, -2] = log_s[:, None]
    out[:, :, -1] = (np.log2(max(batch.flops, 1.0)) - log_s - peak)[:, None]
    return out


def behind(columns: NDArray[np.float32], best_s: float) -> NDArray[np.float32]:
    """Columns whose first whole-program column is relative to the best drafted seconds.

    In place: ``columns`` are not used again.
    """
    columns[..., -2] -= np.float32(np.log2(best_s))
    return columns
