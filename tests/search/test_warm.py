"""Learning from the records of other networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.te import workloads
from tilework import te
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.model import XGBModel
from tilework.model.draft import draft_of
from tilework.record import MemoryHistory, Status
from tilework.search import PolicyParams, TuningOptions, TuningSession
from tilework.search.warm import choose, keep_workloads, other_workloads
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -mcpu=x86-64-v4 -num-cores=2")
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
    session = TuningSession([_task(128)], None, options, history, run_id="run", model=model)
    assert model.trained and model.num_observations == 40
    session.propose(0)
    cold = XGBModel()
    TuningSession([_task(128)], None, options, history, run_id="r", model=cold, warm=False)
    assert not cold.trained


def test_own_workloads_are_not_learnt_twice(history):
    options = TuningOptions(num_measure_trials=8, policy=PARAMS)
    model = XGBModel()
    TuningSession([_task(64)], None, options, history, run_id="run", model=model)
    assert model.num_observations == 40
    assert other_workloads(history, str(TARGET), {_task(64).workload_key}) == []


def test_what_cannot_be_used_is_left_out(history):
    target = str(TARGET)
    assert len(other_workloads(history, target, ())) == 1
    assert other_workloads(history, "llvm -mcpu=other", ()) == []
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
    assert len(other_workloads(history, target, ())) == 1


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
    session = TuningSession([task], None, options, history, run_id="run")
    run_round(session, session.next_task(), Instant())
    assert history.workload(task.workload_key) is not None
    fake = FakeTask("fake")
    session = TuningSession([fake], None, options, history, run_id="run", space_of=space_of)
    run_round(session, session.next_task(), FakeMeasurer())
    assert history.workload("fake") is None
