"""Decisions: what a sketch leaves open, and which columns of a row close it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.space.blocks import Attached
from tilework.te.expr import Axis

Rows = NDArray[np.int32]


@frozen(eq=False)
class Open:
    """A decision of one block before it has columns: a row takes one row of ``choices``.

    Attributes:
        name: what it decides, unique in its block.
        choices: N x C, one choice a row, C columns each.
        kind: ``tile``, or the name under which `BlockNest.values` holds it (``parallel``, ...).
        axis: whose inner factors it chooses, outermost first; None for anything else.
        attached: whose register tile it cuts; None for anything else.
    """

    name: str
    choices: Rows
    kind: str
    axis: Axis | None = None
    attached: Attached | None = None


@frozen(eq=False)
class Decision:
    """One open decision: ``columns`` of the row take together one row of ``choices``.

    ``key`` is equal for the same decision in different sketches of a task; the others are those of
    `Open`.
    """

    name: str
    columns: tuple[int, ...]
    choices: Rows
    kind: str
    key: str = ""
    axis: Axis | None = None
    attached: Attached | None = None

    def nearest(self, values: Rows) -> Rows:
        """For each of some choices of a like decision (P x C) the nearest one of this table.

        Near in the logarithms of all columns; of equally near ones the first. A number that is no
        tile stays what it is, up to the largest.
        """
        if self.kind != "tile":
            most: Rows = self.choices.max(axis=0)
            return np.minimum(values, most)
        wanted, have = np.log2(values + 1.0), np.log2(self.choices + 1.0)
        apart = np.zeros((len(values), len(self.choices)))
        for column in range(have.shape[1]):
            apart += np.abs(wanted[:, column, None] - have[None, :, column])
        chosen: Rows = self.choices[np.argmin(apart, axis=1)]
        return chosen


def alone(rows: Rows, decisions: Sequence[Decision]) -> Rows:
    """The rows with no loop in parallel: what one thread does alone."""
    out = rows.copy()
    out[:, [c for d in decisions if d.kind == "parallel" for c in d.columns]] = 0
    return out


def around(rows: Rows, choices: Sequence[tuple[tuple[int, ...], Rows]]) -> Rows:
    """Of P rows all that have another choice, or the same one, in one decision: P x N x D.

    Args:
        rows: P x D.
        choices: of each decision its columns, and its choices there; N in all.
    """
    count = sum(len(own) for _, own in choices)
    out = np.repeat(rows, count, axis=0).reshape(len(rows), count, -1)
    at = 0
    for columns, own in choices:
        out[:, at : at + len(own), columns] = own
        at += len(own)
    return out
