"""Which schedule a task is compiled with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

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
from tilework.record import MemoryHistory, Record, Status
from tilework.space import SearchSpace


def record(task, row, latency, rules=RULES_VERSION, sketch=0, status=Status.ok):
    return Record(
        1, f"{latency}-{rules}-{sketch}", "run", 0, datetime.now(UTC), task.workload_key, "", "",
        task.flops, str(task.target), "", "", 2, "0", sketch, rules, tuple(map(int, row)), "",
        status, latency_s=latency,
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
    assert choice == (0, tuple(rows[1].tolist()), "tuned", 1.0, None)
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


def test_another_number_of_threads_serves_where_there_is_no_record(tasks, rows):
    own = tasks[0].target.num_cores
    others = [replace(tasks[0], target=tasks[0].target.with_cores(n)) for n in (own * 2, own * 8)]
    far = record(others[1], rows[0], 1.0)
    near = record(others[0], rows[1], 2.0)
    choice = choose_schedule(tasks[0], MemoryHistory([far, near]))
    assert (choice.source, choice.row) == ("transferred", tuple(rows[1].tolist()))
    assert choice.latency_s is None and choice.predicted_s > 0
    exact = record(tasks[0], rows[2], 3.0)
    assert choose_schedule(tasks[0], MemoryHistory([far, near, exact])).source == "tuned"


def test_a_record_of_one_thread_gets_parallel_loops_or_gives_way():
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
    choice = choose_schedule(both, MemoryHistory([record(alone, good, 1.0)]))
    if choice.source == "transferred":  # else the draft has better
        assert choice.row[column] > 0
    assert choice.predicted_s <= 1.1 * choose_schedule(both).predicted_s
    assert choose_schedule(both, MemoryHistory([record(alone, bad, 1.0)])).source == "untuned"


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
