"""How the iterations of parallel loops divide among threads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.open_families import matmul, tensor
from tilework import te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.features.shares import Shares
from tilework.kinds.cpu.machine import Machine
from tilework.space import SearchSpace
from tilework.space.nest import BlockNest
from tilework.target import Target
from tilework.task import SearchTask


@pytest.mark.parametrize(
    ("rows", "balance"),
    [
        (128, 1.25),  # of two runs one finds as much for both threads, in the mean
        (224, 2 * 224 / 256),  # the second iteration has 32 rows
        (256, 2.0),  # there is one
        (8, 1 + 0.5 / 32),
    ],
)
def test_a_run_decides_how_full_the_last_iteration_is(rows, balance):
    s = symbol("S", 1, 512, (256,))
    x, w = tensor("x", s, 16), tensor("w", 16, 32)
    task = SearchTask(te.ComputeDAG([x, w, matmul(x, w, "y")]), Target("llvm -num-cores=2"))
    sketch = SearchSpace.of(task).sketches[0]
    (block,) = sketch.blocks
    row = np.array([[1, rows // 8, 8, 1, 1, 32, 16, 1, 0]], np.int32)
    nest = BlockNest.of(block, row, sketch.decisions)
    tiles = {a: np.asarray(t, np.float64) for a, t in nest.tiles.items()}
    shares = Shares.of(nest, tiles, Machine.of(task.target))
    assert shares.balance[0] == pytest.approx(balance)
