"""What the draft thinks of loops of a deeper level that run in parallel, and which rows may."""

from __future__ import annotations

import numpy as np

from tests.hosts import x86
from tests.te.workloads import matmul
from tilework import te
from tilework.kinds.cpu.features.matrix import FEATURE_NAMES
from tilework.model.draft import draft_of
from tilework.space import SearchSpace, Sketch
from tilework.target import Target


def product(cores: int) -> Sketch:
    dag = te.ComputeDAG(matmul(256, 256, 256))
    target = Target(x86("x86-64-v4", cores))
    return SearchSpace.derive(dag, target).sketches[0]


def rows(sketch: Sketch, outer: tuple[int, int], inner: tuple[int, int], parallel: int):
    """A row of a product in register tiles of 4 x 64 with these iterations outside."""
    i, j = 256 // (4 * outer[0] * inner[0]), 256 // (64 * outer[1] * inner[1])
    return np.array([[inner[0], i, 4, inner[1], j, 64, 16, parallel, 0]], np.int32)


def column(sketch: Sketch, row, name: str) -> float:
    found = draft_of(sketch.target).features(sketch, row)
    return float(found[0, 0, FEATURE_NAMES.index(name)])


def test_more_iterations_than_the_outer_loops_have_occupy_more_threads():
    sketch = product(16)
    outer, deeper = (rows(sketch, (1, 4), (8, 1), n) for n in (2, 3))
    assert sketch.valid(np.concatenate([outer, deeper])).all()
    before, after = (float(draft_of(sketch.target).seconds(sketch, r)[0]) for r in (outer, deeper))
    assert after < 0.6 * before  # 32 iterations in place of 4 on 16 threads
    assert column(sketch, deeper, "chunks") == np.log2(4 * 8 + 1).astype("float32")
    assert "fuse i.0 j.0 i.1 -> 32, parallel" in sketch.describe(deeper[0])


def test_they_cost_something():
    sketch = product(2)
    outer, deeper = (rows(sketch, (1, 4), (8, 1), n) for n in (2, 3))
    before, after = (float(draft_of(sketch.target).seconds(sketch, r)[0]) for r in (outer, deeper))
    assert before < after < 1.1 * before


def test_where_they_have_nothing_to_add():
    sketch = product(2)
    assert not sketch.valid(rows(sketch, (1, 1), (8, 4), 3))[0]  # outer loops of that size
    assert not sketch.valid(rows(sketch, (4, 1), (8, 4), 4))[0]  # i.0 i.1 j.1 may all be outside
    assert not sketch.valid(rows(sketch, (16, 2), (2, 2), 3))[0]  # 32 iterations for 2 threads
    assert sketch.valid(rows(sketch, (16, 2), (2, 2), 2))[0]


def test_one_thread_does_not_ask_for_them():
    def values(sketch: Sketch) -> list[int]:
        (found,) = [d for d in sketch.decisions if d.kind == "parallel"]
        return [int(v) for v in found.choices[:, 0]]

    assert values(product(1)) == [0, 1, 2]
    assert values(product(2)) == [0, 1, 2, 3, 4]
