"""Retraining on small stores: what is promoted, what is skipped, what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from storage import RecordStore
from tasks.learning import growth, material, retrain, transfer
from tasks.plan import SearchPlan
from tasks.starts import begin
from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.errors import StoreError
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.model.draft import draft_of
from tilework.record import Status
from tilework.search import TuningOptions
from tilework.search.corpus import keep_workloads
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGETS = [Target(x86(f"x86-64-{level}", 1)) for level in ("v3", "v4")]
SIZES = (16, 24, 32, 40, 48, 56, 64, 80, 96, 112)


def task_of(size: int, target: Target) -> SearchTask:
    return SearchTask(te.ComputeDAG(workloads.matmul(size, 64, 96, free=True)), target, "dense")


def records(task: SearchTask, count: int, run: str, wrong: float = 3.0):
    """Latencies of the draft, but that half of the programs are ``wrong`` times as slow."""
    rng = np.random.default_rng(len(run) + count)
    sketch = SearchSpace.of(task).sketches[0]
    rows = sketch.sample(rng, count)
    seconds = draft_of(task.target).seconds(sketch, rows)
    odd = np.log2(np.maximum(rows, 1)).sum(axis=1) % 2 < 1
    seconds = seconds * np.where(odd, wrong, 1.0)
    measured = [
        Measured(Candidate(sketch.id, tuple(map(int, row)), 0.5, "draft"), Status.ok, latency_s=s)
        for row, s in zip(rows, seconds.tolist(), strict=True)
    ]
    return to_records(task, measured, run_id=f"{run}-{task.workload_key[2:10]}", round=0)


def filled(path, targets=TARGETS, sizes=SIZES, count=24, run="a", **changes) -> RecordStore:
    store = RecordStore(path)
    for target in targets:
        for size in sizes:
            task = task_of(size, target)
            keep_workloads(store, [task])
            store.append(records(task, count, f"{run}{target.num_cores}{target}", **changes))
    return store


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A store of two targets, and what retraining on it came to."""
    path = tmp_path_factory.mktemp("learnt") / "records"
    filled(path)
    said: list[str] = []
    (done,) = retrain.retrain([str(path)], said.append)
    return path, done, said


@pytest.fixture
def store(learnt, tmp_path):
    shutil.copytree(learnt[0], tmp_path / "records")
    return RecordStore(tmp_path / "records")


def test_what_was_learnt_is_kept_with_its_card(learnt):
    path, done, said = learnt
    models = RecordStore(path).models
    card = models.card(done.name)
    assert done.before == "" and done.skipped == "" and card == done.card
    assert card.records == card.held == 2 * len(SIZES) * 24
    assert [(t.target, t.workloads) for t in card.taught] == [(str(t), 10) for t in TARGETS]
    assert [one.target for one in card.judged] == [str(target) for target in TARGETS]
    assert all(set(one.top) == {"draft", "model"} for one in card.judged)
    assert len(card.elsewhere) == 3 and card.parent == ""
    assert len(models.seen(done.name)) == card.records
    assert len([line for line in said if line.startswith("judging on held-out tasks")]) == 4
    assert (models.champion_name("llvm") == done.name) == card.promoted
    assert done.verdict.startswith(f"{done.name} is ")


def test_nothing_new_trains_nothing(store):
    for again in retrain.retrain([store.path], print), retrain.retrain([store.path], print):
        assert (
            again[0].card is None and "learnt from just these records already" in again[0].verdict
        )
    (still,) = retrain.retrain([store.path], print, grown=0.2, force=False)
    assert "+0% since llvm-" in still.skipped
    (forced,) = retrain.retrain([store.path], print, force=True)
    assert forced.card is None and "which is there already" in forced.skipped
    assert len(store.models.names()) == 1


def test_growth_is_seen_without_reading_the_records(store):
    (now,) = growth.grown(store)
    assert now.share == 0 and now.new_targets == ()
    filled(store.path, TARGETS[:1], count=16, run="more")
    other = Target(x86("x86-64-v2", 1))
    filled(store.path, [other], SIZES[:2], count=4, run="other")
    (now,) = growth.grown(RecordStore(store.path))
    assert now.held == now.then + 168 and now.share > growth.ENOUGH
    assert now.new_targets == (str(other),) and "+35% since llvm-" in now.text


