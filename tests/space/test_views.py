"""Sketches looked at elsewhere are those that the rules derive there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.open_families import FAMILIES
from tilework.model.draft import draft_of
from tilework.model.family import looked_at
from tilework.space import SearchSpace
from tilework.space.twins import alike
from tilework.space.views import views_at
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.points import seen_at


@pytest.mark.parametrize(
    "target", ["llvm -mcpu=sapphirerapids -num-cores=1", "llvm -mcpu=haswell -num-cores=4"]
)
@pytest.mark.parametrize("make", FAMILIES, ids=lambda make: make.__name__)
def test_views_are_what_rules_derive(make, target):
    task = SearchTask(make(), Target(target))
    sketches, draft = SearchSpace.of(task).sketches, draft_of(task.target)
    for at in looked_at(task.compute_dag.symbols):
        dag = seen_at(at).dag(task.compute_dag)
        derived = SearchSpace.of(SearchTask(dag, task.target)).sketches
        for sketch, view in zip(sketches, views_at(sketches, at), strict=True):
            other = next(s for s in derived if alike(s, sketch))
            assert [d.name for d in view.decisions] == [d.name for d in other.decisions]
            rows = view.sample(np.random.default_rng(0), 16)
            assert np.array_equal(rows, other.sample(np.random.default_rng(0), 16))
            if len(rows):
                assert np.array_equal(draft.seconds(view, rows), draft.seconds(other, rows))
                assert np.array_equal(draft.lengths(view, rows), draft.lengths(other, rows))
