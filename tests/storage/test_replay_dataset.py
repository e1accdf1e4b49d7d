"""The recorded dataset, and the search's quality on it: deterministic, without hardware."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storage import RecordStore
from tilework.kinds.cpu.rules import RULES_VERSION
from tilework.model import XGBModel
from tilework.model.metrics import pairwise_accuracy, peak_score
from tilework.search import PolicyParams, SketchPolicy
from tilework.search.known import read_known
from tilework.search.replay import Replay, replay_search

DATASET = Path(__file__).parent.parent / "data" / "replay"


@pytest.fixture(scope="module")
def replay():
    store = RecordStore(DATASET)
    records = store.read()
    if {r.rules_version for r in records} != {RULES_VERSION}:
        pytest.fail("recorded under other rules: run benchmarks/record_replay.py again")
    assert store.problems == []
    return Replay(store, str(records[0].target))


def test_it_is_small_and_has_several_tasks():
    store = RecordStore(DATASET)
    by_task: dict[str, int] = {}
    for record in store.read():
        by_task[record.workload] = by_task.get(record.workload, 0) + 1
    assert len(by_task) >= 8 and min(by_task.values()) >= 300
    assert sum(f.stat().st_size for f in DATASET.rglob("*") if f.is_file()) < 3e6


def test_the_draft_orders_programs(replay):
    accuracy = []
    for task in replay.tasks:
        known = read_known(replay.space_of(task), replay.records(task))
        accuracy.append(pairwise_accuracy(-known.draft_s, known.latency_s))
    assert np.mean(accuracy) > 0.75


def test_a_search_comes_near_the_best_in_few_trials(replay):
    trials = []
    for task in replay.tasks:
        policy = SketchPolicy(
            task,
            XGBModel(),
            params=PolicyParams(population=512, generations=2),
            space=replay.space_of(task),
        )
        limit = 1.1 * replay.best_s(task)
        course = replay_search(replay, task, policy, trials=160, until_s=limit)
        trials.append(course.trials_to(limit) or 320)
    assert np.exp(np.mean(np.log(trials))) < 50


def test_what_a_model_learns_on_a_task_ranks_the_rest(replay):
    scores = []
    for task in replay.tasks[::2]:
        known = read_known(replay.space_of(task), replay.records(task))
        order = np.random.default_rng(0).permutation(len(known))
        model, predicted = XGBModel(), np.zeros(len(known))
        for batch, _, learn in _halves(known, task, order[:128], order[128:]):
            if learn:
                model.observe(batch)
        model.fit()
        for batch, where, learn in _halves(known, task, order[:128], order[128:]):
            if not learn:
                predicted[where] = model.predict(batch.batch)
        rest = order[128:]
        scores.append(peak_score(predicted[rest], known.latency_s[rest], 5))
    assert np.mean(scores) > 0.9


def _halves(known, task, first, second):
    """Observations of two selections of records, sketch by sketch."""
    from tilework.model import Batch, Observation

    for index, sketch in enumerate(known.space.sketches):
        for select, learn in ((first, True), (second, False)):
            where = select[known.sketch[select] == index]
            if len(where):
                rows = np.array([known.records[i].decisions for i in where], np.int32)
                batch = Batch(task.workload_key, task.flops, sketch, rows, known.space.draft)
                yield Observation(batch, known.latency_s[where]), where, learn
