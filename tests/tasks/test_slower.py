"""Whether a module is called slower: hardly ever one that is not, nearly always one that is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.engines import joined
from tasks.report import Standing, Timing
from tasks.slower import FLOOR_S, MARGIN, allowed_s, looks_slower, slower
from tilework.runtime.samples import Samples

TIMES = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=40)


def called_slower(factor, noise, rounds, times=400):
    """Share of comparisons in which a module of so many times the other's time is called slower.

    Noise is of two kinds, as on a shared machine: of each sample, and rare large delays.
    """
    rng = np.random.default_rng(0)

    def samples(scale):
        found = scale * np.exp(noise * rng.standard_normal(rounds))
        return Samples(tuple(found * np.where(rng.random(rounds) < 0.1, 3.0, 1.0)))

    return np.mean([slower(samples(factor), samples(1.0)) for _ in range(times)])


@pytest.mark.parametrize("noise", [0.001, 0.02, 0.1])
@pytest.mark.parametrize("rounds", [4, 15, 60])
def test_equal_modules_are_hardly_ever_called_slower(noise, rounds):
    assert called_slower(1.0, noise, rounds) <= 0.005


@pytest.mark.parametrize(("factor", "noise"), [(1.08, 0.02), (1.2, 0.05), (1.49, 0.1)])
def test_slower_modules_are_called_slower(factor, noise):
    assert called_slower(factor, noise, 60) > 0.95


@given(TIMES)
def test_nothing_is_slower_than_itself(times):
    same = Samples(tuple(times))
    assert not slower(same, same)


@given(TIMES, st.floats(1.0, 2.0))
def test_a_ratio_and_a_time_count(times, factor):
    few, old = len(times) < 8, Samples(tuple(times))
    new = Samples(tuple(factor * s for s in times))
    longer = [(factor - 1) * s > FLOOR_S for s in times]
    if factor <= MARGIN - 1e-9 or few or not any(longer):
        assert not slower(new, old)
    elif factor > MARGIN + 1e-9 and all(longer):
        assert slower(new, old) and looks_slower(new, old)


@pytest.mark.parametrize(
    ("new_us", "old_us", "is_slower"),
    [
        (7.6, 6.0, False),  # 1.27 times as long, by 1.6 microseconds
        (3.2, 3.0, False),
        (12.0, 6.0, True),
        (53.5, 50.0, True),
        (52.5, 50.0, False),
        (1020.0, 1000.0, False),
        (1040.0, 1000.0, True),
    ],
)
def test_a_microsecond_or_two_is_not_slower(new_us, old_us, is_slower):
    new, old = (Samples((1e-6 * us,) * 20) for us in (new_us, old_us))
    assert slower(new, old) == looks_slower(new, old) == is_slower


@given(st.floats(1e-9, 10.0))
def test_what_is_allowed_is_a_floor_and_a_share(seconds):
    assert allowed_s(seconds) >= seconds + FLOOR_S * (1 - 1e-6)
    assert allowed_s(seconds) >= MARGIN * seconds
    assert allowed_s(1e-3) == MARGIN * 1e-3


def standing(tuned_us, untuned_us):
    tuned, untuned = (Timing(*[1e-3 * us] * 4, 0.0) for us in (tuned_us, untuned_us))
    return Standing(untuned, tuned, tuned_us / untuned_us, untuned, tuned_us / untuned_us)


def test_the_verdict_says_why_a_larger_ratio_does_not_count():
    assert standing(7.6, 6.0).words() == [
        "0.79 times as fast as untuned (1.6 us a call more, where 3 us do not count)",
        "0.79 times as fast as the module before (1.6 us a call more, where 3 us do not count)",
    ]
    assert standing(6.1, 6.0).words()[0] == "0.98 times as fast as untuned"
    assert standing(3.0, 6.0).words()[0] == "2.00 times as fast as untuned"


def test_looks_are_joined_pair_by_pair():
    looks = [
        {"a": Samples((1.0, 2.0), 1), "b": Samples((3.0, 4.0))},
        {"a": Samples((5.0,)), "b": Samples((6.0,), 2)},
    ]
    assert joined(looks) == {"a": Samples((1.0, 2.0, 5.0), 1), "b": Samples((3.0, 4.0, 6.0), 2)}
