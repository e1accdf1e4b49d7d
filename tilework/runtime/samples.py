"""Timing a function: samples that mean something, and comparisons that are fair.

A sample repeats the call until it lasts about a millisecond. While a sample runs, the kernel's
run-delay counters tell how long our threads stood ready and waited for a core; a sample during
which they waited noticeably says something about the machine's other work and is discarded.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, cast

from tilework.frozen import frozen
from tilework.overriding import override
from tilework.runtime.sequential import hopeless

Call = Callable[[], object]

DISTURBED_SHARE = 0.05
"""A sample is discarded if our threads waited for a core for more than this share of it."""

ENOUGH = 0.7
"""A sample is long enough if it lasts this share of the wanted time."""

PATIENCE = 4
"""How many time budgets a short look may take where most samples are disturbed."""

MOST_DISTURBED = 10
"""Disturbed samples, for each that is wanted, after which a machine counts as busy for good."""


@frozen
class Samples:
    """Seconds per call, one value per sample, in the order in which they were taken.

    Attributes:
        discarded: samples dropped because the machine was busy with something else. If none was
            undisturbed, `seconds` holds disturbed ones.
    """

    seconds: tuple[float, ...]
    discarded: int = 0

    @property
    def median(self) -> float:
        """The median, in seconds."""
        return quantile(self.seconds, 0.5)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of non-empty values, interpolated linearly."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values: Sequence[float]) -> float:
    """Interquartile range divided by the median; 0 if the median is 0."""
    middle = quantile(values, 0.5)
    return (quantile(values, 0.75) - quantile(values, 0.25)) / middle if middle else 0.0


class RunDelay:
    """Time that this process's present threads stood ready without a core (0 where unknown).

    Linux counts it per thread in `/proc/self/task/*/schedstat`. Threads started later are not
    watched: make one after the warm-up call. Use as a context manager, it holds files open.
    """

    def __init__(self) -> None:
        self._files: list[int] = []
        folder = "/proc/self/task"
        try:
            for thread in os.listdir(folder):
                self._files.append(os.open(f"{folder}/{thread}/schedstat", os.O_RDONLY))
        except OSError:
            self.close()

    def __enter__(self) -> RunDelay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def seconds(self) -> float:
        """Run delay since the threads began, summed over them, in seconds."""
        total = 0
        for file in self._files:
            try:
                total += int(os.pread(file, 64, 0).split()[1])
            except (OSError, IndexError, ValueError):
                continue  # the thread ended
        return total * 1e-9

    def close(self) -> None:
        """Closes the files; `seconds` is 0 from now on."""
        for file in self._files:
            os.close(file)
        self._files = []


@frozen
class Lap:
    """Some calls in a row.

    Attributes:
        seconds: time of all of them.
        waited: seconds of it that say something about the machine's other work.
    """

    seconds: float
    waited: float = 0.0

    @property
    def disturbed(self) -> bool:
        """Whether it says too much about that to be a sample."""
        return self.waited > DISTURBED_SHARE * self.seconds


class Stopwatch(Protocol):
    """Times calls, on whatever they run."""

    def time(self, call: Call, number: int) -> Lap:
        """Make so many calls in a row."""


class HostStopwatch(Stopwatch):
    """Wall time, and how long our threads stood ready meanwhile. A context manager."""

    def __enter__(self) -> HostStopwatch:
        self._delay = RunDelay()
        return self

    def __exit__(self, *_: object) -> None:
        self._delay.close()

    @override
    def time(self, call: Call, number: int) -> Lap:
        waited = self._delay.seconds()
        elapsed = time_calls(call, number)
        return Lap(elapsed, self._delay.seconds() - waited)


class ReportedStopwatch(Stopwatch):
    """For calls that return their seconds."""

    @override
    def time(self, call: Call, number: int) -> Lap:
        return Lap(sum(cast(float, call()) for _ in range(number)))


def time_calls(call: Call, number: int) -> float:
    """Seconds that `number` calls in a row take."""
    turns = range(number)
    start = time.perf_counter()
    for _ in turns:
        call()
    return time.perf_counter() - start


def calls_per_sample(call: Call, min_sample_s: float, watch: Stopwatch) -> int:
    """How many calls last about `min_sample_s`; makes a few calls to find out."""
    number = 1
    while (elapsed := watch.time(call, number).seconds) < ENOUGH * min_sample_s:
        number = _more_calls(number, elapsed, min_sample_s)
    return number


def _more_calls(number: int, elapsed_s: float, min_sample_s: float) -> int:
    """A larger number of calls than `number`, which took `elapsed_s` and so not long enough."""
    wanted = math.ceil(number * min_sample_s / max(elapsed_s, 1e-8))
    return max(number + 1, min(wanted, 100 * number))


def take_samples(
    call: Call,
    *,
    repeats: int,
    min_sample_s: float,
    budget_s: float,
    short_look: int = 3,
    best_s: float = math.inf,
    extra: int = 0,
    before: Call | None = None,
    stopwatch: Callable[[], AbstractContextManager[Stopwatch]] = HostStopwatch,
) -> Samples:
    """Times a function that has been called at least once before.

    Samples of a function that is plainly slower than the best end early, by the test of
    `tilework.runtime.sequential`; one that looks like the new best gets some more.

    Args:
        call: the function.
        repeats: undisturbed samples wanted.
        min_sample_s: a sample repeats the call until it lasts about this long.
        budget_s: no further sample is begun after this long; on a busy machine it may take
            `PATIENCE` times as long to get a short look of undisturbed samples, but no more than
            `MOST_DISTURBED` disturbed ones are taken for each that is wanted. If all are
            disturbed by then, the least disturbed ones are returned.
        short_look: number of samples that are wanted in any case.
        best_s: the best latency known, as it would be measured now.
        extra: samples beyond `repeats`, and as large a share of `budget_s` more, for a function
            whose median is below `best_s`.
        before: called, untimed, before every sample; a sample is then a single call, and
            `budget_s` counts the samples alone.
        stopwatch: that of what the function runs on.
    """
    began = time.perf_counter()
    number, spent = 1, 0.0
    kept: list[float] = []
    disturbed: list[tuple[float, float]] = []  # (share that was waiting, seconds per call)
    worked: list[float] = []  # seconds per call of those, without the waiting
    with stopwatch() as watch:
        while True:
            if before:
                before()
            lap = watch.time(call, number)
            elapsed, waited = lap.seconds, lap.waited
            spent = spent + elapsed if before else time.perf_counter() - began
            if not before and not kept and elapsed < ENOUGH * min_sample_s:
                number = _more_calls(number, elapsed, min_sample_s)
                continue
            if not lap.disturbed:
                kept.append(elapsed / number)
                if hopeless(kept, best_s):
                    break
            else:
                disturbed.append((waited / max(elapsed, 1e-9), elapsed / number))
                worked.append((elapsed - waited) / number)
                if not kept and hopeless(worked, best_s):
                    break  # the waiting left out, they are far too long all the same
            wanted, patience = repeats, budget_s
            if extra and len(kept) >= short_look and quantile(kept, 0.5) < best_s < math.inf:
                wanted, patience = repeats + extra, budget_s * (1 + extra / repeats)
            if len(kept) >= wanted or len(disturbed) >= MOST_DISTURBED * wanted:
                break
            if spent >= (patience if len(kept) >= short_look else PATIENCE * budget_s):
                break
    if kept:
        return Samples(tuple(kept), len(disturbed))
    least = sorted(disturbed)[:short_look]
    return Samples(tuple(seconds for _, seconds in least), len(disturbed) - len(least))


def interleave(
    functions: Mapping[str, Call],
    rounds: int,
    *,
    min_sample_s: float = 0.0,
    warmup: int = 1,
    settle_s: float = 0.0,
    budget_s: float = math.inf,
) -> dict[str, Samples]:
    """Times functions side by side, so that whatever the machine does hits all of them alike.

    Each round takes one sample of every function; the order turns by one from round to round. A
    round in which any sample was disturbed is discarded whole, so that the i-th samples of all
    functions belong together and may be compared in pairs (`paired_ratio`).

    Args:
        functions: name -> function of no arguments.
        rounds: undisturbed rounds wanted; at most twice as many are run.
        min_sample_s: a sample repeats the call until it lasts about this long.
        warmup: untimed calls of each function before the first round.
        settle_s: if not 0, every sample comes after a rest of this many seconds and an untimed
            call. Functions with thread pools need it: a pool spins for a while after its last
            call, on the cores of the function that comes next.
        budget_s: no further round is begun after this long; one is always run.

    Returns:
        Samples per name, all of the same number.
    """
    began = time.perf_counter()
    for call in functions.values():
        for _ in range(warmup):
            call()
    names = list(functions)
    kept: list[dict[str, float]] = []
    disturbed: list[dict[str, float]] = []
    with HostStopwatch() as watch:
        numbers = {n: calls_per_sample(f, min_sample_s, watch) for n, f in functions.items()}
        for turn in range(2 * rounds):
            first = turn % len(names)
            sample: dict[str, float] = {}
            good = True
            for name in names[first:] + names[:first]:
                if settle_s:
                    time.sleep(settle_s)
                    functions[name]()
                lap = watch.time(functions[name], numbers[name])
                good &= not lap.disturbed
                sample[name] = lap.seconds / numbers[name]
            (kept if good else disturbed).append(sample)
            if len(kept) == rounds or time.perf_counter() - began >= budget_s:
                break
    used, dropped = (kept, len(disturbed)) if kept else (disturbed, 0)
    return {name: Samples(tuple(s[name] for s in used), dropped) for name in names}


def paired_ratio(a: Samples, b: Samples) -> float:
    """Median over rounds of (time of a) / (time of b), of samples taken by `interleave`."""
    return quantile([x / y for x, y in zip(a.seconds, b.seconds, strict=True)], 0.5)
