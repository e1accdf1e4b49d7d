"""Which schedule a task is compiled with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tilework import (
    ApplyHistoryBest,
    SearchTask,
    Target,
    TileworkError,
    extract_tasks,
    load_best,
    te,
)
from tilework import compile as compile_network
from tilework.compiler import choose_schedule
from tilework.kinds.cpu.rules import RULES_VERSION
from tilework.model.draft import draft_of
from tilework.record import MemoryHistory, Purpose, Record, Status
from tilework.runtime import tuned_text
from tilework.space import SearchSpace
from tilework.target.identity import DeviceIdentity, identity_of
from tilework.travel.guests import guests


def record(task, row, latency, rules=RULES_VERSION, sketch=0, status=Status.ok, of=None, **more):
    of = of or identity_of(task.target)
    return Record(
        1, f"{latency}-{rules}-{sketch}", "run", 0, datetime.now(UTC), task.workload_key, "", "",
        task.flops, str(task.target), of.name, "", 2, "0", sketch, rules, tuple(map(int, row)), "",
        status, latency_s=latency, device_id=of.id, device_calibration_s=of.calibration_s, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tasks(mlp, target):
    return extract_tasks(mlp, target)[0]


@pytest.fixture(scope="module")
def rows(tasks):
    sketch = SearchSpace.of(tasks[0]).sketches[0]
    return sketch.sample(np.random.default_rng(0), 3)


def test_the_fastest_record_is_taken(tasks, rows):
    history = MemoryHistory([record(tasks[0], rows[i], s) for i, s in enumerate((3.0, 1.0, 2.0))])
    choice = choose_schedule(tasks[0], history)
    best = history.best(tasks[0].workload_key, str(tasks[0].target))
    assert choice[:5] == (0, tuple(rows[1].tolist()), "tuned", 1.0, None)
    assert (choice.record_id, choice.device) == (best.record_id, best.device)
    best = load_best(history, tasks[0].workload_key, tasks[0].target)
    assert best is not None and best.latency_s == 1.0
    assert load_best(history, "other", str(tasks[0].target)) is None


def test_records_that_do_not_replay_are_passed_over(tasks, rows):
    history = MemoryHistory(
        [
            record(tasks[0], rows[0], 0.1, rules=RULES_VERSION + 1),
            record(tasks[0], [*rows[0], 1], 0.2),
            record(tasks[0], rows[0], 0.3, sketch=99),
            record(tasks[0], np.full(len(rows[0]), 10**6), 0.4),
            record(tasks[0], rows[1], 0.5, status=Status.wrong_answer),
            record(tasks[0], rows[2], 5.0),
        ]
    )
    assert choose_schedule(tasks[0], history).latency_s == 5.0


def _others(target):
    """Devices of the target that are not this machine: one of other facts, one that is slower."""
    here = identity_of(target)
    return (
        replace(here, name="Other CPU", facts=(("cores", "64"),)),
        replace(here, calibration_s=1.67 * here.calibration_s),
    )


@pytest.mark.parametrize("which", [0, 1])
def test_records_of_another_device_serve_where_there_are_none_of_this_one(tasks, rows, which):
    other = _others(tasks[0].target)[which]
    theirs = [record(tasks[0], rows[0], 1e-9, of=other), record(tasks[0], rows[2], 5.0, of=other)]
    choice = choose_schedule(tasks[0], MemoryHistory(theirs))
    assert (choice.source, choice.row) == ("elsewhere", tuple(rows[0].tolist()))
    assert choice.latency_s is None and choice.device == other.name
    assert choice.record_id == theirs[0].record_id
    assert load_best(MemoryHistory(theirs), tasks[0].workload_key, tasks[0].target) is None
    own = record(tasks[0], rows[1], 3.0)  # much slower, and the only one that is true here
    for history in (MemoryHistory([*theirs, own]), MemoryHistory([own, *theirs])):
        choice = choose_schedule(tasks[0], history)
        assert (choice.source, choice.latency_s) == ("tuned", 3.0)
        assert load_best(history, tasks[0].workload_key, tasks[0].target) == own


def test_of_several_other_devices_finals_count_before_the_latest(tasks, rows):
    one, two = _others(tasks[0].target)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    decided = replace(record(tasks[0], rows[0], 9.0, of=one), created_at=start)
    fast = replace(record(tasks[0], rows[1], 1.0, of=two), created_at=start + timedelta(1))
    assert choose_schedule(tasks[0], MemoryHistory([decided, fast])).row == fast.decisions
    decided = replace(decided, purpose=Purpose.final)
    assert choose_schedule(tasks[0], MemoryHistory([decided, fast])).row == decided.decisions


def test_other_devices_records_that_do_not_replay_are_passed_over(tasks, rows):
    one, two = _others(tasks[0].target)
    history = MemoryHistory(
        [
            record(tasks[0], rows[0], 0.1, rules=RULES_VERSION + 1, of=one),
            record(tasks[0], rows[1], 0.3, sketch=99, of=two),
        ]
    )
    assert choose_schedule(tasks[0], history).source == "untuned"
    history.append([record(tasks[0], rows[2], 0.7, of=one)])
    assert choose_schedule(tasks[0], history).row == tuple(rows[2].tolist())


def test_code_for_another_machine_takes_one_devices_word(tasks):
    away = replace(tasks[0], target=Target("llvm -mtriple=aarch64-linux-gnu -num-cores=1"))
    rows = SearchSpace.of(away).sketches[0].sample(np.random.default_rng(0), 3)
    one, two = DeviceIdentity("One", (), 1.0), DeviceIdentity("Two", (), 3.0)
    history = MemoryHistory(
        [
            record(away, rows[0], 1.0, of=one),
            record(away, rows[1], 2.0, of=two),
            record(away, rows[2], 2.5, of=two),
        ]
    )
    choice = choose_schedule(away, history)
    assert (choice.source, choice.row) == ("tuned", tuple(rows[1].tolist()))
    assert choice.latency_s == 2.0 and choice.device == "Two"
    best = load_best(history, away.workload_key, away.target)
    assert best is not None and best.record_id == choice.record_id


def test_the_report_says_which_device_it_was(mlp, target, tasks):
    other = _others(target)[0]
    rng = np.random.default_rng(0)
    records = [record(tasks[0], SearchSpace.of(tasks[0]).sketches[0].sample(rng, 1)[0], 1e-6)]
    records += [
        record(t, SearchSpace.of(t).sketches[0].sample(rng, 1)[0], 1e-6, of=other)
        for t in tasks[1:]
    ]
    module = compile_network(mlp, target, records=MemoryHistory(records))
    assert [r.source for r in module.report] == ["tuned"] + ["tuned on Other CPU"] * len(tasks[1:])
    assert [r.latency_s is None for r in module.report] == [False] + [True] * len(tasks[1:])
    said = tuned_text(module.report)
    assert f"1 of {len(tasks)} tasks tuned" in said
    assert f"{len(tasks) - 1} tuned on Other CPU" in said


def test_another_device_of_the_same_name_is_said_to_be_another(mlp, target, tasks):
    here = identity_of(target)
    other = replace(here, facts=(*here.facts, ("memory", "1 GiB")))
    rng = np.random.default_rng(0)
    records = [
        record(t, SearchSpace.of(t).sketches[0].sample(rng, 1)[0], 1e-6, of=other) for t in tasks
    ]
    module = compile_network(mlp, target, records=MemoryHistory(records))
    assert {r.source for r in module.report} == {f"tuned on another {here.name}"}


def test_schedules_of_another_number_of_threads_are_guests_of_a_search_alone(tasks, rows):
    task, own = tasks[0], tasks[0].target.num_cores
    sketch = SearchSpace.of(task).sketches[0]
    many = sketch.sample(np.random.default_rng(0), 512)
    good = many[np.argsort(draft_of(task.target).seconds(sketch, many))[:8]]
    others = [replace(task, target=task.target.with_cores(n)) for n in (own * 2, own * 8)]
    far = record(others[1], rows[0], 1.0)
    near = [record(others[0], row, 2.0 + n) for n, row in enumerate(good)]
    found = list(guests(task, MemoryHistory([far, near[0]])))
    assert [g.record_id for g in found] == [near[0].record_id, far.record_id]
    assert choose_schedule(task, MemoryHistory([far, *near])).source == "untuned"
    exact = record(task, rows[2], 3.0)
    assert choose_schedule(task, MemoryHistory([far, *near, exact])).source == "tuned"


def test_a_record_of_one_thread_gets_parallel_loops():
    data, weight = te.placeholder((512, 512), "a"), te.placeholder((512, 512), "b")
    k = te.reduce_axis(512, "k")
    product = te.compute((512, 512), lambda i, j: te.sum(data[i, k] * weight[k, j], axis=k), "c")
    alone = SearchTask(
        te.ComputeDAG([data, weight, product]), Target("llvm -num-cores=1"), "product"
    )
    both = replace(alone, target=Target("llvm -num-cores=2"))
    sketch = SearchSpace.of(alone).sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 256)
    column = next(d.columns[0] for d in sketch.decisions if d.kind == "parallel")
    rows[:, column] = 0
    good, bad = (
        rows[np.argmin(draft_of(sketch.target).seconds(sketch, rows))],
        rows[np.argmax(draft_of(sketch.target).seconds(sketch, rows))],
    )
    for row in (good, bad):
        (guest,) = guests(both, MemoryHistory([record(alone, row, 1.0)]))
        assert guest.row[column] > 0


def test_a_history_that_knows_nothing_of_a_task_asks_for_no_device(tasks, monkeypatch):
    class Knowing(MemoryHistory):
        known: tuple[str, ...] = ()

        def knows(self, workload_key, kind):
            return workload_key in self.known or kind in self.known

    def device_here(target):
        raise LookupError

    own = choose_schedule(tasks[0])
    monkeypatch.setattr("tilework.compiler.choose.device_here", device_here)
    history = Knowing([])
    assert choose_schedule(tasks[0], history) == own
    for known in (tasks[0].workload_key, tasks[0].target.kind):
        history.known = (known,)
        with pytest.raises(LookupError):
            choose_schedule(tasks[0], history)
    with pytest.raises(LookupError):  # it cannot say
        choose_schedule(tasks[0], MemoryHistory([]))


def test_without_records_the_draft_decides_alike_every_time(tasks):
    first = choose_schedule(tasks[0])
    assert first.source == "untuned" and first.latency_s is None and first.predicted_s > 0
    assert choose_schedule(tasks[0], MemoryHistory()) == first
    sketch = SearchSpace.of(tasks[0]).sketch(first.sketch_id)
    assert sketch.valid(np.array([first.row], np.int32)).all()


def test_compile_uses_the_records_around_it(mlp, target, tasks, rows, image, mlp_module):
    history = MemoryHistory([record(tasks[0], rows[0], 2e-6)])
    with ApplyHistoryBest(history):
        module = compile_network(mlp, target)
        with ApplyHistoryBest(MemoryHistory()):
            assert not any(r.tuned for r in compile_network(mlp, target).report)
    assert [r.tuned for r in module.report] == [True] + [False] * (len(tasks) - 1)
    assert module.report[0].gflops == pytest.approx(tasks[0].flops / 2e-6 * 1e-9)
    assert module.report[0].decisions == tuple(rows[0].tolist())
    assert np.allclose(module.run(image)[0], mlp_module.run(image)[0], rtol=1e-4, atol=1e-6)


def test_shares_are_known_when_everything_is_tuned(mlp, target, tasks):
    rng = np.random.default_rng(0)
    records = [
        record(t, SearchSpace.of(t).sketches[0].sample(rng, 1)[0], 1e-6 * (i + 1))
        for i, t in enumerate(tasks)
    ]
    module = compile_network(mlp, target, records=MemoryHistory(records))
    assert sum(r.share for r in module.report) == pytest.approx(1)
    assert "recorded time" in module.summary()


@pytest.mark.parametrize("what", ["records", 5])
def test_a_path_is_no_history(mlp, target, what):
    with pytest.raises(TileworkError, match=r"RecordStore\(path\)"):
        compile_network(mlp, target, records=what)
    with pytest.raises(TileworkError, match="RecordStore"):
        ApplyHistoryBest(what)
