"""When a candidate is given up before its samples are complete: a sequential sign test.

The question is whether a candidate may be within `TOLERANCE` of the best latency known. A `Check`
counts how many of the first samples are longer than a multiple of that latency; if too many are,
the candidate is given up. Each check has an error probability: that of giving up a candidate whose
true latency (the median of its samples) is at most `TOLERANCE` above the best. A check against
`1 + TOLERANCE` itself assumes nothing of the noise: half of all samples lie above the median. The
others end hopeless candidates sooner, and assume how often an undisturbed sample of a kernel is so
much longer than its median (`tail`). `error_bound` adds up the binomial probabilities of all
checks: below 1 %.

One sample alone condemns nobody, however long it is: on a busy machine one in fifty first samples
of kernels of two threads was several times too long, with nothing to show that it was disturbed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilework.frozen import frozen

TOLERANCE = 0.03
"""A candidate whose latency is at most this much above the best is a contender."""


@frozen
class Check:
    """Of the first `samples`, `above` or more exceed `ratio` x (1 + `TOLERANCE`) x the best.

    Attributes:
        tail: probability that a sample of a kernel is more than `ratio` times its median.
    """

    samples: int
    above: int
    ratio: float
    tail: float

    @property
    def error(self) -> float:
        """Probability that a contender fails this check: a binomial tail."""
        n, p = self.samples, self.tail
        counts = range(self.above, n + 1)
        return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in counts)


CHECKS = (
    Check(2, 2, 1.50, 0.01),
    Check(3, 3, 1.20, 0.05),
    Check(4, 4, 1.10, 0.15),
    Check(6, 6, 1.05, 0.30),
    Check(8, 8, 1.00, 0.50),
    Check(12, 11, 1.00, 0.50),
)


def error_bound() -> float:
    """Upper bound of the probability that a contender is given up by any of the checks."""
    return sum(check.error for check in CHECKS)


def hopeless(samples: Sequence[float], best: float) -> bool:
    """Whether samples, in the order taken, say that the candidate is no contender.

    To be asked after every sample: only the checks for exactly so many samples are made.

    Args:
        samples: seconds per call.
        best: latency of the best candidate, seconds; inf if none is known.
    """
    for check in CHECKS:
        if check.samples == len(samples):
            limit = check.ratio * (1 + TOLERANCE) * best
            if sum(sample > limit for sample in samples) >= check.above:
                return True
    return False
