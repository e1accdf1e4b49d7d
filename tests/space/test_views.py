"""Sketches looked at elsewhere are those that the rules derive there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.open_families import FAMILIES
from tilework.model.draft import draft_of
from tilework.model.family import family_of, looked_at
from tilework.space import SearchSpace
from tilework.space.decision import around
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
        for sketch, (view,) in zip(sketches, views_at(sketches, [at]), strict=True):
            other = next(s for s in derived if alike(s, sketch))
            assert [d.name for d in view.decisions] == [d.name for d in other.decisions]
            rows = view.sample(np.random.default_rng(0), 16)
            assert np.array_equal(rows, other.sample(np.random.default_rng(0), 16))
            if len(rows):
                assert np.array_equal(draft.seconds(view, rows), draft.seconds(other, rows))
                assert np.array_equal(draft.lengths(view, rows), draft.lengths(other, rows))


@pytest.mark.parametrize("cores", [1, 4])
def test_settled_rows_are_valid_at_all_points_or_at_none(cores):
    """Of the tables of all points."""
    rng, steady = np.random.default_rng(0), set()
    target = Target(f"llvm -mcpu=haswell -num-cores={cores}")
    for make in FAMILIES:
        for sketch in family_of(SearchTask(make(), target)):
            tables = [view.decisions for view in sketch.views]
            rows = np.concatenate([_of_tables(rng, own, 500) for own in tables])
            settled = sketch.settled(rows)
            judged = [view.valid(rows[settled]) for view in sketch.views]
            assert all(np.array_equal(judged[0], other) for other in judged)
            assert settled.all() or not sketch.steady
            steady.add(sketch.steady)
    assert steady == {True, False}


def test_neighbours_are_valid_at_all_points():
    target = Target("llvm -mcpu=haswell -num-cores=4")
    for make in FAMILIES:
        for sketch in family_of(SearchTask(make(), target))[:2]:
            rows = sketch.sample(np.random.default_rng(0), 3)
            tables = [(d.columns, d.choices) for view in sketch.views for d in view.decisions]
            for row, near in zip(rows, sketch.neighbours(rows) if len(rows) else (), strict=True):
                other = around(row[None], tables)[0]
                other = other[(other != row).any(axis=1)]
                assert np.array_equal(near, np.unique(other[sketch.valid(other)], axis=0))


def _of_tables(rng, decisions, count):
    """Rows of any choices."""
    each = [d.choices[rng.integers(len(d.choices), size=count)] for d in decisions]
    return np.concatenate(each, axis=1)
