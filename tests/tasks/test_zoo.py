"""Merging the tasks of networks, and choosing which search goes on."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.zoo import Lane, Offer, Share, choose, merge
from tilework.search.budget import Budget
from tilework.search.options import TuningOptions
from tilework.search.scheduler import TaskScheduler


@dataclass(frozen=True)
class Task:
    workload_key: str
    target: str = "here"


def share(label, use, tasks, calls, target="here"):
    return Share(target, label, f"content of {label}", use, tasks, calls)


def test_a_task_that_networks_share_is_there_once_with_the_weight_of_all_its_calls():
    a, b, c = Task("a"), Task("b"), Task("c")
    (merged,) = merge([share("one", 3.0, [a, b], [2, 1]), share("two", 1.0, [b, c], [4, 5])])
    assert merged.tasks == [a, b, c]
    assert merged.weights == pytest.approx([0.75 * 2, 0.75 * 1 + 0.25 * 4, 0.25 * 5])
    assert merged.labels == ["one", "two", "two"]
    assert merged.networks == ["content of one", "content of two"]


def test_each_target_has_tasks_of_its_own_and_weights_of_the_whole_mix():
    here, there = Task("a", "here"), Task("a", "there")
    first, second = merge(
        [share("one", 1.0, [here], [1]), share("two", 3.0, [there], [1], target="there")]
    )
    assert (first.target, second.target) == ("here", "there")
    assert (first.weights, second.weights) == ([0.25], [0.75])
    assert (first.networks, second.networks) == (["content of one"], ["content of two"])


def test_the_same_network_twice_weighs_as_once_with_both_uses():
    a, b = Task("a"), Task("b")
    twice = merge([share("n", 1.0, [a, b], [2, 3]), share("n", 2.0, [a, b], [2, 3])])
    once = merge([share("n", 3.0, [a, b], [2, 3])])
    assert twice[0].weights == pytest.approx(once[0].weights)


shares = st.lists(
    st.tuples(
        st.floats(0.01, 100),
        st.sampled_from(["here", "there"]),
        st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20), min_size=1),
    ),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine
@given(shares, st.dictionaries(st.sampled_from("abcdef"), st.floats(1e-6, 1.0)))
def test_the_weighted_sum_of_tasks_is_the_mean_latency_of_the_networks(found, latencies):
    def latency(key):
        return latencies.get(key, 0.5)

    total = sum(use for use, _, _ in found)
    mean = sum(
        use / total * sum(calls * latency(key) for key, calls in network.items())
        for use, _, network in found
    )
    merged = merge(
        [
            share(str(n), use, [Task(key, where) for key in network], [*network.values()], where)
            for n, (use, where, network) in enumerate(found)
        ]
    )
    summed = sum(
        weight * latency(task.workload_key)
        for one in merged
        for task, weight in zip(one.tasks, one.weights, strict=True)
    )
    assert summed == pytest.approx(mean)
    for one in merged:
        keys = [task.workload_key for task in one.tasks]
        assert len(keys) == len(set(keys))
        assert {str(task.target) for task in one.tasks} == {one.target}


def test_the_search_that_promises_most_for_its_cost_goes_on():
    assert choose([Offer(0, 2.0, 1.0), Offer(0, 3.0, 2.0), Offer(0, 1.0, 0.4)]) == 2
    assert choose([Offer(0, 1.0, 1.0), Offer(0, 1.0, 1.0)]) == 0


def test_a_cost_that_nobody_knows_is_taken_to_be_usual():
    assert choose([Offer(0, 1.0, 2.0), Offer(0, 1.1, None)]) == 1
    assert choose([Offer(0, 1.1, 2.0), Offer(0, 1.0, None)]) == 0
    assert choose([Offer(0, 1.0, None), Offer(0, 2.0, None)]) == 1


class Session:
    """A search of one task that improves as the test says."""

    def __init__(self, budget, weight, draft_s):
        self.budget = budget
        self.scheduler = TaskScheduler([weight], [draft_s], budget.options)

    def next_task(self):
        return None if self.budget.exhausted() else self.scheduler.next()

    def round(self, index, trials, best_s):
        self.budget.spend(trials, improved=True)
        self.scheduler.update(index, trials, trials, best_s)


def lanes(options, *searches):
    budget = Budget(options, len(searches), clock=lambda: 0.0)
    return budget, [
        Lane(SimpleNamespace(session=Session(budget, weight, draft))) for weight, draft in searches
    ]


def test_trials_are_the_cost_where_they_are_what_is_short():
    _, (lane,) = lanes(TuningOptions(num_measure_trials=100, num_measures_per_round=8), (1, 1e-3))
    assert lane.offer().cost == 8


def test_seconds_are_the_cost_where_they_are_what_is_short_once_they_are_known():
    _, (lane,) = lanes(TuningOptions(seconds=60, num_measures_per_round=8), (1, 1e-3))
    assert lane.offer().cost is None
    lane.spent(trials=4, seconds=2.0)
    assert lane.offer().cost == pytest.approx(8 * 0.5)
    lane.spent(trials=4, seconds=4.0)
    assert 8 * 0.5 < lane.offer().cost < 8 * 1.0


def test_a_slow_device_gets_rounds_only_while_they_save_more_a_second():
    options = TuningOptions(seconds=1000, num_measures_per_round=10)
    _, found = lanes(options, (1, 1e-3), (1, 1e-3))
    quick, slow = found
    quick.spent(10, 1.0)
    slow.spent(10, 5.0)
    rounds = []
    for _ in range(12):
        place = choose([lane.offer() for lane in found])
        rounds.append(place)
        found[place].run.session.round(0, 10, 1e-3)  # nothing improves: what is promised fades
    assert rounds[0] == 0
    assert rounds.count(0) > rounds.count(1) >= 1


def test_a_search_that_is_over_offers_nothing():
    budget, (lane,) = lanes(TuningOptions(num_measure_trials=16), (1, 1e-3))
    assert lane.offer() is not None
    budget.spend(16, improved=False)
    assert lane.offer() is None
