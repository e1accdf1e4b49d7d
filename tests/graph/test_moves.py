"""Chains of operators that move data become one stage."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.run_plan import run_plan
from tilework.graph import Network, plan
from tilework.graph.ir import Builder


def chain(b: Builder, x: str) -> str:
    y = b.op("relu", b.op("transpose", x, perm=(0, 2, 1)))
    y = b.op("slice", y, begin=(0, 4, 1), size=(2, 2, 3), stride=(1, -3, 2))
    return b.op("pad", y, before=(0, 1, 0), after=(0, 0, 2), value=2.0)


def picked(b: Builder, x: str) -> str:
    table = b.constant(np.array([3, 0, 3], np.int32))
    y = b.op("trilu", b.op("take", x, table, axis=2), k=0, upper=True)
    return b.op("tanh", b.op("slice", y, begin=(0, 5, 2), size=(2, 6, 2), stride=(1, -1, -2)))


@pytest.mark.parametrize("form", [chain, picked])
def test_one_stage(form) -> None:
    b = Builder("moves")
    x = b.input("x", (2, 7, 5))
    y = form(b, x)
    net: Network = b.finish([y])
    calls = plan(net).calls
    assert len(calls) == 1
    assert len(calls[0].dag.compute_ops) == 1
    array = np.random.default_rng(0).standard_normal((2, 7, 5)).astype(np.float32)
    (got,) = run_plan(net, array)
    if form is chain:
        want = np.maximum(array.transpose(0, 2, 1), 0)[:, 4::-3, 1:7:2]
        want = np.pad(want, ((0, 0), (1, 0), (0, 2)), constant_values=2)
    else:
        want = np.tanh(np.triu(array[:, :, [3, 0, 3]])[:, 5::-1, ::-2])
    np.testing.assert_allclose(got, want, rtol=1e-6)
