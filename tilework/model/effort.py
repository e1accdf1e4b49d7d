"""How closely a row is looked for: what a task's share of its network's run is worth."""

from __future__ import annotations

from typing import NamedTuple


class Effort(NamedTuple):
    """How closely the row of a task is looked for whose extents a run decides.

    Attributes:
        samples: rows that are drawn of a sketch.
        starts: of these so many are improved.
        alike: of rows that take at most so many times the seconds of the best, that with the
            least code is taken.
        second: whether another row for small extents is looked for, besides the same one on one
            thread.
    """

    samples: int
    starts: int
    alike: float
    second: bool = True


CLOSE = Effort(1024, 8, 1.0)
LIGHT = Effort(512, 4, 1.01)
"""Of a family that reads nothing several times, such as softmax. Its kernels take a small part of
a run, and most of a compile: its sketches are many, of several nests each. Of others a hundredth
costs up to five of a run: the draft does not tell their rows apart so well."""
SOME = Effort(256, 4, 1.03)
"""Of a task that takes less than a twenty-fifth of a run."""
FEW = Effort(128, 2, 1.25, False)
"""Of one that takes less than a fiftieth."""
LEAST = Effort(64, 1, 2.0, False)
"""Of one that takes less than a two thousandth."""


def effort_for(share: float) -> Effort:
    """How closely to look for the row of a task that takes a share of its network's run."""
    for most, effort in ((0.0005, LEAST), (0.02, FEW), (0.04, SOME)):
        if share < most:
            return effort
    return CLOSE
