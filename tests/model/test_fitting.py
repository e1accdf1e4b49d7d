"""Fitting the draft's numbers of a machine to measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.model import Batch, Observation
from tilework.model.draft import draft_of
from tilework.model.fitting import fit_draft
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target(x86("x86-64-v3", 1))


@dataclass(frozen=True)
class Taught:
    observations: tuple


@pytest.fixture(scope="module")
def lessons():
    """On a machine with one multiply-add port of two, slow loops and a slow memory."""
    draft = draft_of(TARGET)
    true = draft.adjusted({"fma_ports": 0.5, "loop_cycles": 2.0, "memory_rate": 0.5})
    found = []
    for number, size in enumerate((48, 64, 96, 128, 160, 192)):
        task = SearchTask(te.ComputeDAG(workloads.matmul(size, 64, 2 * size)), TARGET)
        sketch = SearchSpace.of(task).sketches[0]
        rows = sketch.sample(np.random.default_rng(number), 64)
        batch = Batch(task.workload_key, 1e6, sketch, rows, draft)
        found.append(Taught((Observation(batch, 3.0 * true.seconds(sketch, rows)),)))
    return found


def test_what_a_machine_lacks_is_found(lessons):
    draft = draft_of(TARGET)
    factors = fit_draft(lessons, draft)
    assert factors["fma_ports"] < 0.9 and set(factors) <= set(draft.parameters)

    def error(by):
        out = []
        for lesson in lessons:
            (o,) = lesson.observations
            gap = np.log(o.latency_s / by.seconds(o.batch.sketch, o.batch.rows))
            out.append(np.std(gap))
        return np.mean(out)

    assert error(draft.adjusted(factors)) < 0.8 * error(draft)


def test_where_the_draft_is_right_nothing_is_fitted(lessons):
    draft = draft_of(TARGET)
    right = [
        Taught((Observation(o.batch, 2.0 * o.batch.draft_s),))
        for lesson in lessons
        for o in lesson.observations
    ]
    assert fit_draft(right, draft) == {}
    assert fit_draft(lessons[:2], draft) == fit_draft([], draft) == {}
