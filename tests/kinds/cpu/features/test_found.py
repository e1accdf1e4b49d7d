"""Of a table that is read at places from data, what is read counts, and not the table."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tilework import ops, te
from tilework.kinds.cpu.draft import DRAFT
from tilework.kinds.cpu.features.facts import block_facts
from tilework.ops.indices import index
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask


def sketch_of(*tensors):
    task = SearchTask(te.ComputeDAG(list(tensors)), Target(x86("icelake-server", 1)))
    return SearchSpace.of(task).sketches[0]


def rows(table, count, width=64):
    x, at = te.placeholder((table, width), "x"), te.placeholder((count,), "at", "int64")
    return sketch_of(x, at, ops.take(x, at, 0))


def read(sketch):
    return block_facts(sketch.blocks[0]).accesses[0]


def test_a_table_is_as_long_as_there_are_places():
    assert read(rows(30000, 9)).shape == (9, 64)
    assert read(rows(5, 9)).shape == (5, 64)
    assert read(rows(30000, 9)).lane_stride == 1
    long, short = rows(30000, 9), rows(300, 9)
    decided = np.array([[1, 64, 0, 0]], np.int32)
    assert DRAFT.seconds(long, decided) == DRAFT.seconds(short, decided)


def test_a_place_of_the_last_dimension_is_a_line():
    x, at = te.placeholder((5000,), "x"), te.placeholder((40,), "at", "int64")
    access = read(sketch_of(x, at, ops.take(x, at, 0)))
    assert access.shape == (640,)
    assert access.lane_stride > 1


def test_places_of_every_row_are_its_own():
    x, at = te.placeholder((30, 5000), "x"), te.placeholder((30, 4), "at", "int64")
    sketch = sketch_of(x, at, ops.take_along(x, at, 1))
    i, j = sketch.blocks[0].spatial
    assert read(sketch).dims == ({i: 1}, {j: 16})
    assert read(sketch).shape == (30, 64)
    across = sketch_of(x, at, ops.take_along(x, at, 0))
    assert read(across).lane_stride > 1  # lanes have rows of their own


def test_positions_of_several_numbers_are_counted_once():
    x, at = te.placeholder((50, 60, 16), "x"), te.placeholder((7, 3, 2), "at", "int64")
    access = read(sketch_of(x, at, ops.gather_nd(x, at)))
    assert access.shape == (1, 21, 16)


@pytest.mark.parametrize("tokens, matrices", [(3, 3), (32, 8)])
def test_experts_are_no_more_than_there_are(tokens, matrices):
    x, w = te.placeholder((tokens, 16), "x"), te.placeholder((8, 32, 16), "w")
    at, k = te.placeholder((tokens,), "at", "int64"), te.reduce_axis(16, "k")
    out = te.compute(
        (tokens, 32),
        lambda b, n: te.sum(x[b, k] * w[index(at[b], 8), n, k], axis=k),
        name="out",
        attrs={"layout_free": ("w",)},
    )
    facts = block_facts(sketch_of(x, w, at, out).blocks[0])
    (weights,) = (a for a in facts.accesses if a.packed)
    assert weights.shape == (matrices, 32, 16)
    assert facts.update_ops == 1  # where the matrix lies is found once a tile
