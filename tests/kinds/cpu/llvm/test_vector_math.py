"""Vector math functions of float32 against float64 NumPy, over the whole range of numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.hosts import ELSEWHERE, on_x86
from tests.kinds.cpu.llvm.test_math import CPUS, apply
from tests.lower.check import run_kernel, task_of
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.llvm.vector_math import VECTOR


def exponential(x: np.ndarray) -> np.ndarray:
    """That of float64, without the denormal numbers of float32."""
    return np.where(x < np.float32(-87.33654), 0.0, np.exp(x))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """That of float64; 0 where ``e^-x`` is no float32."""
    small = np.exp(-np.abs(x))
    usual = np.where(x >= 0, 1 / (1 + small), small / (1 + small))
    return np.where(x <= -np.float32(88.722839), 0.0, usual)


# function -> (reference, largest error in units of the last place)
FUNCTIONS = {
    "exp": (exponential, 1), "sigmoid": (sigmoid, 3),
    "log": (np.log, 1), "log1p": (np.log1p, 2), "expm1": (np.expm1, 2), "tanh": (np.tanh, 3),
    "erf": (lambda x: np.frompyfunc(math.erf, 1, 1)(x).astype(float), 6),
    "atan": (np.arctan, 2), "asin": (np.arcsin, 2), "acos": (np.arccos, 2), "sin": (np.sin, 2),
    "cos": (np.cos, 2), "tan": (np.tan, 4), "sinh": (np.sinh, 4), "cosh": (np.cosh, 4),
    "asinh": (np.arcsinh, 3), "acosh": (np.arccosh, 3), "atanh": (np.arctanh, 4),
}  # fmt: skip
SPECIAL = [
    0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 1.1754944e-38, 3.4e38, -3.4e38, 0.5,
    -0.5, 2**-0.5, 2**0.5, 88.7228, 88.7229, 89.4, 89.5, 90, 100, -17.3, -25, 1e6, 999999.9, 1e9,
    1.0000001e9, 4, 3.92, 3.9266, 0.9999999, -0.9999999, 1.0000001, -1.0000001, 128, -128, 2**24,
]  # fmt: skip


CHANGES = [
    -87.33654, 88.72284, 87, 89, -25, 9.02, 9.19, 3.9266, 104, 127 * math.log(2),
    -126 * math.log(2), math.log(2) / 2, 3 * math.log(2) / 2,
]  # fmt: skip


def neighbours(count: int) -> np.ndarray:
    """The numbers next to `CHANGES` and their opposites."""
    steps = np.arange(-count, count + 1, dtype=np.int32)
    return np.concatenate([
        (np.array([sign * c], "f4").view(np.int32) + steps).view("f4")
        for c in CHANGES for sign in (1, -1)
    ])  # fmt: skip


def numbers(count: int) -> np.ndarray:
    """Any bit patterns, numbers of usual size, and those where something changes."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32).view("f4")
    patterns = np.where(np.isnan(patterns), np.float32(np.nan), patterns)  # quiet ones
    usual = [rng.uniform(-s, s, count // 3) for s in (1, 10, 100)]
    return np.concatenate([patterns, *usual, rng.normal(0, 1e-3, count // 3), SPECIAL]).astype(
        "f4"
    )


def check(got: np.ndarray, want: np.ndarray, limit: float) -> None:
    with np.errstate(all="ignore"):
        near = want.astype("f4")
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        infinite = np.isinf(near)
        np.testing.assert_array_equal(np.isinf(got), infinite)
        np.testing.assert_array_equal(got[infinite], near[infinite])
        finite = np.isfinite(near)
        unit = np.spacing(np.maximum(np.abs(near), np.float32(1.1754944e-38)))
        error = (np.abs(got.astype("f8") - want) / unit)[finite]
    assert error.max() <= limit


def test_every_function_is_tested():
    assert set(FUNCTIONS) | {"pow"} == set(VECTOR)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors(name, cpu):
    reference, limit = FUNCTIONS[name]
    x = numbers(60000 if cpu == "native" else 6000)
    with np.errstate(all="ignore"):
        want = reference(x.astype("f8"))
    check(apply(name, x, cpu), want, limit if cpu != "x86-64" else limit + 2)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_where_methods_change(name, cpu):
    reference, limit = FUNCTIONS[name]
    x = neighbours(60)
    with np.errstate(all="ignore"):
        check(apply(name, x, cpu), reference(x.astype("f8")), limit + 2 * (cpu == "x86-64"))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("vector", [True, False], ids=["vector", "scalar"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_kind_of_nan_stays(name, vector, cpu):
    kinds = [0x7FC00000, 0xFFC00000, 0x7FC00001, 0x7FFFFFFF, 0xFFFFFEAD, 0x7F800001, 0xFF812345]
    x = np.array(kinds * 5, np.uint32).view("f4")
    assert np.isnan(apply(name, x, cpu, vector)).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_code_for_other_machines(name):
    a = te.placeholder((64,), "a")
    dag = te.ComputeDAG([a, te.compute((64,), lambda i: te.call(name, a[i]), name="b")])
    task = task_of(dag, f"{ELSEWHERE} -num-cores=1")
    assert build(task, 0, [task.target.lanes(), 0, 0]).objects


@pytest.mark.parametrize("name", FUNCTIONS)
def test_single_elements(name):
    reference, limit = FUNCTIONS[name]
    x = numbers(300)
    with np.errstate(all="ignore"):
        check(apply(name, x, vector=False), reference(x.astype("f8")), limit)


@pytest.mark.parametrize("cpu", ["native", *on_x86("x86-64")])
def test_powers(cpu):
    rng = np.random.default_rng(0)
    count = 40000
    pairs = np.array(np.meshgrid(SPECIAL, [*SPECIAL, 2, 3, -3, -2, 2**24 + 2, 1e-3, 7, -7, 1.5]))
    base = np.exp(rng.uniform(-20, 20, count))
    exponent = rng.uniform(-1, 1, count) * 88 / np.maximum(np.abs(np.log(base)), 0.1)
    x = np.concatenate([
        pairs[0].ravel(), base, rng.uniform(-5, 5, count), numbers(count)[:count]
    ]).astype("f4")  # fmt: skip
    y = np.concatenate([
        pairs[1].ravel(), exponent, rng.integers(-30, 30, count),
        rng.permutation(numbers(count)[:count]),
    ]).astype("f4")  # fmt: skip
    n = x.size
    a, b = te.placeholder((n,), "a"), te.placeholder((n,), "b")
    dag = te.ComputeDAG([a, b, te.compute((n,), lambda i: te.pow(a[i], b[i]), "p")])
    task = task_of(dag, f"llvm -mcpu={cpu} -num-cores=1")
    (got,) = run_kernel(build(task, 0, [task.target.lanes(), 0, 0]), [x, y], 1)
    with np.errstate(all="ignore"):
        want = np.power(x.astype("f8"), y.astype("f8"))
        check(got, want, 1)
        sure = (want.astype("f4") != 0) & ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[sure]), np.signbit(want[sure]))


def test_large_angles_are_reduced_exactly():
    x = np.array([1e6, 1.5e6, 1e7, 12345678, 1e10, 3e38, -1e20, 5.0] * 4, "f4")
    for name, reference in (("sin", np.sin), ("cos", np.cos), ("tan", np.tan)):
        check(apply(name, x), reference(x.astype("f8")), 4)
