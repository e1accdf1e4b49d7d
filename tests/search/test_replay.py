"""Searching in a dataset instead of on a machine."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._recorded import Course, Replay, replay_search
from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.errors import StoreError
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.model import DraftModel, XGBModel
from tilework.model.draft import draft_of
from tilework.record import MemoryHistory, Status
from tilework.search import (
    PolicyParams,
    Scope,
    SketchPolicy,
    TuningOptions,
    TuningRun,
    TuningSession,
)
from tilework.search.corpus import keep_workloads
from tilework.search.pool import PoolSpace
from tilework.search.tune import run_round
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target(x86("x86-64-v4", 2))
PARAMS = PolicyParams(population=128, generations=2)


@pytest.fixture(scope="module")
def history():
    """Some programs of a convolution, of all sketches; every tenth has failed."""
    task = SearchTask(te.ComputeDAG(workloads.conv2d_relu(1, 14, 14, 32, 64)), TARGET, "conv")
    rng = np.random.default_rng(0)
    found = []
    for sketch in SearchSpace.of(task).sketches:
        rows = np.unique(sketch.sample(rng, 40), axis=0)
        seconds = draft_of(sketch.target).seconds(sketch, rows) * rng.lognormal(
            sigma=0.2, size=len(rows)
        )
        for i, (row, s) in enumerate(zip(rows, seconds, strict=True)):
            candidate = Candidate(sketch.id, tuple(map(int, row)), 0.0, "draft")
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


def test_the_tasks_are_those_of_the_dataset(history, replay):
    (task,) = replay.tasks
    records = history.of(task.workload_key, str(TARGET))
    assert len(replay.records(task)) == len(records)
    assert replay.best_s(task) == min(r.latency_s for r in records if r.usable)
    assert replay.space_of(task).sketches == SearchSpace.of(task).sketches


def test_measured_programs_are_answered_with_their_records(replay):
    (task,) = replay.tasks
    records = replay.records(task)
    candidates = [Candidate(r.sketch_id, r.decisions, 1.0, "m") for r in records]
    seen: list[Measured] = []
    measured = replay.measure(task, candidates, None, seen.append)
    assert seen == measured
    for record, one in zip(records, measured, strict=True):
        assert (one.status, one.latency_s) == (record.status, record.latency_s)
        assert (one.error, one.code_hash) == (record.error, record.code_hash)


def test_others_are_answered_with_the_nearest(replay):
    (task,) = replay.tasks
    sketch = SearchSpace.of(task).sketches[1]
    own = [r for r in replay.records(task) if r.sketch_id == 1]
    rows = sketch.sample(np.random.default_rng(9), 50)
    measured = replay.measure(task, [Candidate(1, tuple(map(int, r)), 0.0, "m") for r in rows])
    known = np.array([_point(sketch, r.decisions) for r in own])
    asked = np.array([_point(sketch, r) for r in rows])
    scale = known.std(axis=0)
    scale = np.where(scale > 1e-6, scale, np.inf)
    for point, one in zip(asked, measured, strict=True):
        distance = (((known - point) / scale) ** 2).sum(axis=1) + 1e-9
        at = [
            r.latency_s for r, d in zip(own, distance, strict=True) if d <= distance.min() * 1.01
        ]
        assert one.latency_s in at


def _point(sketch, row):
    """Logarithms of the extents of tiles at each level, and of other decisions."""
    plain = sketch.canonical(np.array([row], np.int32))[0]
    point = []
    for decision in sketch.decisions:
        for at, column in enumerate(decision.columns):
            if decision.kind == "tile":
                point.append(np.log2(np.prod([row[c] for c in decision.columns[at:]])))
            else:
                point.append(np.log2(1 + plain[column]))
    return point


def test_what_is_near_is_no_models_word(history, replay):
    """The same answers whatever the draft says of the programs."""

    class Strange:
        names = ("nothing",)

        def features(self, sketch, rows):
            return np.zeros((len(rows), 1, 1), np.float32)

        def seconds(self, sketch, rows):
            return np.ones(len(rows))

    def strangely(task):
        space = PoolSpace.of(task)
        return PoolSpace(space.sketches, Strange(), space.rules_version)

    (task,) = replay.tasks
    other = Replay(history, str(TARGET), strangely)
    drawn = replay.space_of(task).sample(np.random.default_rng(4), 60)
    asked = [
        Candidate(replay.space_of(task).sketches[i].id, tuple(map(int, row)), 0.0, "m")
        for i in range(len(replay.space_of(task).sketches))
        for row in replay.space_of(task).rows_of(drawn, i)[1]
    ]
    assert other.measure(task, asked) == replay.measure(task, asked)


def test_the_same_program_in_other_words_is_its_record(replay):
    """A column that has no effect may say anything."""
    (task,) = replay.tasks
    found = 0
    for sketch in SearchSpace.of(task).sketches:
        for record in [r for r in replay.records(task) if r.sketch_id == sketch.id][:20]:
            row = np.array([record.decisions], np.int32)
            plain = sketch.canonical(row)
            if (plain != row).any() and sketch.valid(plain).all():
                found += 1
                (one,) = replay.measure(
                    task, [Candidate(sketch.id, tuple(map(int, plain[0])), 0.0, "m")]
                )
                assert one.latency_s == record.latency_s
    assert found


def test_sketches_without_a_record_are_not_searched(history):
    only = [r for r in history.read() if r.sketch_id == 1]
    some = MemoryHistory(only)
    some.keep_workload(only[0].workload_key, history.workload(only[0].workload_key))
    replay = Replay(some, str(TARGET))
    (task,) = replay.tasks
    assert [sketch.id for sketch in replay.space_of(task).sketches] == [1]


def test_what_no_program_is_near_to_is_rejected(replay):
    (task,) = replay.tasks
    some = replay.records(task)[0]
    strange = [
        Candidate(some.sketch_id, (99, *some.decisions[1:]), 0.0, "m"),
        Candidate(some.sketch_id, some.decisions[1:], 0.0, "m"),
        Candidate(77, some.decisions, 0.0, "m"),
    ]
    for candidate in strange:
        (one,) = replay.measure(task, [candidate])
        assert one.status == Status.rejected and one.latency_s is None


@pytest.mark.parametrize("kind", ["tilework", "draft"])
def test_searches_repeat_and_end(replay, kind):
    (task,) = replay.tasks

    def search() -> Course:
        models = {"tilework": XGBModel, "draft": DraftModel}
        policy = SketchPolicy(
            Scope(task, params=PARAMS, own_space=replay.space_of(task)), models[kind]()
        )
        return replay_search(replay, task, policy, trials=48, batch=16)

    first = search()
    assert first == search()
    assert len(first.latency_s) == 48
    known = {r.latency_s for r in replay.records(task)} | {np.inf}
    assert set(first.latency_s) <= known
    assert first.trials_to(0.0) is None
    assert first.trials_to(min(first.latency_s)) == 1 + int(np.argmin(first.latency_s))


def test_a_session_runs_on_a_replay(replay):
    options = TuningOptions(num_measure_trials=48, num_measures_per_round=16, policy=PARAMS)
    session = TuningSession(
        TuningRun(replay.tasks, options, "r", space_of=replay.space_of), MemoryHistory()
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
