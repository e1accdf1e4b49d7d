"""Timing kernels in turns, on a machine that may be busy, and what their samples say together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from tilework.frozen import frozen
from tilework.runtime.samples import (
    Call,
    HostStopwatch,
    Stopwatch,
    calls_per_sample,
    quantile,
)

PATIENCE = 6
"""Rounds run at most, in multiples of those wanted, while samples are disturbed."""

ENOUGH_PAIRS = 7
"""Rounds in which two kernels were both undisturbed that make a paired ratio."""

UNDISTURBED_QUANTILE = 0.1
"""Of samples that are all disturbed, which one stands for the kernel: waiting only adds time."""


@frozen
class Turns:
    """Samples of one kernel, one per round: those of equal position belong together.

    Attributes:
        seconds: per call.
        disturbed: whether our threads waited for a core during the sample.
    """

    seconds: tuple[float, ...]
    disturbed: tuple[bool, ...]

    @property
    def good(self) -> tuple[float, ...]:
        """The undisturbed samples."""
        return tuple(s for s, bad in zip(self.seconds, self.disturbed, strict=True) if not bad)

    @property
    def latency_s(self) -> float:
        """Latency by these samples alone."""
        if self.good:
            return quantile(self.good, 0.5)
        return quantile(self.seconds, UNDISTURBED_QUANTILE)


def take_turns(
    calls: Sequence[Call],
    rounds: int,
    *,
    min_sample_s: float,
    budget_s: float,
    before: Call | None = None,
    stopwatch: Callable[[], AbstractContextManager[Stopwatch]] = HostStopwatch,
) -> list[Turns]:
    """Samples of functions, one of each per round; the order turns by one from round to round.

    An untimed call comes before every sample, so that functions find the caches as they do when
    they are timed alone.

    Args:
        calls: functions that have been called before.
        rounds: undisturbed samples wanted of every function; disturbed ones are taken again, but
            at most `PATIENCE` times as many rounds are run.
        min_sample_s: a sample repeats the call until it lasts about this long.
        budget_s: no further round is begun after this long; one is always run.
        before: called, untimed, before every sample instead; a sample is then a single call.
        stopwatch: that of the device.
    """
    began = time.perf_counter()
    seconds: list[list[float]] = [[] for _ in calls]
    disturbed: list[list[bool]] = [[] for _ in calls]
    with stopwatch() as watch:
        numbers = [1 if before else calls_per_sample(f, min_sample_s, watch) for f in calls]
        for turn in range(PATIENCE * rounds):
            for place in range(len(calls)):
                i = (place + turn) % len(calls)
                if before:
                    before()
                else:
                    calls[i]()  # the others have taken the caches
                lap = watch.time(calls[i], numbers[i])
                seconds[i].append(lap.seconds / numbers[i])
                disturbed[i].append(lap.disturbed)
            if min(flags.count(False) for flags in disturbed) >= rounds:
                break
            if time.perf_counter() - began >= budget_s:
                break
    return [Turns(tuple(s), tuple(d)) for s, d in zip(seconds, disturbed, strict=True)]


def latencies(turns: Sequence[Turns]) -> list[float]:
    """Latency of each kernel, comparable with the others' even if the machine was busy, seconds.

    The kernel with most undisturbed samples is the measure: its latency is its median. Another's
    is that times the median of the ratios of both in the rounds in which neither was disturbed, so
    that what the machine did for some rounds drops out. With fewer than `ENOUGH_PAIRS` such
    rounds, each stands for itself.
    """
    if not turns:
        return []
    base = max(turns, key=lambda one: len(one.good))
    out = []
    for one in turns:
        pairs = zip(one.seconds, base.seconds, one.disturbed, base.disturbed, strict=True)
        ratios = [a / b for a, b, bad, worse in pairs if not (bad or worse)]
        paired = len(ratios) >= ENOUGH_PAIRS
        out.append(quantile(ratios, 0.5) * base.latency_s if paired else one.latency_s)
    return out
