"""Rows improved step by step by what a draft says of their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tilework.model.base import Rows

GOING = 4
"""Of rows that a step has improved, so many are improved further."""
STEPS, GAIN = 4, 1.02
"""Steps at most, and what one of the later ones has to gain for another: most gain little."""


class Seconds(Protocol):
    """By what rows are compared."""

    def seconds(self, sketch: Any, rows: Any) -> NDArray[np.float64]:
        """Predicted run time of P rows, in seconds."""


class Around(Protocol):
    """What a row's neighbours are."""

    def neighbours(self, rows: Rows) -> Sequence[Rows]:
        """Of each row, all valid rows that differ from it in exactly one decision."""


class Seen(NamedTuple):
    """Rows of a sketch that were looked at, and their seconds."""

    rows: Rows
    seconds: NDArray[np.float64]


def climbed(
    sketch: Around,
    starts: Sequence[tuple[float, Rows]],
    draft: Seconds,
    seen: list[Seen],
    few: int = STEPS,
) -> list[tuple[float, Rows]]:
    """What rows of so many seconds become by a few steps, each to its best neighbour.

    A step of all of them is one question to the draft.

    Args:
        sketch: says what neighbours are.
        starts: the rows.
        draft: compares neighbours.
        seen: what it says is added here.
        few: steps after which each has to gain something (`GAIN`).
    """
    bests, before = list(starts), dict[int, Rows]()
    going = list(range(len(bests)))
    for step in range(1, STEPS + 1):
        first = min(seconds for seconds, _ in bests)
        around = sketch.neighbours(np.stack([bests[i][1] for i in going]))
        new = (
            _new(rows, bests[i][1], before.get(i)) for i, rows in zip(going, around, strict=True)
        )
        near = {i: rows for i, rows in zip(going, new, strict=True) if len(rows)}
        if not near:
            break
        together = np.concatenate(list(near.values()))
        times = draft.seconds(sketch, together)
        seen.append(Seen(together, times))
        ends = np.cumsum([len(rows) for rows in near.values()])
        better: dict[bytes, int] = {}
        for (i, rows), mine in zip(near.items(), np.split(times, ends[:-1]), strict=True):
            best = int(np.argmin(mine))
            if mine[best] < bests[i][0]:
                before[i] = bests[i][1]
                bests[i] = float(mine[best]), rows[best]
                better.setdefault(rows[best].tobytes(), i)
        going = sorted(better.values(), key=lambda i: bests[i][0])[:GOING]
        if not going or (step >= few and GAIN * min(bests[i][0] for i in going) > first):
            break
    return bests


def _new(near: Rows, row: Rows, before: Rows | None) -> Rows:
    """Neighbours of a row that are none of the row that it was: these have been looked at."""
    if before is None:
        return near
    moved = row != before
    new: Rows = near[(near[:, moved] == row[moved]).all(axis=1)]
    return new
