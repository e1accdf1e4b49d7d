"""When a module is called slower than another: by a share, by a time, and beyond doubt."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilework.runtime.samples import Samples

MARGIN = 1.03
"""What is slower by less is not called slower: two loads of one module differ by as much, because
their weights lie elsewhere."""

FLOOR_S = 3e-6
"""Nor is what takes at most so many seconds a call longer. What a call costs besides its kernels
(Python, binding arrays, waking a thread) is one to five microseconds and differs between two
loads of one module by one or two; of a network of a few microseconds that is most of its time.
From 100 microseconds on `MARGIN` alone decides."""

_DOUBT = 0.005
"""Chance that a module which is no slower than is allowed is called slower."""


def allowed_s(old_s: float) -> float:
    """Seconds that a call may take beside one of ``old_s`` seconds without being called slower."""
    return max(MARGIN * old_s, old_s + FLOOR_S)


def looks_slower(new: Samples, old: Samples) -> bool:
    """Whether ``new`` takes longer than allowed in the median of pairs taken in turns."""
    from tilework.runtime.samples import quantile

    return quantile([a / allowed_s(b) for a, b in _pairs(new, old)], 0.5) > 1


def slower(new: Samples, old: Samples) -> bool:
    """Whether ``new`` takes longer than allowed (`allowed_s`) beyond doubt.

    By the sign test on pairs of samples taken in turns: it asks nothing of how they are
    distributed, and a few that were disturbed decide nothing.
    """
    pairs = _pairs(new, old)
    count, above = len(pairs), sum(a > allowed_s(b) for a, b in pairs)
    return sum(comb(count, k) for k in range(above, count + 1)) <= _DOUBT * (1 << count)


def _pairs(new: Samples, old: Samples) -> list[tuple[float, float]]:
    return list(zip(new.seconds, old.seconds, strict=True))


def excuse(over: float, new_s: float, old_s: float) -> str:
    """Words on a module that is slower by more than `MARGIN` and by too little time to count.

    Args:
        over: its time over the other's, in the median of pairs.
        new_s, old_s: seconds a call of both, in the median.
    """
    more = new_s - old_s
    if over <= MARGIN or more > FLOOR_S:
        return ""
    return f"{1e6 * more:.1f} us a call more, where {1e6 * FLOOR_S:.0f} us do not count"
