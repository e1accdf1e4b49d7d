"""Reductions at the edges of their types: wide sums, infinities, predicates."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check import check_dag
from tilework import ops, te


def evaluated(x: np.ndarray, kind: str) -> np.ndarray:
    p = te.placeholder(x.shape, "x", str(x.dtype))
    dag = te.ComputeDAG([p, ops.reduce(p, kind, [1], False)])
    check_dag(dag, 0, inputs=[x], exact=True, rows=1, sketches=1, with_interpreter=False)
    return te.evaluate(dag, [x])[0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_a_mean_does_not_overflow(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([[info.max] * 5, [info.min] * 5, [info.max, info.min, 1, 2, 3]], dtype)
    want = np.trunc(x.astype("float64").mean(1))
    np.testing.assert_array_equal(evaluated(x, "mean"), want.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_sum_exp_of_infinities(dtype: str) -> None:
    big = float(np.finfo(dtype).max) / 4
    x = np.array([[np.inf, 1, 2], [-np.inf, 1, 1], [-np.inf] * 3, [np.inf, -np.inf, np.inf],
                  [-big, -big, -big], [np.nan, np.inf, 0]], dtype)  # fmt: skip
    want = np.array([np.inf, 1 + np.log(2), -np.inf, np.inf, -big, np.nan])
    np.testing.assert_allclose(evaluated(x, "log_sum_exp"), want, rtol=1e-6)


@pytest.mark.parametrize(("reduction", "want"), [("add", [1, 1, 0]), ("mul", [0, 1, 0])])
def test_scattered_predicates(reduction: str, want: list[int]) -> None:
    x, new = np.array([1, 1, 0], bool), np.array([0, 1, 0], bool)
    at = np.array([0, 1, 2], np.int64)
    px, pi, pu = (
        te.placeholder((3,), n, str(a.dtype)) for n, a in zip("xiu", (x, at, new), strict=True)
    )
    dag = te.ComputeDAG([px, pi, pu, ops.scatter_elements(px, pi, pu, 0, reduction)])
    np.testing.assert_array_equal(te.evaluate(dag, [x, at, new])[0], np.array(want, bool))
