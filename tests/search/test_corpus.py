"""Learning from the records of other networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.model import XGBModel
from tilework.model.draft import draft_of
from tilework.record import MemoryHistory, Purpose, Status
from tilework.search import PolicyParams, TuningOptions, TuningRun, TuningSession, corpus
from tilework.search.corpus import choose, keep_workloads, lessons, nearest, other_workloads
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.target.identity import DeviceIdentity
from tilework.task import SearchTask
from tilework.te.serial import dag_to_json
from tilework.travel.likeness import Shape, distance, shape_of

TARGET = Target(x86("x86-64-v4", 2))
PARAMS = PolicyParams(population=64, generations=1, neighbours=4)


def _task(size: int, free: bool = True) -> SearchTask:
    return SearchTask(
        te.ComputeDAG(workloads.matmul(size, size, size, free=free)), TARGET, "dense"
    )


def _records(task, count, run="other"):
    rng = np.random.default_rng(0)
    sketch = SearchSpace.of(task).sketches[0]
    rows = sketch.sample(rng, count)
    seconds = draft_of(sketch.target).seconds(sketch, rows) * rng.lognormal(
        sigma=0.1, size=len(rows)
    )
    measured = [
        Measured(Candidate(sketch.id, tuple(map(int, row)), 0.5, "draft"), Status.ok, latency_s=s)
        for row, s in zip(rows, seconds, strict=True)
    ]
    return to_records(task, measured, run_id=run, round=0)


@pytest.fixture
def history():
    out = MemoryHistory()
    task = _task(64)
    out.append(_records(task, 40))
    keep_workloads(out, [task])
    return out


def test_a_run_starts_with_a_model_of_other_networks(history):
    options = TuningOptions(num_measure_trials=8, policy=PARAMS)
    model = XGBModel()
    session = TuningSession(TuningRun([_task(128)], options, "run"), history, model)
    assert model.trained and model.num_observations == 40
    session.propose(0)
    cold = XGBModel()
    TuningSession(TuningRun([_task(128)], options, "r", warm=False), history, cold)
    assert not cold.trained


def test_own_workloads_are_not_learnt_twice(history):
    options = TuningOptions(num_measure_trials=8, policy=PARAMS)
    model = XGBModel()
    TuningSession(TuningRun([_task(64)], options, "run"), history, model)
    assert model.num_observations == 40
    assert other_workloads(history, [_task(64)]) == []


def test_what_cannot_be_used_is_left_out(history):
    mine, elsewhere = _task(128), replace(_task(128), target=TARGET.with_cores(1))
    assert len(other_workloads(history, [mine])) == 1
    assert other_workloads(history, [elsewhere]) == other_workloads(history, []) == []
    for number, document in enumerate(["", "{}", '{"format": "tilework-dag-9"}']):
        task = _task(32 + number)
        history.append(_records(task, 10, f"run{number}"))
        history.keep_workload(task.workload_key, document)
    wrong = _task(48)
    history.append(_records(wrong, 10, "wrong"))
    history.keep_workload(wrong.workload_key, history.workload(_task(64).workload_key))
    old = [replace(r, rules_version=0) for r in _records(_task(16), 10, "old")]
    history.append(old)
    keep_workloads(history, [_task(16)])
    assert len(other_workloads(history, [mine])) == 1


def test_the_choice_of_many_records():
    latency = np.array([5.0, 1.0, np.inf, 3.0, 2.0, 4.0, 6.0, np.inf])
    assert choose(latency, 8).tolist() == list(range(8))
    assert choose(latency, 4).tolist() == [1, 3, 4, 6]


def test_a_session_keeps_what_its_tasks_compute():
    from tests.search.fakes import FakeMeasurer, FakeTask, space_of
    from tilework.search.tune import run_round

    task = _task(64)

    class Instant:
        def measure(self, task, candidates, best_latency_s):
            return [Measured(c, Status.ok, latency_s=1e-3) for c in candidates]

    history = MemoryHistory()
    options = TuningOptions(num_measure_trials=4, policy=PARAMS)
    session = TuningSession(TuningRun([task], options, "run"), history)
    run_round(session, session.next_task(), Instant())
    assert history.workload(task.workload_key) is not None
    fake = FakeTask("fake")
    session = TuningSession(TuningRun([fake], options, "run", space_of=space_of), history)
    run_round(session, session.next_task(), FakeMeasurer())
    assert history.workload("fake") is None


def test_of_too_many_workloads_the_nearest_teach(history, monkeypatch):
    monkeypatch.setattr(corpus, "WARM_RECORDS", 2 * corpus.LEAST_SHARE)
    for size in (8, 16, 32, 96, 1024):
        history.append(_records(_task(size), 30, f"run{size}"))
        keep_workloads(history, [_task(size)])
    for mine, near in ((128, {96, 64}), (4, {8, 16}), (2048, {1024, 96})):
        found = other_workloads(history, [_task(mine)])
        keys = {o.batch.workload_key for o in found}
        assert keys == {_task(size).workload_key for size in near}
        assert sum(len(o.batch) for o in found) == 2 * corpus.LEAST_SHARE


def test_records_of_other_devices_teach_nothing(history):
    here = DeviceIdentity("A CPU", (), 1e-3)
    assert len(other_workloads(history, [_task(128)], None)) == 1
    assert other_workloads(history, [_task(128)], here) == []


def test_likeness_of_workloads():
    small, large, conv = (
        shape_of(dag_to_json(te.ComputeDAG(ops)))
        for ops in (
            workloads.matmul(64, 64, 64),
            workloads.matmul(128, 64, 64),
            workloads.conv2d_relu(1, 14, 14, 8, 24),
        )
    )
    assert small == Shape(12.0, 6.0, 1, 1, "float32") and conv.loops == 3 and conv.stages == 4
    assert distance(small, small) == 0 and distance(small, large) == 1
    assert distance(small, conv) == distance(conv, small) > 4
    for odd in ("", "[]", "{}", '{"ops": []}', '{"ops": [{"compute": "c"}]}', '{"ops": [3]}'):
        assert shape_of(odd) is None
    documents = {"b": "{}", "a": "", "near": dag_to_json(_task(64).compute_dag)}
    assert nearest(documents, [_task(128)]) == ["near", "a", "b"]


def test_lessons_of_several_targets_and_devices(history):
    one = TARGET.with_cores(1)
    other = replace(_task(64), target=one)
    history.append(_records(other, 30, "one"))
    moved = [replace(r, device_id="b-2") for r in _records(other, 20, "moved")]
    history.append(moved)
    found = lessons(history, [str(TARGET), str(one), "nonsense"])
    here = history.read()[0].device_id
    expected = [(str(one), "b-2", 20), (str(one), here, 30), (str(TARGET), here, 40)]
    assert sorted((str(f.target), f.device, len(f)) for f in found) == sorted(expected)
    found = [next(f for f in found if len(f) == count) for count in (20, 30, 40)]
    assert found[0].observations[0].batch.features.shape[0] == 20
    assert len(lessons(history, [str(one)], keep=lambda key, _: False)) == 0
    few = lessons(history, [str(TARGET), str(one)], most=60)
    assert [len(f) for f in few] == [20, 20, 20]
    fastest = {min(o.latency_s.min() for o in f.observations) for f in found}
    assert {min(o.latency_s.min() for o in f.observations) for f in few} == fastest


def test_finals_replace_what_was_measured_alone(history):
    (key,) = history.workload_keys(str(TARGET))
    record = min(history.of(key, str(TARGET)), key=lambda r: r.latency_s)
    verdict = 2 * record.latency_s
    history.append([replace(record, record_id="final", purpose=Purpose.final, latency_s=verdict)])
    (found,) = lessons(history, [str(TARGET)])
    assert len(found) == 40
    latency = np.concatenate([o.latency_s for o in found.observations])
    assert verdict in latency and record.latency_s not in latency
