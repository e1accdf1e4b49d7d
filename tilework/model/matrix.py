"""What a fit looks at: rows of blocks, and what is known of their programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.model.base import Floats
from tilework.model.columns import behind
from tilework.model.objective import Packs
from tilework.model.observed import Group, ObservedTask, Programs


@frozen(eq=False)
class Matrix:
    """What a fit looks at: rows of blocks, and what is known of their programs.

    Attributes:
        columns: R x C.
        packs: the programs.
        groups: names of the packs' groups, in the order of their numbers.
        best_s: lowest drafted seconds of each group.
    """

    columns: NDArray[np.float32]
    packs: Packs
    groups: list[Group]
    best_s: Floats

    def of_target(self, target: str) -> NDArray[np.intp]:
        """Numbers of a target's groups."""
        return np.flatnonzero([group.target == target for group in self.groups])

    def some(self, chosen: NDArray[np.intp]) -> Matrix:
        """The packs of some groups; one that is named twice counts twice."""
        packs = self.packs
        starts = packs.starts
        members = [np.flatnonzero(packs.group == group) for group in chosen]
        where = np.concatenate(members)
        sizes = packs.sizes[where]
        first = np.cumsum(sizes) - sizes
        rows = np.repeat(starts[where] - first, sizes) + np.arange(sizes.sum())
        group = np.repeat(np.arange(len(chosen)), [len(m) for m in members])
        return Matrix(
            self.columns[rows],
            Packs(sizes, packs.block_s[rows], packs.latency_s[where], group),
            [self.groups[g] for g in chosen],
            self.best_s[chosen],
        )


def training_set(
    tasks: Mapping[Group, ObservedTask], most: int, *, draft: bool = True
) -> Matrix | None:
    """Of each group as many programs as fit, by group, sketch and order of measurement.

    Args:
        tasks: what was observed.
        most: programs, of all groups together.
        draft: whether the draft's word counts; without, a group's best comes from its column.

    Returns:
        None if nothing was observed.
    """
    quota = even_quota([len(task) for task in tasks.values()], most)
    parts: list[tuple[Group, float, list[Programs]]] = []
    for group in sorted(tasks):
        task = tasks[group]
        if len(task):
            parts.append((group, task.reference_s, task.selected(quota)))
    if not parts:
        return None
    tables, blocks, sizes, latency, groups = [], [], [], [], []
    for number, (_, best_s, programs_of) in enumerate(parts):
        if not draft:
            best_s = _drafted_best(programs_of)
        for programs in programs_of:
            count, block_count, width = programs.columns.shape
            table = programs.columns.reshape(count * block_count, width).copy()
            tables.append(behind(table, best_s))
            blocks.append(programs.block_s.reshape(-1))
            sizes.append(np.full(count, block_count))
            latency.append(programs.latency_s)
            groups.append(np.full(count, number))
    packs = Packs(
        np.concatenate(sizes), np.concatenate(blocks), np.concatenate(latency),
        np.concatenate(groups),
    )  # fmt: skip
    best = [best_s if draft else _drafted_best(programs_of) for _, best_s, programs_of in parts]
    return Matrix(np.concatenate(tables), packs, [p[0] for p in parts], np.array(best))


def _drafted_best(some: Sequence[Programs]) -> float:
    """Lowest drafted seconds, from the column that holds their logarithm."""
    return float(2.0 ** min(float(p.columns[:, :, -2].min()) for p in some))


def even_quota(counts: Iterable[int], room: int) -> int:
    """Largest share of each such that all together, none larger than it is, fit into ``room``."""
    ordered = sorted(counts)
    for position, count in enumerate(ordered):
        share = room // (len(ordered) - position)
        if count > share:
            return max(1, share)
        room -= count
    return ordered[-1] if ordered else 1
