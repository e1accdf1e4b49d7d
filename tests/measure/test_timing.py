"""Sampling, discarding disturbed samples, interleaving."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

from tilework.runtime import samples as timing
from tilework.runtime.samples import Lap, RunDelay, Samples, interleave, paired_ratio, take_samples


class Clock:
    """A clock that goes on only where a call says how long it takes."""

    now = 0.0

    def lasting(self, *seconds):
        """A function whose calls last so long, one after the other; the last length for good."""
        turns = itertools.chain(seconds, itertools.repeat(seconds[-1]))

        def call():
            self.now += next(turns)

        return call


@pytest.fixture
def clock(monkeypatch):
    """The clock that samples are timed by: nothing here depends on the machine's."""
    found = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: found.now)
    return found


@pytest.fixture
def delays(monkeypatch):
    """Replaces the run-delay counter by a list of increments, one per sample, then zeros."""
    increments, total, reads = [], [0.0], [0]

    def seconds(self):
        reads[0] += 1
        if reads[0] % 2 == 0 and increments:
            total[0] += increments.pop(0)
        return total[0]

    monkeypatch.setattr(RunDelay, "seconds", seconds)
    return increments


def test_quantiles_and_spread():
    assert timing.quantile([3, 1, 2], 0.5) == 2
    assert timing.quantile([1, 2], 0.5) == 1.5
    assert timing.quantile([5], 0.75) == 5
    assert timing.spread([1, 2, 3, 4, 5]) == pytest.approx(2 / 3)
    samples = Samples((1.0, 2.0, 9.0))
    assert samples.median == 2


def test_samples_repeat_short_calls(delays, clock):
    samples = take_samples(
        clock.lasting(1e-6), repeats=4, min_sample_s=1e-3, budget_s=1.0, short_look=2
    )
    assert len(samples.seconds) == 4
    assert clock.now > 4e-3, "a thousand calls or so each"
    assert samples.median == pytest.approx(1e-6)


def _sampled(seconds, best_s=math.inf, **options):
    """What is sampled of calls that last exactly as told; the last one goes on for ever."""
    settings = {"repeats": 20, "min_sample_s": 0, "budget_s": 9.0, "best_s": best_s, **options}
    found = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing.time, "perf_counter", lambda: found.now)
        return take_samples(found.lasting(*seconds), **settings)


def _number_of_samples(seconds, best_s, **options):
    return len(_sampled(seconds, best_s, **options).seconds)


@pytest.mark.parametrize(
    ("ratio", "samples"),
    [(3.0, 2), (1.6, 2), (1.3, 3), (1.15, 4), (1.09, 6), (1.04, 8), (1.02, 20), (0.99, 20)],
)
def test_the_slower_a_call_the_sooner_it_is_given_up(delays, ratio, samples):
    assert _number_of_samples([1e-3 * ratio], 1e-3) == samples


def test_disturbed_samples_end_what_is_far_too_slow_even_so(delays):
    delays.extend([5e-4] * 40)
    assert _sampled([5e-3], 1e-3).seconds == (5e-3, 5e-3)  # two samples, and nothing better
    delays[:] = [4e-3] * 8
    assert _sampled([5e-3], 1e-3).discarded == 8  # most of it may have been waiting


def test_the_new_best_gets_more_samples(delays):
    assert _number_of_samples([0.99e-3], 1e-3, extra=10) == 30
    assert _number_of_samples([1.01e-3], 1e-3, extra=10) == 20
    assert _number_of_samples([1e-3], math.inf, extra=10) == 20


def test_single_long_samples_do_not_end_a_contender(delays):
    assert _number_of_samples([2e-3, 1e-3, 2e-3, 1e-3, 1.5e-3, 1e-3], 1e-3) == 20


def test_the_budget_ends_sampling_after_one_sample_at_least(delays):
    assert len(_sampled([5e-3], repeats=9, budget_s=0).seconds) == 1


