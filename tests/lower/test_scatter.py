"""Terms that go where they belong: places beyond either end, and the same place often."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.check import NATIVE, any_rows, check_row, random_inputs, task_of
from tilework import te
from tilework.ops.ordering import top_k
from tilework.ops.scatter import scatter_elements, scatter_rows
from tilework.space import SearchSpace

_TARGETS = (NATIVE, "llvm -mcpu=core-avx2 -num-cores=2", "llvm -mcpu=x86-64 -num-cores=1")


def _scattering(task):
    sketches = SearchSpace.of(task).sketches
    return [s for s in sketches if any(b.scatter is not None for b in s.blocks)]


def _check(dag, inputs, target, rng, rows=2, most=None, with_interpreter=True):
    task = task_of(dag, target)
    want = te.evaluate(dag, inputs, "float64")
    sketches = _scattering(task)
    assert sketches, f"no sketch of {dag} scatters"
    for sketch in rng.permutation(np.array(sketches, object))[:most]:
        for row in (*sketch.sample(rng, rows), *any_rows(sketch, rng, 1)):
            check_row(
                task, sketch, row, inputs, want, threads=(1, 2), with_interpreter=with_interpreter
            )


@settings(max_examples=16)
@given(
    rows=st.integers(1, 40),
    terms=st.integers(1, 60),
    width=st.sampled_from((1, 3, 16, 33, 70)),
    reduction=st.sampled_from(("none", "add", "mul", "max", "min")),
    dtype=st.sampled_from(("float32", "int32", "uint8")),
    index=st.sampled_from(("int32", "int64")),
    target=st.sampled_from(_TARGETS),
    seed=st.integers(0, 2**16),
)
def test_rows_go_where_they_belong(rows, terms, width, reduction, dtype, index, target, seed):
    x = te.placeholder((rows, width), "x", dtype)
    at = te.placeholder((terms, 1), "at", index)
    updates = te.placeholder((terms, width), "updates", dtype)
    dag = te.ComputeDAG([x, at, updates, scatter_rows(x, at, updates, [rows], reduction)])
    rng = np.random.default_rng(seed)
    inputs = random_inputs(dag, rng)
    inputs[1] = rng.integers(-rows - 2, rows + 3, (terms, 1)).astype(index)
    _check(dag, inputs, target, rng)


@settings(max_examples=16)
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 20), st.sampled_from((1, 4, 17, 40))),
    axis=st.integers(0, 2),
    terms=st.integers(1, 30),
    reduction=st.sampled_from(("none", "add", "max")),
    target=st.sampled_from(_TARGETS),
    seed=st.integers(0, 2**16),
)
def test_elements_go_where_they_belong(shape, axis, terms, reduction, target, seed):
    of = (*shape[:axis], terms, *shape[axis + 1 :])
    x, updates = te.placeholder(shape, "x"), te.placeholder(of, "updates")
    at = te.placeholder(of, "at", "int64")
    dag = te.ComputeDAG([x, at, updates, scatter_elements(x, at, updates, axis, reduction)])
    rng = np.random.default_rng(seed)
    inputs = random_inputs(dag, rng)
    n = shape[axis]
    inputs[1] = rng.integers(-n - 1, n + 2, of)
    inputs[1][rng.random(of) < 0.05] = 2**40
    _check(dag, inputs, target, rng)


@pytest.mark.parametrize("target", _TARGETS)
def test_the_best_of_many(target):
    x = te.placeholder((2, 270), "x")  # enough for groups of which the best are ranked
    dag = te.ComputeDAG([x, top_k(x, 20, 1)])
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((2, 270)).astype(np.float32).round(1)
    numbers[0, rng.random(270) < 0.2] = np.nan
    interpreted = target == NATIVE  # it takes most of the time, and means the same for all
    _check(dag, [numbers], target, rng, rows=1, most=4, with_interpreter=interpreted)


@pytest.mark.parametrize("of", [(7, 9), (5, 9)])
def test_smaller_indices_ask_every_output(of):
    """Where indices have fewer points elsewhere, a place could be read that there is not."""
    x, updates = te.placeholder((7, 9), "x"), te.placeholder(of, "updates")
    at = te.placeholder(of, "at", "int64")
    dag = te.ComputeDAG([x, at, updates, scatter_elements(x, at, updates, 1, "add")])
    assert bool(_scattering(task_of(dag))) == (of == (7, 9))
