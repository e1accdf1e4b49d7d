"""Does the machine run as fast as before? Calibrations of batches, compared.

`Record.calibration_s` is the time of a fixed loop on one core just before the record's batch was
measured. Its ratio to the usual one tells how much slower or faster the machine was then, for work
that stays in the caches. Recorded latencies are never corrected by it: a loop of one kind does not
tell what a kernel of another kind lost. Drift does two things. While a batch is measured, the best
latency known counts as so much longer, so that a slow phase does not make contenders look
hopeless. And a round whose machine drifted further than `LIMIT` is marked for the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilework.runtime.samples import quantile

LIMIT = 0.05
"""A calibration this far off the usual one is drift worth a word."""

MOST = 1.5
"""A slower calibration than this times the usual one is a hiccup of its own, not believed."""


def drift(reading_s: float | None, before_s: Sequence[float]) -> float:
    """How much slower the machine is than usual: reading / median of those before - 1.

    0 where there is no reading or nothing to compare it with.
    """
    usual = quantile(before_s, 0.5) if before_s else 0.0
    return reading_s / usual - 1 if reading_s and usual else 0.0


def slowdown(reading_s: float | None, before_s: Sequence[float]) -> float:
    """By what a latency of before is multiplied to be comparable now: 1 to `MOST`."""
    return min(max(1.0, 1 + drift(reading_s, before_s)), MOST)


def drifted(readings_s: Iterable[float]) -> int:
    """How many readings are further than `LIMIT` off the median of all."""
    readings = list(readings_s)
    return sum(abs(drift(reading, readings)) > LIMIT for reading in readings)
