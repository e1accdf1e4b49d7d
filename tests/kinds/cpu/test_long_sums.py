"""Sums of many terms are off by no more than some hundred roundings, whoever says how many."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cpu.guards import run_at
from tests.lower.check import any_rows, random_inputs
from tests.lower.open_families import matmul, tensor
from tilework import te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.build import BUILDER
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.lower.interpret import interpret
from tilework.lower.protocol import lowering_of
from tilework.model.drafted import draft_schedule
from tilework.ops.reductions import total
from tilework.search.seeding import generator
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.points import at_point

N = symbol("n", 1, 1 << 17, (100, 3000))
H, W = symbol("h", 1, 400, (14,)), symbol("w", 1, 400, (14,))
ROUNDINGS = 300
"""In a piece or of pieces, on the average; the sums below take 8,192 to 160,000 terms a lane."""


def rows() -> te.ComputeDAG:
    x = tensor("x", 3, N)
    return te.ComputeDAG([x, total(x, "sum", [1], False)])


def columns() -> te.ComputeDAG:
    x = tensor("x", N, 20)
    return te.ComputeDAG([x, total(x, "sum", [0], True, lambda v: v * v)])


def maps() -> te.ComputeDAG:
    x = tensor("x", 2, H, W, 5)
    return te.ComputeDAG([x, total(x, "sum", [1, 2], False)])


def product() -> te.ComputeDAG:
    x, w, b = tensor("x", 3, N), tensor("w", N, 20), tensor("b", 20)
    y = matmul(x, w, "y", free=False)
    out = te.compute(y.shape, lambda i, j: te.relu(y[i, j] + b[j]), "out")
    return te.ComputeDAG([x, w, b, out])


FAMILIES = (rows, columns, maps, product)


POINTS = ({"n": 1, "h": 1, "w": 1}, {"n": 255, "h": 3, "w": 391}, {"n": 513, "h": 1, "w": 7},
          {"n": 1031, "h": 389, "w": 2}, {"n": 1 << 17, "h": 400, "w": 400})  # fmt: skip


def points(dag: te.ComputeDAG) -> list[dict]:
    """Around pieces and bodies of loops, and both ends."""
    return [{s: at[s.name] for s in dag.symbols} for at in POINTS]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_long_sums_are_near(family):
    """Equal numbers, which all round the same way; the draft's row and others, and static ones."""
    dag, rng = family(), generator(family.__name__)
    task = SearchTask(dag, Target("llvm -num-cores=2"))
    choice = draft_schedule(task)
    sketches = SearchSpace.of(task).sketches
    sketch = sketches[int(rng.integers(len(sketches)))]
    rows = [(choice.sketch_id, choice.row)] + [(sketch.id, r) for r in any_rows(sketch, rng, 1)]
    built = [load_kernel(BUILDER.build(task, *row)) for row in rows]
    cases = [(kernel, at, at) for kernel in built for at in points(dag)]
    static = SearchTask(at_point(dag, points(dag)[-1]), task.target)
    choice = draft_schedule(static)
    built = load_kernel(BUILDER.build(static, choice.sketch_id, choice.row))
    for kernel, at, symbols in [*cases, (built, points(dag)[-1], {})]:
        inputs = [np.full(t.shape, 0.1, np.float32) for t in at_point(dag, at).inputs]
        want = te.evaluate(at_point(dag, at), inputs, "float64")
        got = run_at(kernel, symbols, inputs, 2, True)
        np.testing.assert_allclose(got[0], want[0], ROUNDINGS * 2**-24, err_msg=f"{at}")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_pieces_lose_and_repeat_no_term(family):
    """Rows of any tiles, interpreted where sums have a piece, a part of one, or a few."""
    dag, rng = family(), generator("interpreted", family.__name__)
    for sketch in SearchSpace.of(SearchTask(dag, Target("reference -num-cores=2"))).sketches:
        for row in any_rows(sketch, rng, 1):
            lowered = lowering_of(sketch.target).lower(sketch, row)
            at = points(dag)[int(rng.integers(4))]
            inputs = random_inputs(at_point(dag, at), rng)
            want = te.evaluate(at_point(dag, at), inputs, "float64")
            got = interpret(lowered.program, inputs, at=at, threads=2)
            np.testing.assert_allclose(got[0], want[0], 1e-4, 1e-4, err_msg=f"{row} {at}")
