"""What the draft has said of rows of a family, and what follows from it for others.

Seconds of a row are the sum of those of its blocks, each of which has decisions of its own. So the
best of a thousand random rows is far from the best row where there are six blocks, and the best
of each block, put together, is near.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilework.model.base import Rows
from tilework.model.climbing import Around, climbed
from tilework.model.family import FamilyDraft, FamilySketch
from tilework.overriding import override

Floats = NDArray[np.float64]

ALL = slice(None)
"""All points."""
_TURNS = 2
"""How often the best blocks are put together: what one counts at a point hangs on the others."""


class Found(NamedTuple):
    """A row, and the mean of the logarithms of its seconds at some points."""

    sketch: FamilySketch
    row: Rows
    log: float


@dataclass(frozen=True)
class Asked(FamilyDraft):
    """The draft of a family, which remembers what it has said.

    Attributes:
        said: by id of a sketch, rows and the seconds of their blocks: by point, row and block.
    """

    said: dict[int, list[tuple[Rows, Floats]]] = field(default_factory=dict)

    @override
    def logs(self, sketch: FamilySketch, rows: Rows) -> Floats:
        each = np.array([self.draft.block_seconds(view, rows) for view in sketch.views])
        self.said.setdefault(sketch.id, []).append((rows, each))
        return np.asarray(np.log(each.sum(axis=2)))

    def mean(self, sketch: FamilySketch, rows: Rows, points: slice = ALL) -> Floats:
        """The mean of the logarithms of the seconds of P rows at some points."""
        views = sketch.views[points]
        return np.mean([np.log(self.draft.seconds(view, rows)) for view in views], axis=0)

    def heard(self, sketch: FamilySketch) -> tuple[Rows, Floats]:
        """All rows of a sketch that it was asked about, and the seconds of their blocks."""
        said = self.said[sketch.id]
        if len(said) > 1:
            rows, each = zip(*said, strict=True)
            said[:] = [(np.concatenate(rows), np.concatenate(each, axis=1))]
        return said[0]

    def best(self, family: Sequence[FamilySketch], points: slice = ALL) -> Found | None:
        """The best row at some points by all that was said."""
        heard = [sketch for sketch in family if sketch.id in self.said]
        each = [found for sketch in heard for found in self._composed(sketch, points)]
        each.sort(key=lambda found: found.log)
        return next((f for f in each if f.sketch.valid(f.row[None])[0]), None)

    def improved(self, found: Found, points: slice, within: Around | None = None) -> Found:
        """A row, or a better one that a few steps lead to."""
        some = _Some(self, found.sketch, points)
        starts = [(math.exp(found.log), found.row)]
        ((seconds, row),) = climbed(within or found.sketch, starts, some, [])
        return Found(found.sketch, row, math.log(seconds))

    def _composed(self, sketch: FamilySketch, points: slice) -> list[Found]:
        """The best row of a sketch at some points, and those of the best blocks of all rows."""
        rows, each = self.heard(sketch)
        each = each[points]
        logs = np.log(each.sum(axis=2)).mean(axis=0)
        first = int(np.argmin(logs))
        out, now = [Found(sketch, rows[first], float(logs[first]))], each[:, first].sum(axis=1)
        by_block = sketch.views[0].by_block
        for _ in range(_TURNS):
            # what a block adds to the mean of logarithms, as long as it is a small part
            bests = np.argmin((each / now[:, None, None]).sum(axis=0), axis=0)
            now = each[:, bests, np.arange(len(by_block))].sum(axis=1)
            row = rows[first].copy()
            for best, decisions in zip(bests, by_block, strict=True):
                columns = [c for d in decisions for c in d.columns]
                row[columns] = rows[best, columns]
            out.append(Found(sketch, row, float(np.log(now).mean())))
        return out


class _Some(NamedTuple):
    """A draft at some of the points."""

    asked: Asked
    sketch: FamilySketch
    points: slice

    def seconds(self, sketch: Around, rows: Rows) -> Floats:
        """The geometric mean of what P rows take there."""
        return np.asarray(np.exp(self.asked.mean(self.sketch, rows, self.points)))
