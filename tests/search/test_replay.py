"""Searching in a dataset instead of on a machine."""

from __future__ import annotations

import numpy as np
import pytest

from tests.te import workloads
from tilework import te
from tilework.errors import StoreError
from tilework.measure.records import to_records
from tilework.measure.types import Candidate, Measured
from tilework.model import DraftModel, XGBModel
from tilework.model.plain import PlainModel
from tilework.record import MemoryHistory, Status
from tilework.search import PolicyParams, SketchPolicy, TuningOptions, TuningSession
from tilework.search.options import PLAIN_POLICY
from tilework.search.replay import SAMPLED, Progress, Replay, replay_search
from tilework.search.tune import run_round
from tilework.search.warm import keep_workloads
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -mcpu=x86-64-v4 -num-cores=2")
PARAMS = PolicyParams(population=128, generations=2)


@pytest.fixture(scope="module")
def history():
    """200 programs of a dense layer in two halves, drawn and found; every tenth has failed."""
    task = SearchTask(te.ComputeDAG(workloads.conv2d_relu(1, 14, 14, 32, 64)), TARGET, "conv")
    rng = np.random.default_rng(0)
    found = []
    for sketch in SearchSpace.of(task).sketches[:2]:
        rows = np.unique(sketch.sample(rng, 100), axis=0)
        seconds = sketch.draft(rows) * rng.lognormal(sigma=0.2, size=len(rows))
        for i, (row, s) in enumerate(zip(rows, seconds, strict=True)):
            model = SAMPLED if i % 2 else "draft"
            candidate = Candidate(sketch.id, tuple(map(int, row)), 0.0, model)
            bad = i % 10 == 0
            found.append(
                Measured(candidate, Status.timeout, "run: slow")
                if bad
                else Measured(candidate, Status.ok, latency_s=float(s), code_hash=str(i))
            )
    out = MemoryHistory(to_records(task, found, run_id="recorded", round=0))
    keep_workloads(out, [task])
    return out


@pytest.fixture(scope="module")
def replay(history):
    return Replay(history, str(TARGET))


def test_the_world_is_the_dataset(history, replay):
    (task,) = replay.tasks
    records = history.of(task.workload_key, str(TARGET))
    assert len(replay.records(task)) == len(records)
    assert replay.best_s(task) == min(r.latency_s for r in records if r.usable)
    space = replay.space_of(task)
    real = SearchSpace.of(task)
    assert [s.id for s in space.sketches] == [0, 1]
    for sketch in space.sketches:
        there = {r.decisions for r in records if r.sketch_id == sketch.id}
        assert {tuple(map(int, row)) for row in sketch.rows} == there
        rows = sketch.rows[::3]
        assert sketch.valid(rows).all()
        changed = rows.copy()
        changed[:, 0] += 77
        assert not sketch.valid(changed).any()
        original = real.sketch(sketch.id)
        assert np.array_equal(sketch.draft(rows), original.draft(rows))
        assert np.array_equal(sketch.features(rows), original.features(rows))
        assert np.array_equal(sketch.row_hash(rows), original.row_hash(rows))


def test_operators_stay_inside(replay):
    (task,) = replay.tasks
    rng = np.random.default_rng(1)
    for sketch in replay.space_of(task).sketches:
        a, b = sketch.rows[:40], sketch.rows[-40:]
        drawn = {tuple(map(int, r)) for r in sketch.sample(rng, 10**6)}
        marked = {
            r.decisions
            for r in replay.records(task)
            if r.sketch_id == sketch.id and r.model_id == SAMPLED
        }
        assert drawn == marked
        moved = sketch.mutate(rng, a)
        assert sketch.valid(moved).all() and (moved != a).any(axis=1).all()
        assert sketch.valid(sketch.crossover(rng, a, b)).all()
        same = sketch.crossover(rng, a, a)
        assert np.array_equal(same, a)
        near = sketch.neighbours(a[0])
        assert len(near) and sketch.valid(near).all() and (near != a[0]).any(axis=1).all()


def test_answers_are_the_records(replay):
    (task,) = replay.tasks
    records = replay.records(task)
    candidates = [Candidate(r.sketch_id, r.decisions, 1.0, "m") for r in records]
    unknown = Candidate(records[0].sketch_id, (99, *records[0].decisions[1:]), 1.0, "m")
    seen: list[Measured] = []
    measured = replay.measure(task, [*candidates, unknown], None, seen.append)
    assert seen == measured
    for record, one in zip(records, measured[:-1], strict=True):
        assert (one.status, one.latency_s) == (record.status, record.latency_s)
        assert (one.error, one.code_hash) == (record.error, record.code_hash)
    assert measured[-1].status == Status.rejected


@pytest.mark.parametrize("kind", ["tilework", "plain", "draft"])
def test_searches_repeat_and_end(replay, kind):
    (task,) = replay.tasks

    def search() -> Progress:
        models = {"tilework": XGBModel, "plain": PlainModel, "draft": DraftModel}
        params = PLAIN_POLICY if kind == "plain" else PARAMS
        policy = SketchPolicy(task, models[kind](), params=params, space=replay.space_of(task))
        return replay_search(replay, task, policy, trials=120, batch=16)

    first = search()
    assert first == search()
    assert len(first.latency_s) == 120
    known = {r.latency_s for r in replay.records(task)} | {np.inf}
    assert set(first.latency_s) <= known
    assert first.trials_to(0.0) is None
    assert first.trials_to(min(first.latency_s)) == 1 + int(np.argmin(first.latency_s))


def test_a_session_runs_on_a_replay(replay):
    options = TuningOptions(num_measure_trials=48, num_measures_per_round=16, policy=PARAMS)
    session = TuningSession(
        replay.tasks, None, options, MemoryHistory(), run_id="r", space_of=replay.space_of
    )
    while (index := session.next_task()) is not None:
        run_round(session, index, replay)
    assert session.result().trials == 48


def test_nothing_to_replay(history):
    with pytest.raises(StoreError, match="record_replay"):
        Replay(history, "llvm -mcpu=x86-64-v3 -num-cores=2")
    bare = MemoryHistory(history.read())
    with pytest.raises(StoreError, match="nothing to replay"):
        Replay(bare, str(TARGET))
