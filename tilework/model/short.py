"""Rows of padded windows that serve images shorter than any typical one, too.

An image that is shorter than a register tile has no whole one: its points are computed one by one,
each in several times as long as in a tile. Which of several tiles is the better one then, decides
among those that are about as fast at the points that are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilework.index.symbols import Symbol
from tilework.model.asked import Asked, Found
from tilework.model.family import FamilySketch
from tilework.space.blocks import Block
from tilework.space.bounds import serial_taps
from tilework.space.views import views_at
from tilework.te.points import typical_points

NEAR = 1.015
"""Which rows are about as fast as the best: those that take at most so many times its seconds, in
the mean of the points that are looked at."""
FASTER = 1.2
"""How many times as fast as the best one a row has to be where images are short."""


def good_when_short(
    best: Found, family: Sequence[FamilySketch], symbols: Sequence[Symbol], asked: Asked
) -> Found:
    """The best row of a family of padded windows, or one near it that is faster for short images.

    Short are those of half the least typical values.

    Args:
        best: the best row.
        family: the sketches.
        symbols: those of the task.
        asked: what was said of rows at all points.
    """
    least = typical_points(symbols)[0]
    short = {s: max(s.low, n // 2) for s, n in least.items()}
    if short == least or not any(map(_over_taps, best.sketch.whole.blocks)):
        return best
    own, near = math.inf, list[tuple[float, float, Found]]()
    for sketch in (s for s in family if s.id in asked.said):
        rows, logs = asked.heard(sketch)
        means = logs.mean(axis=0)
        some = np.flatnonzero(means <= best.log + math.log(NEAR))
        view = views_at([sketch.whole], [short])[0][0] if len(some) else sketch.whole
        some = some[view.valid(rows[some])]
        if len(some):
            seconds = asked.draft.seconds(view, rows[some])
            sums = means[some] * len(logs) + np.log(seconds)
            i = int(np.argmin(sums))
            one = Found(sketch, rows[some[i]], float(means[some[i]]))
            near.append((float(sums[i]), float(seconds[i]), one))
            if sketch is best.sketch:
                own = min(seconds[(rows[some] == best.row).all(axis=1)], default=own)
    _, there, one = min(near, key=lambda one: one[0], default=(0.0, own, best))
    return one if there * FASTER <= own else best


def _over_taps(block: Block) -> bool:
    """Whether sums are over taps of padded windows alone, and a run decides how many of these."""
    return any(b.axis.open for b in block.bounds) and not serial_taps(block)
