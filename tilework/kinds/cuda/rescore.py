"""What the draft model makes of a candidate once its registers are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilework.frozen import frozen
from tilework.kinds.cuda.draft import DRAFT, terms
from tilework.kinds.cuda.simulate import fact
from tilework.space.sketch import Sketch


@frozen
class Rescored:
    """A candidate's prediction.

    Attributes:
        predicted_s: seconds, with the registers that its kernels have.
        parts: what each kernel waits for, in seconds, named as simulated devices want it.
        outlook: how many times as fast that is as what was predicted of the schedule.
    """

    predicted_s: float
    parts: dict[str, float]
    outlook: float

    @property
    def facts(self) -> dict[str, float]:
        """For `tilework.lower.kernel.Kernel`: ``predicted_s`` and the parts."""
        return {"predicted_s": self.predicted_s, **self.parts}


def rescore(sketch: Sketch, row: Sequence[int], registers: Sequence[int]) -> Rescored:
    """The prediction for one row.

    Args:
        sketch, row: the schedule.
        registers: of a thread of each of the sketch's kernels, none of which are spilled.
    """
    rows = np.array([row], np.int32)
    known = np.array([registers], np.float64)
    costs = terms(sketch, rows, known, np.zeros_like(known))
    predicted = float(costs.total()[0])
    parts = {
        fact(name, number): float(seconds)
        for name, part in costs.parts.items()
        for number, seconds in enumerate(part[0])
    }
    return Rescored(predicted, parts, float(DRAFT.seconds(sketch, rows)[0]) / predicted)
