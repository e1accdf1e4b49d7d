from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from tests.hosts import x86
from tests.search.fakes import FakeClock, FakeMeasurer, FakeTask, space_of
from tests.te import workloads
from tilework import te
from tilework.compiler.choose import choose_schedule
from tilework.record import MemoryHistory
from tilework.search import (
    PolicyParams,
    TuningError,
    TuningOptions,
    TuningRun,
    TuningSession,
    tune,
)
from tilework.search.tune import run_round
from tilework.target import Target
from tilework.task import SearchTask

PARAMS = PolicyParams(population=96, generations=1, neighbours=8)
TASKS = [
    FakeTask("heavy", base_s=4e-3, desc="conv2d"),
    FakeTask("light", base_s=4e-4, desc="dense", weight=2),
    FakeTask("tiny", base_s=1e-4, desc="softmax", small=True),
]


def _options(**changes):
    base = TuningOptions(num_measure_trials=96, num_measures_per_round=8, policy=PARAMS)
    return replace(base, **changes)


def _session(history, options=None, tasks=TASKS, clock=None, run_id="run", model=None, **more):
    clock = clock or FakeClock()
    run = TuningRun(tasks, options or _options(), run_id, space_of=space_of, clock=clock, **more)
    return TuningSession(run, history, model)


def _drive(session, measurer, rounds=10**6):
    done = []
    while len(done) < rounds and (index := session.next_task()) is not None:
        finished = run_round(session, index, measurer)
        if finished is not None:
            done.append(finished)
    return done


@cache
def _recorded():
    """The records of a run that nothing disturbed."""
    history = MemoryHistory()
    _drive(_session(history), FakeMeasurer())
    return tuple(history.read())


def _programs(history):
    return [(r.workload_key, r.sketch_id, r.decisions, r.round) for r in history.read()]


def test_a_run_keeps_to_its_trials_and_reports():
    history, measurer = MemoryHistory(), FakeMeasurer()
    session = _session(history, network="net")
    rounds = _drive(session, measurer)
    records = history.read()
    assert len(records) == session.budget.trials == 96
    assert [r.number for r in rounds] == list(range(len(rounds)))
    assert len({r.record_id for r in records}) == 96
    assert {r.network for r in records} == {"net"}
    programs = [program[:3] for program in _programs(history)]
    assert len(set(programs)) == len(programs)
    heavy, light, tiny = session.summary()
    assert heavy.trials > tiny.trials and heavy.latency_ms > light.latency_ms
    assert heavy.gflops == pytest.approx(1e8 / heavy.latency_ms / 1e6)
    result = session.result()
    assert session.done and result.complete and "96 trials" in result.stopped
    total = heavy.latency_ms + 2 * light.latency_ms + tiny.latency_ms
    assert result.estimated_total_s == pytest.approx(total / 1e3)
    assert [best.latency_s * 1e3 for best in result.best] == [
        pytest.approx(row.latency_ms) for row in result.rows
    ]
    totals = [r.estimated_total_s for r in rounds[3:]]
    assert totals == sorted(totals, reverse=True)
    assert "pairwise_accuracy" in rounds[-1].metrics or len(rounds[-1].records) < 4


def test_draft_ms_is_what_an_untuned_compile_predicts():
    dag = te.ComputeDAG(workloads.conv2d_relu(1, 14, 14, 8, 24))
    task = SearchTask(dag, Target(x86("x86-64-v3", 2)), "conv")
    session = TuningSession(TuningRun([task], _options(), "run"), MemoryHistory())
    choice = choose_schedule(task)
    assert choice.source == "untuned"
    assert session.summary()[0].draft_ms == choice.predicted_s * 1e3
    first = session.propose(session.next_task())
    assert (choice.sketch_id, choice.row) in {(c.sketch_id, c.row) for c in first}


def test_the_same_seed_gives_the_same_run():
    history = MemoryHistory()
    _drive(_session(history), FakeMeasurer())
    assert _programs(history) == _programs(MemoryHistory(_recorded()))


