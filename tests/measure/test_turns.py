"""Kernels in turns: order, disturbed samples, and latencies that may be compared."""

from __future__ import annotations

import numpy as np
import pytest

from tilework.measure.turns import Turns, latencies, take_turns
from tilework.runtime.samples import RunDelay


@pytest.fixture
def waits(monkeypatch):
    """Replaces the run-delay counter by increments, one per sample, then zeros."""
    increments, total, reads = [], [0.0], [0]

    def seconds(self):
        reads[0] += 1
        if reads[0] % 2 == 0 and increments:
            total[0] += increments.pop(0)
        return total[0]

    monkeypatch.setattr(RunDelay, "seconds", seconds)
    return increments


def test_the_order_turns(waits):
    order = []
    calls = [lambda name=name: order.append(name) for name in "abc"]
    turns = take_turns(calls, 3, min_sample_s=0, budget_s=9)
    assert "".join(order[3:]) == "aabbccbbccaaccaabb"  # after one each: how long it takes
    assert [len(one.seconds) for one in turns] == [3, 3, 3]


def test_disturbed_samples_are_taken_again_but_not_for_ever(waits):
    waits.extend([0, 0, 1.0, 0, 0, 0])  # after one each: how long it takes
    a, b = take_turns([lambda: None] * 2, 3, min_sample_s=0, budget_s=9)
    assert a.disturbed == (True, False, False, False)
    assert b.disturbed == (False,) * 4
    waits.extend([1.0] * 1000)
    (never,) = take_turns([lambda: None], 3, min_sample_s=0, budget_s=9)
    assert len(never.seconds) == 18 and never.good == ()
    waits.extend([1.0] * 1000)
    assert len(take_turns([lambda: None], 9, min_sample_s=0, budget_s=0)[0].seconds) == 1


def test_something_runs_before_every_sample():
    order = []
    take_turns(
        [lambda: order.append("call")], 2, min_sample_s=1, budget_s=0,
        before=lambda: order.append("flush"),
    )  # fmt: skip
    assert order == ["flush", "call"]


def test_slow_phases_of_the_machine_drop_out():
    rng = np.random.default_rng(3)
    phase = np.where(np.arange(25) % 7 < 3, 1.4, 1.0) * rng.normal(1, 0.003, 25)
    true = [1.0, 1.01, 1.03]
    turns = [Turns(tuple(t * phase * rng.normal(1, 0.003, 25)), (False,) * 25) for t in true]
    found = latencies(turns)
    assert found[1] / found[0] == pytest.approx(1.01, rel=0.004)
    assert found[2] / found[0] == pytest.approx(1.03, rel=0.004)


def test_disturbed_samples_do_not_count():
    good, bad = Turns((1.0,) * 20, (False,) * 20), Turns((2.0,) * 10 + (1.1,) * 10, ())
    bad = Turns(bad.seconds, (True,) * 10 + (False,) * 10)
    assert latencies([good, bad]) == pytest.approx([1.0, 1.1])
    few = Turns((2.0,) * 18 + (1.1,) * 2, (True,) * 18 + (False,) * 2)
    assert latencies([good, few]) == pytest.approx([1.0, 1.1])
    none = Turns((1.2, *[3.0] * 19), (True,) * 20)
    assert latencies([good, none])[1] == pytest.approx(3.0)
    mostly = Turns((1.2,) * 4 + (3.0,) * 16, (True,) * 20)
    assert latencies([good, mostly])[1] == pytest.approx(1.2)
    assert latencies([]) == []
