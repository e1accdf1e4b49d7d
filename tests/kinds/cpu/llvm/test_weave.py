"""Chains of instructions side by side: each behind what it needs, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check import run_kernel, task_of
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.llvm.weave import woven
from tilework.model.drafted import draft_schedule


def test_chains_take_turns():
    chains = [
        ["  %v1 = load", "  %v2 = fadd %v1, %v1", "  store %v2"],
        ["  %t = a %v1\n  %u = b %t", "  store %u"],
    ]
    assert woven(chains, 4) == [
        chains[0][0],
        chains[1][0],
        chains[0][1],
        chains[1][1],
        chains[0][2],
    ]


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "llvm -mcpu=x86-64 -num-cores=1"])
@pytest.mark.parametrize("scale", [0.1, 1e-3, 0.3, 1e-29, 3e28])
def test_quotients_are_exact(scale, target):
    """Around halves, where the last bit decides, and of what has no product with the inverse."""
    step = np.float32(scale)
    halves = (np.arange(-300, 300) + np.float32(0.5)) * step
    near = [np.nextafter(halves, np.float32(s) * np.inf) for s in (-1, 1)]
    odd = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 0, 1e-40], np.float32)
    x = np.concatenate([halves, *near, odd]).astype(np.float32)
    a, s, r = te.placeholder(x.shape, "a"), te.placeholder((1,), "s"), te.placeholder((1,), "r")
    y = te.compute(x.shape, lambda i: te.round(te.quotient(a[i], s[0], r[0])), name="y")
    task = task_of(te.ComputeDAG([a, s, r, y]), target)
    row = draft_schedule(task)
    inverse = np.float32(1) / step
    arrays = [x, np.full(1, step), np.full(1, inverse)]
    (got,) = run_kernel(build(task, row.sketch_id, row.row), arrays, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(got, np.rint(x / step))
