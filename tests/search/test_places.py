"""The search moves candidates from one place of computation to another."""

from __future__ import annotations

import numpy as np

from tests.hosts import x86
from tests.space.test_rfactor import norm
from tests.te.workloads import conv2d_relu
from tilework import te
from tilework.search.pool import PoolSpace
from tilework.target import Target
from tilework.task import SearchTask


def test_some_children_are_computed_elsewhere():
    target = Target(x86("core-avx2", 2))
    space = PoolSpace.of(SearchTask(te.ComputeDAG(conv2d_relu(1, 14, 14, 8, 24)), target))
    rng = np.random.default_rng(0)
    parents = space.sample(rng, 1600)
    parents = parents.take(parents.sketch == 1)
    children = space.offspring(rng, parents, 0.1, 0.9)
    counts = np.bincount(children.sketch, minlength=4)
    assert counts[1] > 0.7 * len(parents)
    others = np.delete(counts, 1)
    direct = [s.id for s in space.sketches if not s.form]
    assert set(np.flatnonzero(counts)) == set(direct)  # padding at every other place, or inlined
    assert 0.05 * len(parents) < others.sum() < 0.2 * len(parents)


def test_another_place_is_a_neighbour():
    target = Target(x86("core-avx2", 2))
    space = PoolSpace.of(SearchTask(te.ComputeDAG(conv2d_relu(1, 14, 14, 8, 24)), target))
    rng = np.random.default_rng(1)
    centre = space.sample(rng, 400).take([0])
    near = space.neighbours(centre, 4096, rng)
    direct = [s.id for s in space.sketches if not s.form]
    assert set(near.sketch) == set(direct)


def test_a_reduction_is_cut_otherwise_with_all_else_kept():
    target = Target(x86("core-avx2", 2))
    space = PoolSpace.of(SearchTask(norm(512, 512), target))
    rng = np.random.default_rng(2)
    (both,) = [s.id for s in space.sketches if s.cuts == {"S": "i in 2, j by 32"}]
    (other,) = [s.id for s in space.sketches if s.cuts == {"S": "i in 4, j by 32"}]
    one, two = space.sketches[both], space.sketches[other]
    rows = one.sample(rng, 50)
    found = two.moved(rng, one, rows)
    assert len(found) > 40
    for d in two.decisions:  # the loops over the rows of a part are half as many
        (same,) = [o for o in one.decisions if o.key == d.key]
        if np.array_equal(d.choices, same.choices):
            kept = {tuple(v) for v in rows[:, same.columns]}
            assert {tuple(v) for v in found[:, d.columns]} <= kept
