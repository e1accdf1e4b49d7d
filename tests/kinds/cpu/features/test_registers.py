"""What a register tile holds, as the draft counts it."""

from __future__ import annotations

import numpy as np

from tests.hosts import x86
from tilework import te
from tilework.model.draft import draft_of
from tilework.ops.dense import dense
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

AVX2 = Target(x86("haswell", 1))


def test_weights_of_a_single_row_need_no_registers():
    """Eight sums and eight vectors of weights would be too many; of one row, none is held."""
    data, weight = te.placeholder((1, 784), "data"), te.placeholder((128, 784), "weight")
    task = SearchTask(te.ComputeDAG([data, weight, dense(data, weight, layout_free=True)]), AVX2)
    sketch = SearchSpace.of(task).sketch(0)
    tiles = [[1, 1, 1, 1, 3, 48, 112, 0, 192], [1, 1, 1, 1, 2, 64, 112, 0, 192]]
    rows = np.array(tiles, np.int32)
    assert sketch.valid(rows).all()
    three, two = draft_of(AVX2).seconds(sketch, rows)
    assert two < three
