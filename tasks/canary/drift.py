"""Has something become slower? Judged from one run of the canary to the next, on plain numbers.

A reading is compared with what is usual: the medians of the first few. Beyond a limit it is slow,
and two slow readings in a row make a drift: one may be a neighbour's hour. A drift ends when two
readings in a row are within half the limit, so that what hovers at the limit does not go on and
off. The limit follows the scatter of what is measured, so that a noisy machine does not cry wolf.

The machine is told from its kernels by the calibration loop, which fits the first-level cache: if
it is slow, the machine is, and kernels are not judged. Kernels are slow only if they are so by
themselves and in relation to calibrations of the same moment: a machine that got slower or faster
as a whole blames no kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

LEARN = 5
"""Readings that make what is usual."""
IN_A_ROW = 2
"""Readings in a row, each beyond the limit, that make a drift; as many within it end one."""
LEAST = 0.05
"""The limit is at least this share of the usual time."""
LEAST_NEW, NEW = 0.15, 24
"""It is at least this share while fewer readings than a day's say how much scatter is usual."""
MOST = 0.30
"""The limit is at most this share, however much the readings scatter."""
SCATTERS = 4.0
"""The limit in multiples of the usual scatter: two in a row beyond it do not come by chance."""
KEPT = 48
"""Readings outside of drifts that say how much scatter is usual: two days of them, hourly."""

Values = tuple[float, ...]
"""One reading of one thing. It counts as slower by what *all* of its values are slower."""


@dataclass(frozen=True)
class Track:
    """One thing that is followed from run to run.

    Attributes:
        usual: what counts as usual; empty while it is still being learnt.
        learning: the readings so far, while it is.
        ratios: the latest readings outside of drifts, in units of the usual ones.
        last: the latest reading; empty before the first.
        side: of the latest reading: 1 beyond the limit, -1 faster by as much, 0 neither.
        slow: whether it drifts: see the module's text.
        failed: how many readings in a row could not be taken.
    """

    usual: Values = ()
    learning: tuple[Values, ...] = ()
    ratios: Values = ()
    last: Values = ()
    side: int = 0
    slow: bool = False
    failed: int = 0

    @property
    def limit(self) -> float:
        """How much slower than usual is too slow, as a share."""
        least = LEAST if len(self.ratios) >= NEW else LEAST_NEW
        if len(self.ratios) < 2:
            return least
        # from one reading to the next: what creeps is no scatter
        steps = [abs(new - old) for old, new in pairwise(self.ratios)]
        scatter = 1.4826 * median(steps) / math.sqrt(2)
        return min(max(least, SCATTERS * scatter), MOST)

    @property
    def ratio(self) -> float | None:
        """The latest reading in units of the usual one; None if there is none."""
        return _slower(self.last, self.usual) if self.usual and self.last else None

    @property
    def broken(self) -> bool:
        """Whether it could not be measured `IN_A_ROW` times in a row."""
        return self.failed >= IN_A_ROW


@dataclass(frozen=True)
class Reading:
    """What one run of the canary measured, in seconds.

    Attributes:
        calibration_s: time of the calibration loop.
        latency_s: of each kernel, by its name; None if it failed.
        relative: each kernel's time in units of calibrations of the same moment.
    """

    calibration_s: float
    latency_s: Mapping[str, float | None]
    relative: Mapping[str, float]


@dataclass(frozen=True)
class Watch:
    """What is known of a machine and its kernels after any number of readings."""

    machine: Track = field(default_factory=Track)
    kernels: Mapping[str, Track] = field(default_factory=dict)

    @property
    def slow(self) -> tuple[str, ...]:
        """The kernels that drift by themselves; none while the machine does."""
        if self.machine.slow:
            return ()
        return tuple(name for name, track in self.kernels.items() if track.slow)

    @property
    def broken(self) -> tuple[str, ...]:
        """The kernels that can be measured no more."""
        return tuple(name for name, track in self.kernels.items() if track.broken)

    @property
    def learning(self) -> bool:
        """Whether something usual is still to be learnt."""
        return not self.machine.usual or any(not t.usual for t in self.kernels.values())


def after(watch: Watch, reading: Reading) -> Watch:
    """What is known after one more reading."""
    machine = follow(watch.machine, (reading.calibration_s,))
    kernels = {}
    for name, latency in reading.latency_s.items():
        track = watch.kernels.get(name, Track())
        if latency is None:
            kernels[name] = replace(track, failed=track.failed + 1, side=0)
        elif machine.side > 0 or machine.slow:
            kernels[name] = replace(track, failed=0, side=0)  # says nothing of the kernel
        else:
            kernels[name] = follow(track, (latency, reading.relative[name]))
    return Watch(machine, kernels)


def follow(track: Track, values: Values) -> Track:
    """A track after one more reading."""
    track = replace(track, failed=0)
    if not track.usual:
        return _learnt(replace(track, learning=(*track.learning, values), last=values))
    limit = track.limit / 2 if track.slow else track.limit
    side = _side(values, track.usual, limit)
    slow = track.slow
    if side == track.side == 1:
        slow = True
    elif side <= 0 and track.side <= 0:
        slow = False
    ratios = track.ratios
    if side == track.side == -1:  # what was usual was not the best that it can do
        lower = _greater(values, track.last)
        return Track(lower, ratios=ratios, last=values)  # the scatter is as it was
    if not slow:
        ratios = (*ratios, _slower(values, track.usual))[-KEPT:]
    return replace(track, ratios=ratios, last=values, side=side, slow=slow)


def forget(watch: Watch, names: Sequence[str]) -> Watch:
    """The same without these kernels: they were replaced, or are to be learnt anew."""
    kernels = {name: track for name, track in watch.kernels.items() if name not in names}
    return replace(watch, kernels=kernels)


def _learnt(track: Track) -> Track:
    """What is usual, once there are enough readings."""
    if len(track.learning) < LEARN:
        return track
    usual = tuple(median(column) for column in zip(*track.learning, strict=True))
    ratios = tuple(_slower(values, usual) for values in track.learning)
    return Track(usual, ratios=ratios, last=track.last)


def _slower(values: Values, usual: Values) -> float:
    """How many times as long as usual everything took at least."""
    return min(value / known for value, known in zip(values, usual, strict=True))


def _side(values: Values, usual: Values, limit: float) -> int:
    ratios = [value / known for value, known in zip(values, usual, strict=True)]
    if min(ratios) > 1 + limit:
        return 1
    return -1 if max(ratios) < 1 / (1 + limit) else 0


def _greater(one: Values, other: Values) -> Values:
    return tuple(max(pair) for pair in zip(one, other, strict=True))
