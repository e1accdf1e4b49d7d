from __future__ import annotations

import math

import numpy as np
import pytest

from tilework.search import EFFORTS, TaskScheduler, TuningError, TuningOptions
from tilework.search.budget import FEW, Budget
from tilework.travel.likeness import Shape

OPTIONS = TuningOptions(num_measure_trials=1000, num_measures_per_round=8)


def _spend(scheduler, rounds, latency_of):
    """Runs rounds; ``latency_of(index, round)`` gives the best latency of that round."""
    order = []
    for _ in range(rounds):
        index = scheduler.next()
        if index is None:
            break
        latency = latency_of(index, scheduler.states[index].rounds)
        scheduler.update(index, 8, 8 if math.isfinite(latency) else 0, latency)
        order.append(index)
    return order


def test_the_first_pass_goes_by_predicted_share():
    scheduler = TaskScheduler([1, 4, 1, 1], [1e-3, 1e-3, 2e-3, 5e-4], OPTIONS)
    assert _spend(scheduler, 4, lambda i, r: [1e-3, 1e-3, 2e-3, 5e-4][i]) == [1, 2, 0, 3]


def test_the_last_tenth_of_a_run_closes_it():
    now = [0.0]
    budget = Budget(TuningOptions(num_measure_trials=100, seconds=50), 2, lambda: now[0])
    assert not budget.closing
    budget.spend(89, True)
    assert not budget.closing
    budget.spend(1, True)
    assert budget.closing
    slow = Budget(TuningOptions(num_measure_trials=100, seconds=50), 2, lambda: now[0])
    now[0] = 46.0
    assert slow.closing


def test_negligible_tasks_come_last_and_briefly():
    options = TuningOptions(num_measure_trials=999, num_measures_per_round=8, min_share=0.01)
    scheduler = TaskScheduler([1, 1, 1], [1e-5, 1e-2, 1e-2], options)
    assert [scheduler.negligible(index) for index in range(3)] == [True, False, False]
    order = _spend(scheduler, 10, lambda i, r: [1e-5, 1e-2, 1e-2][i])
    assert order[:3] == [1, 2, 0] and 0 not in order[3:]
    budget = Budget(options, 3)
    assert budget.round_size(first=True, negligible=True) == FEW
    assert budget.round_size(first=True) == 8


def test_heavy_tasks_get_more_rounds():
    scheduler = TaskScheduler([8, 1], [1e-3, 1e-3], OPTIONS)
    order = _spend(scheduler, 20, lambda i, r: 1e-3 * 0.97**r)
    assert order.count(0) > 2 * order.count(1) > 0


def test_improving_tasks_get_more_rounds_than_stuck_ones():
    scheduler = TaskScheduler([1, 1], [1e-3, 1e-3], OPTIONS)
    order = _spend(scheduler, 16, lambda i, r: 2e-3 * 0.9**r if i == 1 else 1e-3)
    assert order.count(1) > order.count(0)


def test_a_task_far_above_its_draft_is_favoured():
    scheduler = TaskScheduler([1, 1, 1], [1e-3, 1e-3, 1e-3], OPTIONS)
    order = _spend(scheduler, 12, lambda i, r: [1e-3, 1e-3, 4e-3][i])
    assert order.count(2) > order.count(0)


def test_all_the_weight_on_one_task():
    scheduler = TaskScheduler([1e5, 0], [1.0, 1.0], OPTIONS)
    assert sorted(_spend(scheduler, 5, lambda i, r: [100, 1e-8][i])) == [0, 0, 0, 0, 1]


def test_a_task_that_only_fails_is_given_up():
    scheduler = TaskScheduler([100, 1], [1e-2, 1e-3], OPTIONS)
    order = _spend(scheduler, 10, lambda i, r: math.inf if i == 0 else 1e-3)
    assert order.count(0) == 2
    assert "valid" in scheduler.states[0].retired
    assert math.isfinite(scheduler.estimated_total_s())


def test_a_task_without_any_schedule_is_given_up_at_once():
    scheduler = TaskScheduler([1, 1], [math.inf, 1e-3], OPTIONS)
    assert 0 not in _spend(scheduler, 5, lambda i, r: 1e-3)


def test_per_task_early_stopping_and_the_end():
    options = TuningOptions(num_measure_trials=999, per_task_early_stopping=16)
    scheduler = TaskScheduler([1, 1], [1e-3, 1e-3], options)
    order = _spend(scheduler, 50, lambda i, r: 1e-3)
    assert len(order) == 6  # one round each that improves, two each that do not
    assert scheduler.next() is None
    assert "16 trials" in scheduler.states[0].retired


