"""Numbers that no integer holds: evaluated as kernels convert them, element by element."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from tests.lower.check import run_kernel, task_of
from tilework import te
from tilework.dtypes import converted
from tilework.kinds.cpu.build import build

X86 = platform.machine() in ("x86_64", "AMD64")
TYPES = [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]
LARGE = [
    2.0**n * s for n in (7, 8, 15, 16, 31, 32, 33, 62, 63, 64, 90) for s in (1, -1, 1.5, -1.5)
]
NUMBERS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.9, -0.9, 2147483520.0, -2147483904.0,
                    3e9, -3e9, 1e19, *LARGE])  # fmt: skip


@pytest.mark.skipif(not X86, reason="other machines convert what does not fit otherwise")
@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_kernels_agree(source: str, to: str) -> None:
    x = NUMBERS.astype(source)
    a = te.placeholder(x.shape, "A", source)
    dag = te.ComputeDAG([a, te.compute(x.shape, lambda i: te.cast(to, a[i]), "B")])
    (got,) = run_kernel(build(task_of(dag), 0, [16, 0, 0]), [x], 1)
    np.testing.assert_array_equal(got, converted(x, to))


def test_one_element_does_not_change_another() -> None:
    """A negative number in an array turned large ones into others of uint64."""
    together = converted(np.array([1e19, -1.0, 5.0]), "uint64")
    alone = [int(converted(np.array([v]), "uint64")[0]) for v in (1e19, -1.0, 5.0)]
    assert together.tolist() == alone == [10**19, 2**64 - 1, 5]
