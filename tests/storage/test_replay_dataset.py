"""The recorded dataset, and the search's quality on it: deterministic, without hardware."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks._recorded import Replay, replay_search
from storage import RecordStore
from tests.codegen.table import differences
from tests.hosts import x86_records
from tilework.kinds.cpu.rules import RULES_VERSION
from tilework.model import XGBModel
from tilework.model.metrics import pairwise_accuracy, peak_score
from tilework.search import PolicyParams, Scope, SketchPolicy
from tilework.search.known import read_known

DATASET = Path(__file__).parent.parent / "data" / "replay"


ZEN4 = "llvm -mcpu=znver4 -num-cores=1"


@pytest.fixture(scope="module")
def store():
    return RecordStore(DATASET)


@pytest.fixture(scope="module")
def replay(store):
    records = store.read()
    if {r.rules_version for r in records} != {RULES_VERSION}:
        pytest.fail("recorded under other rules: run benchmarks/record_replay.py again")
    assert store.problems == []
    return Replay(store, ZEN4)


def test_it_is_small_and_has_many_tasks_of_nine_targets_on_two_cpus(store):
    rows: dict[str, dict[str, int]] = {}
    records = store.read()
    for record in records:
        of = rows.setdefault(str(record.target), {})
        of[record.workload_key] = of.get(record.workload_key, 0) + 1
    assert len(rows) == 9
    for target, of in rows.items():
        fewest, least = (8, 224) if target == ZEN4 else (50, 80)
        assert len(of) >= fewest and min(of.values()) >= least
    assert len({r.device for r in records}) == 2
    assert sum(f.stat().st_size for f in DATASET.rglob("*") if f.is_file()) < 3e6


def test_nobody_searched_for_its_programs_and_it_names_no_host(store):
    records = store.read()
    assert {r.model_id for r in records} == {"sample", "grid"}
    assert {r.host for r in records} == {""}
    assert {r.latency_samples for r in records} == {()}
    programs = {(r.target, r.workload_key, r.sketch_id, r.decisions) for r in records}
    assert len(programs) == len({r.record_id for r in records}) == len(records)


def test_every_workload_is_called_by_a_network(store):
    """But for single layers, which are of no network here."""
    document = json.loads((DATASET / "_networks.json").read_text())
    assert document["format"] == "tilework-dataset-1" and len(document["networks"]) == 7
    called = {key for keys in document["networks"].values() for key in keys}
    assert all(count >= 1 for keys in document["networks"].values() for count in keys.values())
    present = {key for target, key in store.keys() if target != ZEN4}  # noqa: SIM118
    assert present == called
    assert all(store.workload(key) for key in present)


def test_code_of_its_workloads_is_what_the_table_says():
    """As tests/codegen/test_table.py, which runs where Parquet cannot be read."""
    assert list(differences("recorded")) == []


@x86_records
def test_the_draft_orders_programs(replay):
    accuracy = []
    for task in replay.tasks:
        known = read_known(replay.space_of(task), replay.records(task))
        accuracy.append(pairwise_accuracy(-known.draft_s, known.latency_s))
    assert np.mean(accuracy) > 0.75


@x86_records
def test_a_search_comes_near_the_best_in_few_trials(replay):
    trials = []
    for task in replay.tasks:
        policy = SketchPolicy(
            Scope(task, 0, PolicyParams(population=512, generations=2), replay.space_of(task)),
            XGBModel(),
        )
        limit = 1.1 * replay.best_s(task)
        course = replay_search(replay, task, policy, trials=160, until_s=limit)
        trials.append(course.trials_to(limit) or 320)
    assert np.exp(np.mean(np.log(trials))) < 50


@x86_records
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
