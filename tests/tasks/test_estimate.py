"""How long compiling and tuning will take, by the tasks."""

from __future__ import annotations

from dataclasses import replace

import tilework as tw
from tasks.estimate import compile_time, tuning_time
from tests.lower.open_families import softmax
from tilework.search import EFFORTS
from tilework.task import SearchTask


def tasks_of(name, target="llvm -num-cores=1"):
    return tw.extract_tasks(tw.zoo.outline(name), target)[0]


def test_compile_time_grows_with_distinct_tasks_and_weights():
    small, large = (compile_time(tasks_of(n), 0) for n in ("mlp", "resnet-18"))
    assert small.least < small.likely < small.most < large.likely
    assert compile_time(tasks_of("mlp"), 1e9).likely > small.likely + 5
    # 152 layers have the tasks of 50: what is called more often is made once
    deep, shallow = (compile_time(tasks_of(n), 0) for n in ("resnet-152", "resnet-50"))
    assert deep == shallow


def test_sums_over_ranges_are_sums():
    task = SearchTask(softmax(), tw.Target("llvm -num-cores=1"))
    assert compile_time([task], 0).likely > compile_time([], 0).likely


def test_no_figures_for_other_machines():
    assert compile_time(tasks_of("mlp", "cuda -model=a100 -run=simulated"), 0) is None


def test_tuning_is_bound_by_seconds_and_by_trials():
    tasks = tasks_of("resnet-18")
    compiling = compile_time(tasks, 47e6)
    spans = [tuning_time(o, len(tasks), compiling).span for o in EFFORTS.values()]
    assert spans[0].likely < spans[1].likely < spans[2].likely
    assert all(s.least <= s.likely <= s.most for s in spans)
    few = tuning_time(
        replace(EFFORTS["quick"], num_measure_trials=48, seconds=None), len(tasks), compiling
    )
    assert round(few.trials_per_task, 6) == 2 and few.span.likely < spans[0].likely
