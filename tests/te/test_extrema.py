"""Maxima and minima mean one thing: evaluated, interpreted, and in vector and scalar code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.lower.check import check_dag, run_kernel, task_of
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.space import SearchSpace

SPECIAL = np.array([np.nan, 1.0, -1.0, 0.0, -0.0, np.inf, -np.inf, 1e-40], "float32")
PAIRS = np.array(list(itertools.product(SPECIAL, SPECIAL)), "float32")
CHOICES = {
    te.maximum: lambda a, b: b if a < b else a,
    te.minimum: lambda a, b: b if a > b else a,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fn", CHOICES)
@pytest.mark.parametrize("extent", [1, 64])
def test_a_nan_on_the_left_stays(fn, dtype, extent):
    """Scalar code (one element per row) and vectors."""
    x, y = (PAIRS[:, i].reshape(-1, extent).astype(dtype) for i in (0, 1))
    a, b = te.placeholder(x.shape, "A", dtype), te.placeholder(x.shape, "B", dtype)
    out = te.compute(x.shape, lambda i, j: fn(a[i, j], b[i, j]), "C")
    want = np.array([CHOICES[fn](p, q) for p, q in zip(x.flat, y.flat, strict=True)], dtype)
    dag = te.ComputeDAG([a, b, out])
    (evaluated,) = te.evaluate(dag, [x, y])
    task = task_of(dag)
    row = SearchSpace.of(task).sketches[0].sample(np.random.default_rng(0), 1)[0]
    (got,) = run_kernel(build(task, 0, row), [x, y], 1)
    for result in (evaluated, got):
        np.testing.assert_array_equal(result.reshape(-1), want)
        np.testing.assert_array_equal(np.signbit(result).reshape(-1), np.signbit(want))
    check_dag(dag, 0, inputs=[x, y], exact=True, rows=1)


@pytest.mark.parametrize("fn", CHOICES)
@pytest.mark.parametrize("literal", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("swapped", [False, True])
def test_literals(fn, literal, swapped):
    a = te.placeholder((64,), "A")

    def body(i):
        return fn(literal, a[i]) if swapped else fn(a[i], literal)

    dag = te.ComputeDAG([a, te.compute((64,), body, "C")])
    x = np.resize(SPECIAL, 64)
    order = [(literal, v) if swapped else (v, literal) for v in x]
    want = np.array([CHOICES[fn](p, q) for p, q in order], "float32")
    np.testing.assert_array_equal(te.evaluate(dag, [x])[0], want)
    check_dag(dag, 0, inputs=[x], exact=True, rows=1)


@pytest.mark.parametrize("reduce", [te.max, te.min])
@pytest.mark.parametrize("shape", [(3, 5), (40, 33), (2, 300)])
@pytest.mark.parametrize("over", [0, 1])
def test_reductions_leave_nan_out(reduce, shape, over):
    rng = np.random.default_rng(0)
    x = rng.choice(np.array([np.nan, 1.0, -2.0, 3.5, -np.inf, np.inf], "float32"), shape,
                   p=[0.7, 0.08, 0.08, 0.08, 0.03, 0.03])  # fmt: skip
    x[0] = np.nan
    x[:, 0] = np.nan
    a, k = te.placeholder(shape, "A"), te.reduce_axis(shape[over], "k")
    out = te.compute(
        (shape[1 - over],), lambda i: reduce(a[i, k] if over else a[k, i], axis=k), "R"
    )
    dag = te.ComputeDAG([a, out])
    start = -np.inf if reduce is te.max else np.inf
    fold = np.fmax if reduce is te.max else np.fmin
    want = fold.reduce(x, axis=over, initial=start)
    np.testing.assert_array_equal(te.evaluate(dag, [x])[0], want)
    check_dag(dag, 0, inputs=[x], exact=True, rows=2, sketches=3)
