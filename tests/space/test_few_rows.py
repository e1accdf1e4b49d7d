"""Few rows times a matrix that lies the other way: sums in lanes along its rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import runs_x86, x86
from tests.kinds.cpu.guards import run_at
from tests.lower.check import check_row, random_inputs, reference, task_of
from tilework import ops, te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.build import BUILDER
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.kinds.cpu.rules import CPU_RULES
from tilework.model.drafted import draft_schedule
from tilework.space import SearchSpace
from tilework.space.few_rows import sum_along_rows
from tilework.target import Target
from tilework.te.points import at_point

AVX512, AVX2 = x86("icelake-server", 2), x86("haswell", 2)


def scores(queries, keys, head=64, heads=3, group=1):
    """Of queries with keys, as attention has them; a group of heads has the same keys."""
    q = te.placeholder((heads, group, queries, head), "q")
    k = te.placeholder((heads, keys, head), "k")
    return te.ComputeDAG([q, k, ops.relu(ops.einsum("hgqe,hke->hgqk", q, k))])


def along_rows(dag, target):
    """The sketches of the rule; all others are as without it, and before them."""
    without = tuple(r for r in CPU_RULES if r is not sum_along_rows)
    plain = SearchSpace.derive(dag, Target(target), without).sketches
    found = SearchSpace.derive(dag, Target(target)).sketches
    assert [s.steps for s in found[: len(plain)]] == [s.steps for s in plain]
    return found[len(plain) :]


@pytest.mark.parametrize(
    ("dag", "target", "offered"),
    [
        (scores(1, 50), AVX512, True),
        (scores(2, 50), AVX512, True),
        (scores(3, 50), AVX512, False),
        (scores(1, 50, group=3), AVX512, False),
        (scores(1, 50, group=3), AVX2, True),
        (scores(1, 50, head=16), AVX512, False),
        (scores(1, 50, head=40), AVX512, False),
        (scores(1, 50, head=40), AVX2, True),
        (scores(128, 128), AVX2, False),
        (scores(symbol("rows", 1, 16, (1,)), 50), AVX512, True),
        (scores(symbol("rows", 4, 16, (4,)), 50), AVX512, False),
    ],
)
def test_where_it_is_offered(dag, target, offered):
    assert [s.cuts for s in along_rows(dag, target)] == [
        {"T_batch_matmul": f"e by {16 if target == AVX512 else 8}"}
    ] * offered


@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_scores_of_one_query_are_drafted_so(target):
    dag = scores(1, 256, heads=9)
    (sketch,) = along_rows(dag, target)
    assert draft_schedule(task_of(dag, target)).sketch_id == sketch.id


@runs_x86
@pytest.mark.parametrize("dag", [scores(1, 37), scores(2, 21, head=32), scores(1, 40, group=3)])
def test_what_it_computes_is_right(dag):
    task, rng = task_of(dag, AVX2), np.random.default_rng(0)
    inputs = random_inputs(dag, rng)
    (sketch,) = along_rows(dag, AVX2)
    for row in sketch.sample(rng, 2):
        check_row(task, sketch, row, inputs, reference(dag, inputs), threads=(1, 2))


@runs_x86
def test_rows_and_keys_that_a_run_decides():
    new = symbol("rows", 1, 9, (1,))
    dag = scores(new, symbol("past", 0, 70, (30,)) + new)
    by_name = {s.name: s for s in dag.symbols}
    task, rng = task_of(dag, AVX2), np.random.default_rng(0)
    (sketch,) = along_rows(dag, AVX2)
    assert "inline T_transpose" in sketch.steps
    loaded = load_kernel(BUILDER.build(task, sketch.id, sketch.sample(rng, 1)[0]))
    for rows, past in ((1, 0), (1, 69), (9, 15)):
        at = {by_name["rows"]: rows, by_name["past"]: past}
        static = at_point(dag, at)
        inputs = random_inputs(static, rng)
        for got, want in zip(
            run_at(loaded, at, inputs, 2, True), reference(static, inputs), strict=True
        ):
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)
