"""Steps that read element by element: loops in place of copies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.kinds.cpu.llvm import region
from tilework.kinds.cpu.llvm.program import generate_program
from tilework.kinds.cpu.lowering import LOWERING
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask


def turned(rows, columns, inner, apart=2, end=None):
    """A product by each ``apart``-th number of the rows of a matrix that stays as it is.

    Of the terms those before ``end`` count, if there is one.
    """
    a, b = te.placeholder((rows, inner), "A"), te.placeholder((columns, apart * inner), "B")
    k = te.reduce_axis(inner, "k")

    def term(i, j):
        product = a[i, k] * b[j, apart * k]
        return product if end is None else te.if_then_else(k < end, product, 0.0)

    c = te.compute((rows, columns), lambda i, j: te.sum(term(i, j), axis=k), "C")
    return [a, b, c]


def lines(sketch, row, target):
    return generate_program(LOWERING.lower(sketch, row).program, target).text.count("\n")


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("number", [0, 1])  # the last operator may be a nest of its own
@pytest.mark.parametrize("end", [None, 70])
def test_they_stay_a_loop(level, number, end, monkeypatch):
    task = SearchTask(te.ComputeDAG(turned(1, 256, 96, end=end)), Target(x86(level, 1)))
    sketch = SearchSpace.of(task).sketches[number]
    rows = sketch.sample(np.random.default_rng(0), 24)
    short = [lines(sketch, row, task.target) for row in rows]
    with monkeypatch.context() as patched:
        patched.setattr(region, "scattered", lambda *_: False)
        ratios = np.array(short) / [lines(sketch, row, task.target) for row in rows]
    assert ratios.max() <= 1
    assert ratios.min() < 0.5
    if task.target.missing_on_host():
        return
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, t.shape).astype("float32") for t in task.compute_dag.inputs)
    for at in ratios.argsort()[:3]:
        kernel = build(task, number, rows[at])
        out = aligned_empty((1, 256), "float32")
        out.fill(np.nan)
        workspace = aligned_empty((kernel.workspace_bytes(1) + 1,), "uint8")
        load_kernel(kernel)([aligned_copy(a), aligned_copy(b), out], workspace, 1)
        np.testing.assert_allclose(out, a[:, :end] @ b[:, ::2][:, :end].T, atol=1e-4)


def test_lanes_of_which_some_must_not_read_make_short_code():
    at, x = te.placeholder((33, 1), "at", dtype="int64"), te.placeholder((33, 1), "x")
    k = te.reduce_axis(33, "k")

    def term(i, j):
        here = te.select(te.equal(te.cast("int64", i), at[k, j]), x[k, j], 0.0)
        return te.if_then_else(j < 1, here, 0.0)

    y = te.compute((33, 40), lambda i, j: te.sum(term(i, j), axis=k), "y")
    task = SearchTask(te.ComputeDAG([at, x, y]), Target(x86("x86-64-v4", 1)))
    (sketch, *_) = SearchSpace.of(task).sketches
    rows = sketch.sample(np.random.default_rng(0), 24)
    assert max(lines(sketch, row, task.target) for row in rows) < 5000
