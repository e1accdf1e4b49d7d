"""Results that another core holds cost time; threads that share out one dimension keep theirs."""

from __future__ import annotations

import numpy as np

from tests.hosts import x86
from tests.space.test_winograd import conv
from tilework.kinds.cpu.features.handover import handover_cycles
from tilework.kinds.cpu.machine import Machine
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask


def nests_of(columns, cores=2):
    """F(4x4) rows, as each nest sees them, in which the given columns have the given values."""
    task = SearchTask(conv(28, 32, 32), Target(x86("znver4", cores)))
    (sketch,) = [
        s
        for s in SearchSpace.of(task).sketches
        if "F(4x4" in s.name and s.name.endswith("inline pad_temp")
    ]
    rows = sketch.sample(np.random.default_rng(0), 64)
    for decision in sketch.decisions:
        if decision.name in columns:
            rows[:, decision.columns] = columns[decision.name]
    assert sketch.valid(rows).all()
    return sketch.programs.parts(rows), Machine.of(task.target)


ROWS = {"data_pack.y": 1, "data_pack.parallel": 2, "bgemm.y": 1, "bgemm.parallel": 2}


def test_nothing_is_fetched_where_all_nests_share_out_rows():
    for last in (2, 3, 4):
        waits = handover_cycles(*nests_of(ROWS | {"conv2d_winograd.parallel": last}))
        assert [w.max() for w in waits] == [0, 0, 0]


def test_points_shared_out_instead_of_rows_are_fetched():
    points = ROWS | {"bgemm.y": (7, 1, 1), "bgemm.eps": 1, "conv2d_winograd.parallel": 2}
    points["bgemm.parallel"] = 3
    waits = handover_cycles(*nests_of(points))
    size = 36 * 49 * 32 * 4  # half of it on each core, and half of that in the wrong place
    assert waits[0].max() == 0
    assert set(waits[1]) == set(waits[2]) == {size / 4}


def test_one_thread_after_two_fetches_and_one_core_never_does():
    alone = ROWS | {"bgemm.parallel": 0, "conv2d_winograd.parallel": 0}
    waits = handover_cycles(*nests_of(alone))
    assert waits[1].min() > 0 and waits[2].max() == 0
    assert [w.max() for w in handover_cycles(*nests_of(alone, cores=1))] == [0, 0, 0]
