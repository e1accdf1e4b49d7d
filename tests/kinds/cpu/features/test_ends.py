"""What a register tile waits for as it ends: the other operand of a residual."""

from __future__ import annotations

import numpy as np

from tests.hosts import x86
from tilework import te
from tilework.kinds.cpu.features.cost import BlockCost
from tilework.kinds.cpu.features.ends import waiting_cycles
from tilework.kinds.cpu.machine import Machine
from tilework.ops.dense import dense
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

MACHINE = Machine(l2_bytes=1 << 20)
ROWS = np.array(
    [
        [1, 128, 8, 1, 1, 32, 64, 0, 192],  # columns 32 by 32, each over all rows
        [1, 128, 8, 1, 16, 32, 64, 0, 192],  # of eight rows all columns
        [1, 1, 8, 1, 1, 32, 64, 0, 192],  # the same, by the order of outer tiles
    ],
    np.int32,
)


def waits(rows, machine=MACHINE, residual=True):
    """Cycles of each of `ROWS` for ``rows`` of 64 terms and 512 columns."""
    data, weight = te.placeholder((rows, 64), "data"), te.placeholder((512, 64), "weight")
    other = te.placeholder((rows, 512), "other")
    out = dense(data, weight, layout_free=True)
    inputs = [data, weight, other] if residual else [data, weight]
    end = te.compute(out.shape, lambda i, j: out[i, j] + (other[i, j] if residual else 1.0), "end")
    task = SearchTask(te.ComputeDAG([*inputs, end]), Target(x86("sapphirerapids", 1)))
    sketch = SearchSpace.of(task).sketch(0)
    assert sketch.valid(ROWS).all()
    cost = BlockCost(sketch.nests(ROWS)[-1], machine)
    found = waiting_cycles(cost._facts, cost._shape, cost._traffic, machine)
    return np.broadcast_to(found, len(ROWS))


def test_short_runs_from_beyond_l2_are_waited_for_and_whole_rows_are_fetched_ahead():
    narrow, whole, ordered = waits(4096)
    assert narrow > 5 * whole
    assert np.isclose(whole, ordered)


def test_the_wait_goes_by_the_latency_of_l3():
    slow = Machine(l2_bytes=1 << 20, l3_rate=MACHINE.l3_rate / 2)
    np.testing.assert_allclose(waits(4096, slow), 2 * waits(4096))


def test_nothing_is_waited_for_in_l2_nor_without_a_residual():
    assert not waits(4096, Machine(l2_bytes=64 << 20)).any()
    assert not waits(4096, residual=False).any()
