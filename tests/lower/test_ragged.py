"""Sums of as many terms as data say: integers read to find positions have names of their own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check import NATIVE
from tilework import te
from tilework.lower.interpret import interpret
from tilework.lower.register_tiles.program import lower
from tilework.space import SearchSpace
from tilework.space.sparse import SPARSE_RULES
from tilework.target import Target
from tilework.task import SearchTask


def element_at(x, where, index):
    """``x[where[index modulo the length]]``, where the index may be negative."""
    return x[where[te.cast("int32", index) % where.shape[0]]]


@pytest.mark.parametrize("first,second", [("uint8", "int8"), ("int8", "uint16")])
def test_indices_that_differ_in_a_cast_are_two_positions(first, second):
    x, where = te.placeholder((100,), "x"), te.placeholder((100,), "where", "int32")
    p, ends = te.placeholder((3,), "p", "int32"), te.placeholder((3,), "ends", "int32")
    k = te.reduce_axis(4, "k")
    y = te.compute(
        (3,),
        lambda i: te.sum(
            element_at(x, where, te.cast(first, p[i]))
            + 10.0 * element_at(x, where, te.cast(second, p[i])),
            axis=k,
            limits={k: ends[i]},
        ),
        "y",
    )
    rng = np.random.default_rng(0)
    inputs = [
        np.arange(100, dtype=np.float32) / 100,
        rng.permutation(100).astype(np.int32),
        np.array([200, 3, 129], np.int32),
        np.array([4, 1, 2], np.int32),
    ]
    dag = te.ComputeDAG([x, where, p, ends, y])
    want = te.evaluate(dag, inputs, "float64")
    task = SearchTask(dag, Target(NATIVE), rules=SPARSE_RULES)
    sketches = SearchSpace.of(task).sketches
    assert sketches
    for sketch in sketches:
        for row in sketch.sample(rng, 2):
            (got,) = interpret(lower(sketch, row).program, inputs)
            np.testing.assert_allclose(got, want[0], rtol=1e-5)
