"""Rows of symbolic extents and those of the static sketches at their points."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.open_families import FAMILIES
from tilework.model.family import family_of, members_of
from tilework.target import Target
from tilework.task import SearchTask

TARGETS = (
    "llvm -mcpu=znver4 -num-cores=1",
    "llvm -mcpu=haswell -num-cores=4",
    "reference -num-cores=2",
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", FAMILIES, ids=lambda make: make.__name__)
def test_rows_at_points_and_back(make, target):
    task = SearchTask(make(), Target(target))
    family = family_of(task)
    members = members_of(task, family)
    rng, compared = np.random.default_rng(0), 0
    for sketch in family:
        rows = sketch.sample(rng, 64)
        greatest = members[-1].twins.get(sketch.id)
        for member in members:
            twin = member.twins.get(sketch.id)
            if twin is None:
                continue
            placed, fits = twin.placed(rows)
            assert twin.static.valid(placed[fits]).all()
            lifted, known = twin.lifted(placed)
            again, fit = twin.placed(lifted)
            both = fits & known
            assert fit[both].all() and np.array_equal(again[both], placed[both])
            compared += int(both.sum())
            if greatest is not None:  # the plain form of a row is its form there
                there, good = greatest.placed(rows)
                same, back = greatest.lifted(there)
                good &= back & fits
                assert sketch.valid(same[good]).all()
                assert twin.placed(same)[1][good].all()
    assert compared or not any(member.twins for member in members)


def test_the_static_workload_of_a_point_is_that_of_a_static_network():
    from tests.te.test_points import softmax_of_scores
    from tilework.index.symbols import symbol

    task = SearchTask(
        softmax_of_scores(symbol("batch", 1, 4, (2,)), symbol("seq", 1, 64, (7, 32))),
        Target("reference -num-cores=1"),
        "sums",
    )
    members = members_of(task, family_of(task))
    keys = [softmax_of_scores(2, n).workload_key for n in (7, 32)]
    assert [member.task.workload_key for member in members] == keys
    assert [member.task.desc for member in members] == [
        "sums, batch = 2, seq = 7",
        "sums, batch = 2, seq = 32",
    ]
