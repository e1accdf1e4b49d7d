"""Reads at positions that data decide: every schedule, with indices in and out of range."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given

from tests.hosts import on_x86, x86
from tests.lower.check import any_rows, check_dag, task_of
from tests.lower.gathers import gathers, index_inputs
from tests.lower.test_programs import SEEDS, examples
from tilework import ops, te
from tilework.kinds.cpu.build import generate
from tilework.model.draft import draft_of
from tilework.ops.indices import index
from tilework.space import SearchSpace
from tilework.te.serial import dag_from_json, dag_to_json


@examples(60)
@given(gathers(), SEEDS)
def test_gathers(dag, seed):
    check_dag(dag, seed, sketches=2, rows=1, inputs=index_inputs(dag, seed))


@examples(12)
@given(gathers(), SEEDS)
def test_gathers_with_strange_tiles(dag, seed):
    inputs = index_inputs(dag, seed)
    check_dag(dag, seed, sketches=1, rows=1, inputs=inputs, strange=True, with_interpreter=False)


@pytest.mark.parametrize("cpu", on_x86("core-avx2", "x86-64"))
def test_other_cpus(cpu):
    @examples(8)
    @given(gathers(), SEEDS)
    def each(dag, seed):
        check_dag(
            dag, seed, sketches=1, rows=1, inputs=index_inputs(dag, seed),
            target=f"llvm -mcpu={cpu} -num-cores=2", with_interpreter=False,
        )  # fmt: skip

    each()


@examples(20)
@given(gathers(), SEEDS)
def test_features_scores_and_documents(dag, seed):
    """Everything that the search asks of a sketch has an answer."""
    task = task_of(dag)
    rng = np.random.default_rng(seed)
    for sketch in SearchSpace.of(task).sketches:
        rows = sketch.sample(rng, 3)
        assert np.isfinite(draft_of(sketch.target).features(sketch, rows)).all()
        assert (draft_of(sketch.target).seconds(sketch, rows) > 0).all()
        assert sketch.valid(any_rows(sketch, rng, 2)).all()
    assert dag_from_json(dag_to_json(dag)).workload_key == dag.workload_key


def test_positions():
    at = te.placeholder((7,), "at", "int64")
    x = te.placeholder((5,), "x")
    dag = te.ComputeDAG([at, x, te.compute((7,), lambda i: x[index(at[i], 5)], "y")])
    where = np.array([0, 4, -1, -5, 5, -6, 2**62])
    (got,) = te.evaluate(dag, [where, np.arange(5, dtype="float32")])
    np.testing.assert_array_equal(got, [0, 4, 4, 0, 4, 0, 4])


def test_rows_are_read_as_vectors():
    table, at = te.placeholder((100, 64), "table"), te.placeholder((9,), "at", "int64")
    out = te.compute((9, 64), lambda i, j: table[index(at[i], 100), j], name="rows")
    task = task_of(te.ComputeDAG([table, at, out]), x86("x86-64-v4"))
    text = generate(task, 0, [1, 64, 0, 0]).text
    assert len(re.findall(r"load <16 x float>", text)) == 4
    assert len(re.findall(r"load float", text)) == 0


def test_a_producer_that_is_read_anywhere_is_computed_whole():
    """No schedule computes a part of it inside its reader."""
    x, w = te.placeholder((40, 16), "x"), te.placeholder((16, 24), "w")
    at, k = te.placeholder((30,), "at", "int32"), te.reduce_axis(16, "k")
    padded = ops.pad(x, (0, 0), (1, 0))
    out = te.compute(
        (30, 24),
        lambda i, j: te.sum(padded[index(at[i], 41), k] * w[k, j], axis=k),
        name="out",
    )
    dag = te.ComputeDAG([x, w, at, out])
    names = [s.name for s in SearchSpace.of(task_of(dag)).sketches]
    assert names
    assert not any("compute T_pad at out" in name for name in names)
    check_dag(dag, 0, rows=1, inputs=index_inputs(dag, 0))