def test_the_end_when_little_is_to_be_gained():
    options = TuningOptions(num_measure_trials=9999, num_measures_per_round=8, min_gain=0.02)
    scheduler = TaskScheduler([1, 1], [1e-3, 1e-3], options)
    assert 2 < len(_spend(scheduler, 200, lambda i, r: 1e-3)) < 30


def test_an_earlier_runs_rounds_count_but_are_no_sign_of_being_stuck():
    scheduler = TaskScheduler([1, 1], [1e-3, 1e-3], OPTIONS)
    for _ in range(4):
        scheduler.credit(0, 8, 8, 1e-3)
    scheduler.credit(1, 8, 0, math.inf)
    assert scheduler.states[0].stale_rounds == 0
    assert scheduler.next() == 1  # measured, but never well: first pass again
    assert scheduler.trials == 40


def test_ties_go_to_the_first_and_decisions_repeat():
    orders = [
        _spend(TaskScheduler([1] * 4, [1e-3] * 4, OPTIONS), 12, lambda i, r: 1e-3)
        for _ in range(2)
    ]
    assert orders[0] == orders[1]
    assert orders[0][:4] == [0, 1, 2, 3]


def test_bad_options():
    with pytest.raises(TuningError, match="budget"):
        TuningOptions()
    with pytest.raises(TuningError, match="num_measures_per_round"):
        TuningOptions(num_measure_trials=1, num_measures_per_round=0)
    with pytest.raises(TuningError, match="seconds"):
        TuningOptions(seconds=0)


def test_efforts_are_ordered():
    draft, quick, full = (EFFORTS[name] for name in ("draft", "quick", "full"))
    assert draft.seconds < 60 < quick.seconds < 900 < full.seconds <= 3600
    assert draft.first_round <= 10 and quick.first_round <= 32


CONV = Shape(16, 9, 3, 3, "float32")
DENSE = Shape(10, 10, 1, 2, "float32")


def test_rounds_go_to_the_task_whose_likes_are_faster():
    """Three alike layers: two reach half of what was drafted, the third is far from that."""

    def latency(index, number):
        return [0.5e-3, 0.5e-3, 1.4e-3, 1.0e-3][index]

    shares = []
    for likes in ((), (CONV, CONV, CONV._replace(points=17), DENSE)):
        scheduler = TaskScheduler([1] * 4, [1e-3] * 4, OPTIONS, likes)
        order = _spend(scheduler, 14, latency)
        assert sorted(order[:4]) == [0, 1, 2, 3]
        shares.append(order[4:].count(2))
        if likes:
            assert order[4] == 2
            assert order[4:].count(2) < 10  # it may well be that it can reach no more
    assert shares[1] > shares[0]


def test_only_alike_tasks_are_compared():
    shapes = (CONV, DENSE, None, CONV._replace(dtype="bfloat16", points=20))
    scheduler = TaskScheduler([1] * 4, [1e-3] * 4, OPTIONS, shapes)
    plain = TaskScheduler([1] * 4, [1e-3] * 4, OPTIONS)
    for index, best in enumerate((0.2e-3, 2e-3, 2e-3, 2e-3)):
        for one in (scheduler, plain):
            one.update(index, 8, 8, best)
    assert scheduler.gains() == plain.gains()


def test_a_network_of_alike_layers_is_tuned_with_fewer_trials():
    """Twelve alike layers, some of which are slow to find what the others have found at once."""
    spent = []
    for likes in ((), [CONV] * 12):
        total = 0
        for seed in range(6):
            rng = np.random.default_rng(seed)
            best = rng.uniform(0.45e-3, 0.55e-3, 12)
            found_at = rng.integers(1, 3, 12) + 5 * (rng.random(12) < 0.3)

            def latency(index, number, best=best, found_at=found_at):
                late = number < found_at[index]
                return best[index] * (2.2 if late else 1.0) * (1 + 0.3 / (1 + number) ** 2)

            scheduler = TaskScheduler([1] * 12, [1e-3] * 12, OPTIONS, likes)
            while sum(s.best_s for s in scheduler.states) > 1.1 * best.sum():
                _spend(scheduler, 1, latency)
            total += scheduler.trials
        spent.append(total)
    assert spent[1] < 0.9 * spent[0]
