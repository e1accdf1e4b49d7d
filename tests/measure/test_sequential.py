"""The sequential test: its error rate, with noise better and worse than it assumes."""

from __future__ import annotations

import numpy as np
import pytest

from tilework.measure.drift import drift, drifted, slowdown
from tilework.runtime.sequential import CHECKS, TOLERANCE, Check, error_bound, hopeless


def given_up(samples, best=1.0):
    """Share of the rows of ``samples`` that the test gives up at any point."""
    ended = [any(hopeless(row[:n], best) for n in range(1, len(row) + 1)) for row in samples]
    return np.mean(ended)


def noise(kind, rng, shape):
    """Samples of median 1: a core of a percent or so, and a long tail to the right."""
    core = np.exp(rng.normal(0, 0.012, shape))
    if kind == "quiet":
        return core
    slow = rng.random(shape) < (0.05 if kind == "tail" else 0.10)
    samples = np.where(slow, core * (1 + rng.exponential(0.10, shape)), core)
    return samples / np.median(samples)


def test_the_bound_is_below_one_percent():
    assert error_bound() < 0.01
    assert Check(4, 3, 1.0, 0.5).error == pytest.approx(5 / 16)
    assert [c.samples for c in CHECKS] == sorted(c.samples for c in CHECKS)


@pytest.mark.parametrize("kind", ["quiet", "tail", "busy"])
def test_contenders_are_given_up_less_often_than_stated(kind):
    rng = np.random.default_rng(7)
    samples = noise(kind, rng, (4000, 20))
    assert given_up(samples * (1 + TOLERANCE)) < 0.01
    assert given_up(samples) < 0.003


def test_noise_as_bad_as_assumed_keeps_the_bound():
    """Every tail probability of the checks reached at once, by a sample's rank."""
    rng = np.random.default_rng(8)
    u = rng.random((6000, 20))
    samples = np.full(u.shape, 0.99)
    for check in CHECKS[::-1]:
        samples[u < check.tail] = check.ratio * 1.0001
    assert given_up(samples * (1 + TOLERANCE)) < error_bound() * 1.2


def test_slow_candidates_are_given_up_soon():
    samples = noise("tail", np.random.default_rng(9), (500, 20))
    for ratio, most in ((4.0, 2.1), (1.7, 2.1), (1.3, 3.3), (1.12, 7)):
        lengths = [
            next(n for n in range(1, 99) if n == 20 or hopeless(row[:n] * ratio, 1.0))
            for row in samples
        ]
        assert np.mean(lengths) < most
        assert given_up(samples * ratio) > 0.95


def test_one_sample_alone_condemns_nobody():
    assert not hopeless([1000.0], 1.0)
    assert not any(hopeless([1000.0, *[1.0] * n], 1.0) for n in range(19))
    assert hopeless([1000.0, 1000.0], 1.0)


def test_without_a_best_nothing_is_given_up():
    assert not any(hopeless([1e9] * n, float("inf")) for n in range(1, 30))


def test_drift():
    assert drift(1.1, [1.0, 0.9, 1.0]) == pytest.approx(0.1)
    assert drift(None, [1.0]) == drift(1.0, []) == 0
    assert slowdown(1.2, [1.0]) == pytest.approx(1.2)
    assert slowdown(0.8, [1.0]) == 1
    assert slowdown(9.0, [1.0]) == 1.5
    assert drifted([1.0, 1.0, 1.04, 1.2, 0.9]) == 2