def test_a_champion_is_compared_on_what_it_has_not_seen(store, learnt):
    name = learnt[1].name
    if store.models.champion_name("llvm") != name:
        store.models.promote(name, by="test")
    filled(store.path, count=20, run="newer")
    (done,) = retrain.retrain([store.path], print)
    assert done.before == name and done.card.parent == name
    assert all("champion" in one.top for one in done.card.judged)
    assert all(len(one.over_champion) == 3 for one in done.card.judged)
    assert (RecordStore(store.path).models.champion_name("llvm") == name) != done.promoted


def test_a_champion_that_cannot_be_read_is_told_and_not_compared_with(store, learnt):
    name = learnt[1].name
    if store.models.champion_name("llvm") != name:
        store.models.promote(name, by="test")
    store.documents("models").keep(name, "swapped")
    filled(store.path, sizes=SIZES[:1], count=8, run="x")
    (done,) = retrain.retrain([store.path], print)
    assert "cannot be compared with" in done.card.reason and "another one's" in done.card.reason


@pytest.mark.parametrize("what", ["one target", "few workloads", "no workloads"])
def test_where_little_can_be_judged_it_says_so(tmp_path, what):
    targets = TARGETS[:1]
    sizes = SIZES if what == "one target" else SIZES[:3]
    store = filled(tmp_path / "records", targets, sizes, 12)
    if what == "no workloads":
        for name in store.documents("workloads").names():
            store.documents("workloads").remove(name)
    (done,) = retrain.retrain([store.path], print)
    if what == "no workloads":
        assert done.card is None and "teaches anything" in done.verdict
        return
    assert done.card.elsewhere == () and not done.card.anywhere
    if what == "few workloads":
        assert not done.promoted and "nothing can be judged" in done.verdict
        assert RecordStore(store.path).champion("llvm") is None
        assert done.name in RecordStore(store.path).models.names()


def test_a_run_begins_with_what_was_learnt(store, learnt):
    name = learnt[1].name
    task = task_of(128, TARGETS[0])
    plan = SearchPlan([task], [1.0], TuningOptions(num_measure_trials=8), "run", model=name)
    start = begin(store, plan, task.target)
    assert start.name == name and start.model.trained
    assert start.text == f"{name}, learnt from 480 records of 2 targets"


def test_records_of_several_stores_count_once(store, tmp_path):
    whole = material.gather([store], "llvm")
    twice = material.gather([store, RecordStore(store.path)], "llvm")
    assert len(twice) == len(whole) == len(whole.programs)
    assert twice.held == {str(target): 2 * 240 for target in TARGETS}


@pytest.mark.parametrize("learn", [retrain.retrain, transfer.evaluate_transfer])
def test_a_missing_or_empty_store_is_one_line(tmp_path, learn):
    with pytest.raises(StoreError, match="there is no record store at"):
        learn([str(tmp_path / "none")], print)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="there are no records in"):
        learn([str(tmp_path / "empty")], print)
    with pytest.raises(StoreError, match="name a record store"):
        learn([], print)


def test_transfer_leaves_each_target_out_and_is_kept(store):
    (done,) = transfer.evaluate_transfer([store.path], print)
    assert [(row.what, row.name) for row in done.rows] == [("target", str(t)) for t in TARGETS]
    assert all(set(row.top) == set(transfer.RANKERS) for row in done.rows)
    assert all(row.workloads == len(SIZES) and len(row.over_own) == 3 for row in done.rows)
    assert transfer.last_report(store, "llvm") == done
    (again,) = transfer.evaluate_transfer([store.path], print, new=True)
    assert again.rows == () and "no target or device is new" in again.skipped
    with pytest.raises(StoreError, match="is no target or device"):
        transfer.evaluate_transfer([store.path], print, only=["llvm -mcpu=none"])


def test_one_target_has_nothing_to_transfer_from(tmp_path):
    store = filled(tmp_path / "records", TARGETS[:1], SIZES[:2], 8)
    (done,) = transfer.evaluate_transfer([store.path], print)
    assert done.rows == () and "nothing to transfer from" in done.verdict


def test_a_report_that_cannot_be_read_is_none(store):
    store.documents(transfer.KIND).keep("llvm", '{"rows": [3]}')
    assert transfer.last_report(store, "llvm") is None


def test_records_of_other_rules_teach_nothing(store):
    old = [replace(r, rules_version=1, record_id=f"old-{r.record_id}") for r in store.read()]
    path = f"{store.path}-old"
    RecordStore(path).append(old)
    (done,) = retrain.retrain([path], print)
    assert done.card is None and "rules of another version" in done.skipped
