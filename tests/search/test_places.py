"""The search moves candidates from one place of computation to another."""

from __future__ import annotations

import numpy as np

from tests.te.workloads import conv2d_relu
from tilework import te
from tilework.search.pool import PoolSpace
from tilework.target import Target
from tilework.task import SearchTask


def test_some_children_are_computed_elsewhere():
    target = Target("llvm -mcpu=core-avx2 -num-cores=2")
    space = PoolSpace.of(SearchTask(te.ComputeDAG(conv2d_relu(1, 14, 14, 8, 24)), target))
    rng = np.random.default_rng(0)
    parents = space.sample(rng, 1600)
    parents = parents.take(parents.sketch == 1)
    children = space.offspring(rng, parents, 0.1, 0.9)
    counts = np.bincount(children.sketch, minlength=4)
    assert counts[1] > 0.7 * len(parents)
    assert (counts[[0, 2, 3]] > 0).all()  # padding at root, at another level, inlined
    assert counts[[0, 2, 3]].sum() < 0.1 * len(parents)
