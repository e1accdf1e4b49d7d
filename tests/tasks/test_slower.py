"""Whether a module is called slower: hardly ever one that is not, nearly always one that is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.engines import MARGIN, joined, slower
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
def test_only_ratios_count(times, factor):
    few, old = len(times) < 8, Samples(tuple(times))
    new = Samples(tuple(factor * s for s in times))
    assert slower(new, old) == (not few and factor > MARGIN) or abs(factor - MARGIN) < 1e-9


def test_looks_are_joined_pair_by_pair():
    looks = [
        {"a": Samples((1.0, 2.0), 1), "b": Samples((3.0, 4.0))},
        {"a": Samples((5.0,)), "b": Samples((6.0,), 2)},
    ]
    assert joined(looks) == {"a": Samples((1.0, 2.0, 5.0), 1), "b": Samples((3.0, 4.0, 6.0), 2)}
