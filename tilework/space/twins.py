"""A sketch of extents that a run decides, beside the static one that it is at a point.

The two have the same decisions, and their rows mean the same loops. At a point more is known of
those over symbolic extents: a tile is no longer than its axis, and a sum is cut into whole pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.once import cached_property
from tilework.space.decision import Decision, Rows
from tilework.space.sketch import Sketch
from tilework.te.expr import Axis

Good = NDArray[np.bool_]
"""Of each row, whether it has a counterpart."""


class _Tiling(NamedTuple):
    """A decision over a symbolic axis, and how many points that has at the point."""

    decision: Decision
    axis: Axis
    extent: int

    @property
    def columns(self) -> list[int]:
        return list(self.decision.columns)


@frozen(eq=False)
class Twin:
    """A sketch and what it is at a point.

    Attributes:
        views: the sketch, as it is looked at at each typical point.
        static: of the static computation at one of them.
    """

    views: tuple[Sketch, ...]
    static: Sketch

    @cached_property
    def _open(self) -> list[_Tiling]:
        """The decisions over symbolic axes."""
        pairs = zip(self.views[0].decisions, self.static.decisions, strict=True)
        return [
            _Tiling(mine, mine.axis, here.axis.points)
            for mine, here in pairs
            if mine.axis is not None and mine.axis.open and here.axis is not None
        ]

    @cached_property
    def _choices(self) -> dict[tuple[int, ...], Rows]:
        """By columns of a decision: what it chooses from, at all points together."""
        choices_of: dict[tuple[int, ...], list[Rows]] = {}
        for decision in (d for view in self.views for d in view.decisions):
            choices_of.setdefault(decision.columns, []).append(decision.choices)
        return {columns: np.unique(np.concatenate(e), axis=0) for columns, e in choices_of.items()}

    def placed(self, rows: Rows) -> tuple[Rows, Good]:
        """The rows of the static sketch that P rows are at the point, in their plain form.

        A row has none where a piece of a sum does not divide it there, or where its program is
        not within the limits there.
        """
        out, good = rows.copy(), np.ones(len(rows), bool)
        for tiling in self._open:
            columns, extent = tiling.columns, tiling.extent
            own = rows[:, columns]
            if tiling.axis.kind == "reduce":
                piece = np.prod(own, axis=1, dtype=np.int64)
                whole = piece >= extent
                out[np.ix_(whole, columns)] = [extent, *(1,) * (len(columns) - 1)]
                good &= whole | (extent % np.maximum(piece, 1) == 0)
                continue
            inside = np.ones(len(rows), np.int64)
            for column in reversed(columns):
                out[:, column] = np.clip(out[:, column], 1, -(-extent // inside))
                inside = np.multiply(inside, out[:, column])
        good &= self.static.valid(out)
        return self.static.canonical(out), good

    def lifted(self, rows: Rows) -> tuple[Rows, Good]:
        """The rows that serve all points, of P rows of the static sketch.

        What takes a whole axis takes the whole of it everywhere, or, of one with other tiles, the
        next larger tile. Whether a row is within the limits at other points is not asked.
        """
        out, good = rows.copy(), np.ones(len(rows), bool)
        for tiling in self._open:
            columns, extent = tiling.columns, tiling.extent
            choices, last = self._choices[tuple(columns)], columns[-1]
            if tiling.axis.kind == "reduce":
                out[rows[:, columns[0]] == extent, columns[0]] = tiling.axis.most
                known = (choices[:, None] == out[None, :, columns]).all(axis=2)
                good &= known.any(axis=0)
                continue
            tiles = np.unique(choices[:, -1])
            larger = np.minimum(np.searchsorted(tiles, rows[:, last]), len(tiles) - 1)
            known = tiles[larger] == rows[:, last]
            out[:, last] = np.where(known, rows[:, last], tiles[larger])
            good &= known | ((rows[:, last] == extent) & (tiles[larger] > extent))
        return out, good


def twin_of(views: Sequence[Sketch], statics: Sequence[Sketch]) -> Twin | None:
    """A sketch, seen at its points, with the one of a static computation that is alike, if any."""
    static = next((s for s in statics if alike(s, views[0])), None)
    return None if static is None else Twin(tuple(views), static)


def alike(one: Sketch, other: Sketch) -> bool:
    """Whether two sketches are the same steps, and take rows of the same decisions."""
    return (
        one.steps == other.steps
        and one.form == other.form
        and one.num_decisions == other.num_decisions
    )
