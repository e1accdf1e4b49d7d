"""Rows improved step by step by what a draft says of their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tilework.model.base import Rows

CLIMBS = 4


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
    sketch: Around, starts: Sequence[tuple[float, Rows]], draft: Seconds, seen: list[Seen]
) -> list[tuple[float, Rows]]:
    """What rows of so many seconds become by a few steps, each to its best neighbour.

    A step of all of them is one question to the draft; what it says is added to ``seen``.
    """
    bests = list(starts)
    going = list(range(len(bests)))
    for _ in range(CLIMBS):
        around = sketch.neighbours(np.stack([bests[i][1] for i in going]))
        near = {i: rows for i, rows in zip(going, around, strict=True) if len(rows)}
        if not near:
            break
        together = np.concatenate(list(near.values()))
        times = draft.seconds(sketch, together)
        seen.append(Seen(together, times))
        ends = np.cumsum([len(rows) for rows in near.values()])
        going = []
        for (i, rows), mine in zip(near.items(), np.split(times, ends[:-1]), strict=True):
            best = int(np.argmin(mine))
            if mine[best] < bests[i][0]:
                bests[i] = float(mine[best]), rows[best]
                going.append(i)
        if not going:
            break
    return bests
