"""What a cost model remembers of one task."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilework.model.base import Floats
from tilework.model.metrics import labels_of


@dataclass(eq=False)
class ObservedTask:
    """Observations of one task; a candidate measured twice keeps its better latency.

    Attributes:
        packs: features of each candidate, blocks x columns.
        draft_s: seconds by the analytic model.
        latency_s: measured seconds, inf for a failure.
        order: position among the task's measurements.
        index: position of each candidate in these lists, by sketch and row.
    """

    packs: list[NDArray[np.float32]] = field(default_factory=list)
    draft_s: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    index: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def add(
        self,
        key: tuple[int, bytes],
        pack: NDArray[np.float32],
        draft_s: float,
        latency: float,
        order: int,
    ) -> None:
        """Remember one measurement."""
        known = self.index.get(key)
        if known is not None:
            self.latency_s[known] = min(self.latency_s[known], latency)
            return
        self.index[key] = len(self.packs)
        self.packs.append(pack)
        self.draft_s.append(draft_s)
        self.latency_s.append(latency)
        self.order.append(order)

    @property
    def reference_s(self) -> float:
        """Lowest drafted seconds: where the draft's relative throughput is 1."""
        return min(self.draft_s)

    def selected(self, quota: int) -> tuple[list[NDArray[np.float32]], Floats, Floats]:
        """Packs, labels and drafted throughputs of at most ``quota`` records, oldest first."""
        order = np.argsort(self.order, kind="stable")
        labels = labels_of(self.latency_s)[order]
        keep = best_and_latest(labels, quota)
        drafted = (self.reference_s / np.array(self.draft_s))[order]
        return [self.packs[i] for i in order[keep]], labels[keep], drafted[keep]


def best_and_latest(labels: Floats, quota: int) -> NDArray[np.intp]:
    """Indices of at most ``quota`` records: the better half by label, then the newest others."""
    if len(labels) <= quota:
        return np.arange(len(labels))
    best = np.argsort(-labels, kind="stable")[: quota - quota // 2]
    others = np.setdiff1d(np.arange(len(labels)), best)
    return np.union1d(best, others[len(others) - quota // 2 :])