def test_disturbed_samples_are_discarded(delays):
    delays.extend([0.0, 1.0, 0.0, 1.0, 0.0])
    samples = _sampled([1e-4], repeats=3, budget_s=1.0)
    assert len(samples.seconds) == 3
    assert samples.discarded == 2


def test_disturbed_samples_are_better_than_none(delays):
    delays.extend([1.0, 1.0, 0.1] + [1.0] * 1000)
    samples = _sampled([1e-3, 1e-3, 2e-3, 1e-3], repeats=3, budget_s=5e-3, short_look=1)
    assert samples.seconds == pytest.approx((2e-3,))  # the third, which waited least
    assert samples.discarded > 2


def test_a_busy_machine_gets_more_time_for_a_short_look(delays):
    delays.extend([1.0] * 8)
    samples = _sampled([1e-3], repeats=9, budget_s=4e-3)
    assert samples.discarded == 8
    assert len(samples.seconds) == 3


def test_something_runs_before_every_sample(delays):
    order = []
    take_samples(
        lambda: order.append("call"), repeats=3, min_sample_s=1.0, budget_s=1.0,
        before=lambda: order.append("flush"),
    )  # fmt: skip
    assert order == ["flush", "call"] * 3


def test_run_delay_sees_a_crowded_core():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("needs a Linux scheduler")
    before = os.sched_getaffinity(0)
    other = None
    try:
        os.sched_setaffinity(0, {min(before)})
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        with RunDelay() as delay:
            start, waited = delay.seconds(), 0.0
            end = time.monotonic() + 60
            while waited < 0.01 and time.monotonic() < end:  # once the other has started
                waited = delay.seconds() - start
    finally:
        if other:
            other.kill()
            other.wait()
        os.sched_setaffinity(0, before)
    assert waited >= 0.01


def test_interleaved_functions_take_turns(delays):
    order = []
    functions = {name: lambda name=name: order.append(name) for name in "abc"}
    samples = interleave(functions, 4, warmup=0)
    assert order[:3] == ["a", "b", "c"]  # how long a call takes
    assert "".join(order[3:]) == "abcbcacababc"
    assert {len(s.seconds) for s in samples.values()} == {4}


def test_a_disturbed_round_is_discarded_whole(delays, clock):
    delays.extend([0.0, 0.0, 0.0, 1.0])  # after one each: how long it takes
    functions = {"a": clock.lasting(1e-5), "b": clock.lasting(2e-5)}
    samples = interleave(functions, 3)
    assert [len(s.seconds) for s in samples.values()] == [3, 3]
    assert samples["a"].discarded == 1
    delays.extend([1.0] * 100)
    samples = interleave(functions, 3)
    assert [len(s.seconds) for s in samples.values()] == [6, 6]


def test_settling_puts_an_untimed_call_before_every_sample(delays):
    order = []
    functions = {name: lambda name=name: order.append(name) for name in "ab"}
    began = time.perf_counter()
    interleave(functions, 2, warmup=0, settle_s=0.01)
    assert time.perf_counter() - began > 0.04
    assert "".join(order[2:]) == "aabbbbaa"


def test_paired_ratio_and_budget(delays, clock):
    functions = {"a": clock.lasting(4e-4), "b": clock.lasting(1e-4)}
    samples = interleave(functions, 9, min_sample_s=2e-4)
    assert paired_ratio(samples["a"], samples["b"]) == pytest.approx(4)
    assert len(interleave(functions, 99, budget_s=0)["a"].seconds) == 1
    assert paired_ratio(Samples((1.0, 3.0, 8.0)), Samples((1.0, 1.0, 2.0))) == 3


class NeverAlone:
    """A stopwatch of a machine whose cores are always taken."""

    def time(self, call, number):
        return Lap(1e-3, waited=0.9e-3)


def test_a_machine_that_is_busy_for_good_ends_the_wait():
    watch = lambda: nullcontext(NeverAlone())  # noqa: E731
    found = take_samples(
        lambda: None, repeats=3, min_sample_s=0, budget_s=math.inf, stopwatch=watch
    )
    assert found.seconds and found.discarded == 10 * 3 - len(found.seconds)
