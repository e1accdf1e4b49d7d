"""Two machines tune one network into one store: nothing is dropped, nothing is mixed up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage import RecordStore
from tests.search.fakes import FakeClock, FakeMeasurer, FakeTask, space_of
from tilework.record import writer_of
from tilework.search import PolicyParams, TuningOptions, TuningRun, TuningSession
from tilework.search.tune import run_round
from tilework.target.identity import DeviceIdentity

HERE = DeviceIdentity("A CPU", (("cores", "2"),), 1e-3)
OPTIONS = TuningOptions(
    num_measure_trials=64,
    num_measures_per_round=8,
    policy=PolicyParams(population=64, generations=1, neighbours=8),
)
TASKS = [FakeTask("heavy", base_s=4e-3), FakeTask("light", base_s=4e-4)]


def _session(path, device, run_id="run"):
    """A session of a process of its own: it has opened the store itself."""
    run = TuningRun(
        TASKS, OPTIONS, run_id, space_of=space_of, clock=FakeClock(), device=device, warm=False
    )
    return TuningSession(run, RecordStore(path))


def _in_turns(sessions, rounds):
    measured = [0] * len(sessions)
    for _ in range(rounds):
        for number, session in enumerate(sessions):
            finished = run_round(session, session.next_task(), FakeMeasurer())
            measured[number] += len(finished.records)
    return measured


def test_equal_hosts_keep_every_record(tmp_path):
    """320 were measured and 160 kept, when rounds of one run and number were one file."""
    hosts = [_session(tmp_path, HERE), _session(tmp_path, replace(HERE, calibration_s=1.05e-3))]
    measured = _in_turns(hosts, 4)
    kept = RecordStore(tmp_path).read()
    assert len(kept) == sum(measured) == len({r.record_id for r in kept})
    assert len({writer_of(r) for r in kept}) == 2
    again = _session(tmp_path, HERE)
    assert again.budget.trials == sum(measured) and again.rounds == 4


@pytest.mark.parametrize("factor", [1 / 1.67, 1.67])
def test_hosts_of_one_name_and_another_speed_do_not_count_for_each_other(tmp_path, factor):
    other = replace(HERE, calibration_s=factor * 1e-3)
    ours, theirs = _session(tmp_path, HERE), _session(tmp_path, other)
    assert HERE.id == other.id  # so that the run may have one id, too
    mine, yours = _in_turns([ours, theirs], 3)
    store = RecordStore(tmp_path)
    assert len(store.read()) == mine + yours
    assert _session(tmp_path, HERE).budget.trials == mine
    assert _session(tmp_path, other).budget.trials == yours
    for task in TASKS:
        key, target = task.workload_key, str(task.target)
        own, elsewhere = store.of(key, target, HERE), store.of(key, target, other)
        assert store.best(key, target, HERE) == min(own, key=lambda r: r.latency_s)
        assert store.hints(key, target, HERE) == [min(elsewhere, key=lambda r: r.latency_s)]
        assert len(store.hints(key, target, None)) == 2
