"""Factors that are rounded to tf32, on machines that have no instruction for it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check import check_row, task_of
from tilework import ops, te
from tilework.dtypes import round_tf32
from tilework.space import SearchSpace

SPECIAL = [1 + 2.0**-11, -1 - 2.0**-11, 1 + 3 * 2.0**-12, np.inf, -np.inf, np.nan, 0.0, 1e-40]


@pytest.mark.parametrize("count", [8, 29])
def test_code_rounds_as_numpy_does(count):
    x = te.placeholder((count,), "x")
    dag = te.ComputeDAG([x, te.compute((count,), lambda i: te.round_tf32(x[i]) * 1.0)])
    values = np.resize(np.array(SPECIAL, np.float32), count)
    values[8:] = np.random.default_rng(0).uniform(-9, 9, max(count - 8, 0))
    task = task_of(dag)
    (sketch,) = SearchSpace.of(task).sketches
    for row in sketch.sample(np.random.default_rng(1), 3):
        check_row(task, sketch, row, [values], [round_tf32(values)])


def test_products_of_rounded_factors_are_compiled():
    a, b = te.placeholder((12, 20), "a"), te.placeholder((20, 33), "b")
    dag = te.ComputeDAG([a, b, ops.tf32_products(ops.matmul(a, b))])
    rng = np.random.default_rng(2)
    inputs = [rng.uniform(-1, 1, t.shape).astype(np.float32) for t in dag.inputs]
    task = task_of(dag)
    for sketch in SearchSpace.of(task).sketches[:2]:
        for row in sketch.sample(rng, 2):
            check_row(task, sketch, row, inputs, te.evaluate(dag, inputs))
