"""A single task as a function."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import create_task, te
from tilework.compiler import compile_task
from tilework.errors import ModuleError, ScheduleError
from tilework.space import SearchSpace


def matmul_add(n, m, k):
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m), name="B")
    c = te.placeholder((n, m), name="C")
    r = te.reduce_axis(k, name="k")
    product = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, r] * b[r, j], axis=r),
        name="product",
        attrs={"layout_free": ("B",)},
    )
    out = te.compute((n, m), lambda i, j: product[i, j] + c[i, j], name="out")
    return [a, b, c, out]


@pytest.fixture(scope="module")
def task(target):
    return create_task(matmul_add, (33, 70, 17), target)


@pytest.fixture
def arrays(task):
    rng = np.random.default_rng(0)
    return [rng.random(t.shape, np.float32) for t in task.compute_dag.inputs]


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_a_task_is_a_function(task, arrays, threads):
    a, b, c = arrays
    (out,) = compile_task(task)(a, b, c, threads=threads)
    assert np.allclose(out, a @ b + c, rtol=1e-5)


def test_a_given_schedule(task, arrays):
    a, b, c = arrays
    for sketch in SearchSpace.of(task).sketches:
        row = sketch.sample(np.random.default_rng(1), 1)[0]
        function = compile_task(task, sketch_id=sketch.id, row=row)
        assert function.choice.row == tuple(row.tolist())
        assert np.allclose(function(a, b, c)[0], a @ b + c, rtol=1e-5)


def test_benchmark(task):
    assert compile_task(task).benchmark(repeat=2, min_repeat_ms=1, threads=1).min > 0


def test_errors(task, arrays):
    with pytest.raises(ScheduleError, match="both or neither"):
        compile_task(task, sketch_id=0)
    function = compile_task(task)
    with pytest.raises(ModuleError, match=r"takes 3 inputs \(A, B, C\), got 1"):
        function(arrays[0])
    with pytest.raises(ModuleError, match=r"input B: expected float32\[17, 70\]"):
        function(arrays[0], arrays[0], arrays[2])
