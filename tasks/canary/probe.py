"""Timing frozen kernels beside the calibration loop, again and again for a few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from tasks.canary.drift import Reading

if TYPE_CHECKING:
    from tasks.canary.frozen import Canary
    from tilework.measure import Measured, Measurer
    from tilework.task import SearchTask

LEAST_CYCLES = 3
"""Each kernel is timed this often, however long it takes."""


@dataclass(frozen=True)
class Probed:
    """What one run measured.

    Attributes:
        reading: for `tasks.canary.drift`.
        measured: by the kernel's name: the cycle of median latency, or the last failure.
    """

    reading: Reading
    measured: Mapping[str, Measured]


def probe(
    canaries: Sequence[tuple[Canary, SearchTask]],
    measurer: Measurer,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Probed:
    """Time kernels for so many seconds: in cycles, each kernel right after a calibration.

    Every timing is many samples, and the median of all cycles counts, so that a busy second of the
    machine falls out.

    Raises:
        MeasureError: nothing can be measured here.
    """
    began = clock()
    taken: dict[str, list[Measured]] = {canary.name: [] for canary, _ in canaries}
    cycles = 0
    while cycles < LEAST_CYCLES or clock() - began < seconds:
        for canary, task in canaries:
            (one,) = measurer.finals(task, [canary.candidate()])
            taken[canary.name].append(one)
        cycles += 1
    return Probed(reading_of(taken), {name: _typical(rows) for name, rows in taken.items()})


def reading_of(taken: Mapping[str, Sequence[Measured]]) -> Reading:
    """The medians of all cycles; a kernel that failed in every one of them has no latency.

    Of the calibrations it is the least: waiting for a neighbour only adds time, and a machine
    that is slower is so in the least, too. (The medians of ten seconds on a busy machine were off
    by 10 %, while kernels were by 1 %.)
    """
    calibrations = [m.calibration_s for rows in taken.values() for m in rows if m.calibration_s]
    latency: dict[str, float | None] = {}
    relative: dict[str, float] = {}
    for name, rows in taken.items():
        pairs = [(m.latency_s, m.calibration_s) for m in rows if m.latency_s and m.calibration_s]
        latency[name] = median(one for one, _ in pairs) if pairs else None
        if pairs:
            relative[name] = median(one / calibration for one, calibration in pairs)
    return Reading(min(calibrations, default=0.0), latency, relative)


def _typical(rows: Sequence[Measured]) -> Measured:
    """The measurement of median latency, with the samples of its cycle; or the last failure."""
    valid = sorted((m for m in rows if m.latency_s is not None), key=lambda m: m.latency_s or 0.0)
    if not valid:
        return rows[-1]
    middle = valid[(len(valid) - 1) // 2]
    return replace(middle, latency_s=median(m.latency_s or 0.0 for m in valid))
