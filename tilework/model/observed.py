"""What a cost model remembers: programs of one workload on one target and device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.model.base import Floats, Rows
from tilework.model.metrics import labels_of

Columns = NDArray[np.float32]
Positions = NDArray[np.intp]


class Group(NamedTuple):
    """Programs whose latencies compare.

    Attributes:
        workload_key: identity of the workload.
        target: canonical text.
        device: where it was measured; empty where that is one for all.
    """

    workload_key: str
    target: str
    device: str


@frozen(eq=False)
class Programs:
    """Programs of one sketch, N of them, each once.

    Attributes:
        rows: int32, N x D.
        columns: what trees read, N x S x C.
        block_s: drafted seconds of the blocks, N x S.
        latency_s: the lowest measured, inf for a failure.
        order: position among the group's measurements, of the first one.
    """

    rows: Rows
    columns: Columns
    block_s: Floats
    latency_s: Floats
    order: Positions

    def __len__(self) -> int:
        return len(self.rows)

    def joined(self, other: Programs) -> Programs:
        """These and others; a program that both have keeps its better latency."""
        rows = np.concatenate([self.rows, other.rows])
        latency = np.concatenate([self.latency_s, other.latency_s])
        order = np.concatenate([self.order, other.order])
        width = max(1, rows.shape[1]) * rows.itemsize
        plain = np.ascontiguousarray(rows if rows.shape[1] else np.zeros((len(rows), 1), np.int32))
        names = plain.view(np.dtype((np.void, width))).ravel()
        _, first, place = np.unique(names, return_index=True, return_inverse=True)
        best = np.full(len(first), np.inf)
        np.minimum.at(best, place.ravel(), latency)
        turn = np.argsort(first, kind="stable")
        kept = first[turn]
        return Programs(
            rows[kept],
            np.concatenate([self.columns, other.columns])[kept],
            np.concatenate([self.block_s, other.block_s])[kept],
            best[turn],
            order[kept],
        )

    def take(self, where: Positions) -> Programs:
        """Some of the programs."""
        return Programs(
            self.rows[where], self.columns[where], self.block_s[where], self.latency_s[where],
            self.order[where],
        )  # fmt: skip


@dataclass(eq=False)
class ObservedTask:
    """Programs of one group, by sketch."""

    sketches: dict[int, Programs] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self.sketches.values()))

    def add(self, sketch_id: int, programs: Programs) -> None:
        """Remember programs of a sketch."""
        known = self.sketches.get(sketch_id)
        nothing = programs.take(np.arange(0))
        self.sketches[sketch_id] = (nothing if known is None else known).joined(programs)

    @property
    def reference_s(self) -> float:
        """Lowest drafted seconds."""
        return min(float(p.block_s.sum(axis=1).min()) for p in self.sketches.values() if len(p))

    def selected(self, quota: int) -> list[Programs]:
        """At most ``quota`` programs, sketch by sketch, each sketch's oldest first."""
        ids = sorted(self.sketches)
        order = np.concatenate([self.sketches[i].order for i in ids])
        latency = np.concatenate([self.sketches[i].latency_s for i in ids])
        place = np.argsort(order, kind="stable")
        kept = np.zeros(len(order), np.bool_)
        kept[place[best_and_latest(labels_of(latency[place]), quota)]] = True
        chosen, at = [], 0
        for i in ids:
            programs = self.sketches[i]
            where = np.flatnonzero(kept[at : at + len(programs)])
            where = where[np.argsort(programs.order[where], kind="stable")]
            at += len(programs)
            chosen.append(programs if len(where) == len(programs) else programs.take(where))
        return [programs for programs in chosen if len(programs)]


def best_and_latest(labels: Floats, quota: int) -> Positions:
    """Indices of at most ``quota`` records: the better half by label, then the newest others."""
    if len(labels) <= quota:
        return np.arange(len(labels))
    best = np.argsort(-labels, kind="stable")[: quota - quota // 2]
    others = np.setdiff1d(np.arange(len(labels)), best)
    return np.union1d(best, others[len(others) - quota // 2 :])