@pytest.mark.parametrize("killed_after", [1, 4, 7])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(killed_after):
    whole = MemoryHistory(_recorded())
    history, first, second = MemoryHistory(), FakeMeasurer(), FakeMeasurer()
    session = _session(history)
    _drive(session, first, rounds=killed_after)
    index = session.next_task()  # killed in the middle of a round: nothing of it was committed
    session.measure(index, session.propose(index), first)
    resumed = _session(history)
    assert resumed.rounds == killed_after
    assert resumed.budget.trials == len(history.read())
    _drive(resumed, second)
    assert _programs(history) == _programs(whole)
    committed = [c for _, batch in first.rounds[:killed_after] for c in batch]
    again = [c for _, batch in second.rounds for c in batch]
    assert not {(c.sketch_id, c.row, c.predicted_score) for c in committed} & {
        (c.sketch_id, c.row, c.predicted_score) for c in again
    }


def test_a_finished_run_started_again_measures_nothing():
    history, measurer = MemoryHistory(_recorded()), FakeMeasurer()
    assert _drive(_session(history), measurer) == [] and measurer.rounds == []


def test_another_run_builds_on_the_records_and_repeats_none():
    history = MemoryHistory(_recorded())
    session = _session(history, run_id="next")
    assert session.budget.trials == 0 and session.model.trained
    before = session.result().estimated_total_s
    _drive(session, FakeMeasurer())
    programs = [program[:3] for program in _programs(history)]
    assert len(set(programs)) == len(programs) > 96
    assert session.result().estimated_total_s <= before


def test_seconds_are_kept():
    clock, history = FakeClock(), MemoryHistory()
    options = _options(num_measure_trials=None, seconds=20)
    session = _session(history, options, clock=clock)
    _drive(session, FakeMeasurer(clock, seconds=0.3))
    assert 18 <= session.budget.elapsed_s <= 20.5
    assert "20 seconds" in session.result().stopped


def test_ctrl_c_keeps_what_is_finished():
    history, measurer = MemoryHistory(), FakeMeasurer()
    measurer.interrupt_after = 3
    seen = []
    result = tune(
        TASKS,
        None,
        _options(),
        history,
        measurer,
        space_of=space_of,
        callbacks=[lambda session, finished: seen.append(finished.number)],
    )
    assert seen == [0, 1, 2] and result.rounds == 3
    assert result.stopped == "interrupted"
    assert len(history.read()) == result.trials > 0


def test_a_failing_task_is_reported_and_the_others_go_on():
    broken = FakeTask("broken", base_s=1e-2, desc="bad conv", fails=True)
    history = MemoryHistory()
    session = _session(history, tasks=[broken, *TASKS])
    _drive(session, FakeMeasurer())
    row = session.summary()[0]
    assert row.latency_ms is None and row.trials == 16 and "valid" in row.note
    (failure,) = session.failures
    assert failure.trials == 16 and failure.causes[0].count == 16
    assert "16 x compile_error" in str(failure) and "decisions [" in str(failure)
    assert not session.result().complete
    assert math.isfinite(session.result().estimated_total_s)


def test_a_run_of_nothing_but_failures_ends_with_the_causes():
    broken = [FakeTask(f"broken{i}", fails=True, desc=f"bad {i}") for i in range(4)]
    history = MemoryHistory()
    session = _session(history, tasks=broken)
    with pytest.raises(TuningError, match="compile_error: build: ValueError"):
        _drive(session, FakeMeasurer())
    assert 0 < len(history.read()) <= 48
    with pytest.raises(TuningError, match="all 1"):
        _drive(_session(MemoryHistory(), tasks=broken[:1]), FakeMeasurer())


def test_early_stopping_over_all_tasks():
    history = MemoryHistory()
    session = _session(history, _options(num_measure_trials=2000, early_stopping=40))
    _drive(session, FakeMeasurer())
    assert session.budget.trials < 1000
    assert "improved" in session.result().stopped


def test_few_trials_are_shared_out():
    session = _session(MemoryHistory(), _options(num_measure_trials=6))
    _drive(session, FakeMeasurer())
    assert [row.trials for row in session.summary()] == [2, 2, 2]


def test_nothing_to_do():
    with pytest.raises(TuningError, match="no task"):
        _session(MemoryHistory(), tasks=[])
    session = _session(MemoryHistory(), _options(num_measure_trials=0))
    assert session.next_task() is None and session.result().trials == 0
