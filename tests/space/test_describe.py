"""Schedules as text."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ansor.rules import ANSOR_RULES
from tests.hosts import x86
from tests.te.workloads import conv2d_relu, matmul, softmax
from tilework import te
from tilework.errors import ScheduleError
from tilework.lower.protocol import lowering_of
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target(x86("x86-64-v4", 2))

CONV = """\
sketch 1
  inline T_add
  conv2d_nhwc: tile SSRSRS
    split nn 1 -> 1, 1, 1, 1
    split yy 13 -> 2, 2, 1, 4 (3 over)
    split xx 14 -> 2, 1, 1, 7
    split ff 32 -> 1, 1, 1, 32
    split ry 3 -> 1, 3
    split rx 3 -> 1, 3
    split rc 64 -> 4, 16
    reorder nn.0 yy.0 xx.0 ff.0 nn.1 yy.1 xx.1 ff.1 ry.0 rx.0 rc.0 nn.2 yy.2 xx.2 ff.2 ry.1 rx.1 rc.1 nn.3 yy.3 xx.3 ff.3
    fuse nn.0 yy.0 xx.0 -> 4, parallel
    compute pad_temp at ff.0, region [1, 10, 9, 64]
    compute T_relu at the register tile
    keep partial sums of rc.0 in a tile [1, 4, 7, 32]
    pack p1 [3, 3, 64, 32] -> rc.0 ry.1 rx.1 rc.1 ff.3
    unroll up to 128 vector operations
    vectorize ff.3 32
Placeholder: p1, p2, p0
parallel nn.0@yy.0@xx.0@ (0,4)
  for i1 (0,10)
    for i2 (0,9)
      for i3 (0,64)
        pad_temp = ...
  for yy.1 (0,2)
    for rc.0 (0,4)
      unroll yy.3 (0,4)
        unroll xx.3 (0,7)
          vectorize ff.3 (0,32)
            conv2d_nhwc = init or partial sums
      for ry.1 (0,3)
        for rx.1 (0,3)
          for rc.1 (0,16)
            unroll yy.3 (0,4)
              unroll xx.3 (0,7)
                vectorize ff.3 (0,32)
                  conv2d_nhwc += ...
      unroll yy.3 (0,4)
        unroll xx.3 (0,7)
          vectorize ff.3 (0,32)
            T_relu = ... (last visit)
"""  # noqa: E501


def space(tensors) -> SearchSpace:
    return SearchSpace.derive(te.ComputeDAG(tensors), TARGET)


def test_convolution():
    sketch = space(conv2d_relu(1, 13, 14, 64, 32)).sketches[1]
    row = [1, 1, 1, 2, 1, 4, 1, 1, 7, 1, 1, 32, 3, 3, 16, 3, 128]
    assert sketch.describe(row) == CONV


def test_blocks_follow_one_another():
    sketch = space(softmax(6, 40)).sketches[0]
    text = sketch.describe(sketch.sample(np.random.default_rng(0), 1)[0])
    order = ["maxelem = init", "maxelem max=", "exp = ...", "expsum +=", "norm = ..."]
    positions = [text.index(part) for part in order]
    assert positions == sorted(positions)


def test_every_row_has_a_text():
    for sketch in (
        *space(conv2d_relu(1, 7, 7, 16, 24)).sketches,
        *space(matmul(9, 9, 9)).sketches,
    ):
        rows = sketch.sample(np.random.default_rng(1), 30)
        texts = {sketch.describe(row) for row in rows}
        assert len(texts) > 20
        assert all(t.startswith(f"sketch {sketch.id}\n") and t.endswith("\n") for t in texts)


def test_row_of_another_sketch():
    with pytest.raises(ScheduleError, match="takes 9 decisions per row, got 3"):
        space(matmul(8, 8, 8)).sketches[0].describe([1, 2, 3])


def test_products():
    a, k = te.placeholder((6, 9), name="A"), te.reduce_axis(9, "k")
    made = te.compute((6,), lambda i: te.prod(a[i, k], axis=k), name="B")
    sketch = space([a, made]).sketches[0]
    assert "B *= ..." in sketch.describe(sketch.sample(np.random.default_rng(0), 1)[0])


@pytest.mark.parametrize("level", [1, 2])
def test_a_tile_that_is_written_late_has_its_own_size(level):
    task = SearchTask(te.ComputeDAG(matmul(28, 64, 64)), TARGET, rules=ANSOR_RULES)
    sketch = next(
        s for s in SearchSpace.of(task).sketches if s.blocks[-1].write_depth == level
    )  # i: 1 x 2 x 14 x 1, j: 1 x 2 x 2 x 16, k: 2 x 32
    row = [2, 14, 1, 2, 2, 16, 32, 0, 0]
    (nest,) = sketch.nests(sketch.check(row))
    held = [int(nest.held(a)[0]) for a in nest.block.spatial]
    assert held == ([28, 64] if level == 1 else [14, 32])
    program = lowering_of(TARGET).lower(sketch, row).program
    (buffer,) = [b for b in program.temporaries if b.scope == "thread"]
    assert list(buffer.shape) == held
    assert f"keep partial sums of k.0 in a tile {held}" in sketch.describe(row)
