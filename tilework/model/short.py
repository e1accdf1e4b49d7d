"""Rows of padded windows that serve images shorter than any typical one, too.

An image that is shorter than a register tile has no whole one: its points are computed one by one,
each in several times as long as in a tile. Which of several tiles is the better one then, decides
among those that are about as fast at the points that are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilework.index.symbols import Point, Symbol
from tilework.model.asked import Asked, Floats, Found
from tilework.model.base import Rows
from tilework.model.family import FamilySketch
from tilework.space.blocks import Block
from tilework.space.bounds import serial_taps
from tilework.space.decision import alone
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

    Short are those of half the least typical values, which one thread computes by itself.

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
    out, most = best, math.inf
    own = float(_seconds(best.sketch, best.row[None], short, asked)[0]) / FASTER
    for sketch in (s for s in family if s.id in asked.said):
        rows, logs = asked.heard(sketch)
        means = logs.mean(axis=0)
        near = np.flatnonzero(means <= min(best.log + math.log(NEAR), most))
        if len(near):
            fast = near[_seconds(sketch, rows[near], short, asked) <= own]
            if len(fast):
                i = fast[int(np.argmin(means[fast]))]
                out, most = Found(sketch, rows[i], float(means[i])), float(means[i])
    return out


def _seconds(sketch: FamilySketch, rows: Rows, at: Point, asked: Asked) -> Floats:
    """What rows take on one thread at a point; for ever, where they are no schedules there."""
    (view,) = views_at([sketch.whole], [at])[0]
    serial = alone(rows, sketch.whole.decisions)
    out, good = np.full(len(rows), np.inf), view.valid(serial)
    if good.any():
        out[good] = asked.draft.seconds(view, serial[good])
    return out


def _over_taps(block: Block) -> bool:
    """Whether sums are over taps of padded windows alone, of images as large as a run says."""
    return any(b.axis.open for b in block.bounds) and not serial_taps(block)
