"""Math functions of generated code against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.hosts import on_x86
from tests.lower.check import run_kernel, task_of
from tilework import te
from tilework.kinds.cpu.build import build
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.runtime.arrays import aligned_copy, aligned_empty
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

CPUS = ["native", *on_x86("core-avx2", "x86-64")]
FUNCTIONS = {
    "exp": (np.exp, -87.3, 88.7),
    "log": (np.log, 1e-30, 1e30),
    "tanh": (np.tanh, -20, 20),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -80, 80),
    "sqrt": (np.sqrt, 0, 1e20),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-20, 1e20),
    "sin": (np.sin, -30, 30),
    "cos": (np.cos, -30, 30),
    "abs": (np.abs, -5, 5),
    "floor": (np.floor, -1e3, 1e3),
    "ceil": (np.ceil, -1e3, 1e3),
    "round": (np.round, -1e3, 1e3),
}


def apply(function: str, x: np.ndarray, cpu: str = "native", vector: bool = True) -> np.ndarray:
    """``function(x)`` computed by generated code, vectorised or element by element."""
    missing = Target(f"llvm -mcpu={cpu}").missing_on_host()
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    shape = (x.size,) if vector else (x.size, 1)
    a = te.placeholder(shape, name="A", dtype=str(x.dtype))
    dag = te.ComputeDAG([a, te.compute(shape, lambda *i: te.call(function, a[i]), name="B")])
    task = task_of(dag, f"llvm -mcpu={cpu}")
    row = [task.target.lanes(), 0, 0] if vector else [1, 1, 0, 0]
    return run_kernel(build(task, 0, row), [x.reshape(shape)], 1)[0].reshape(-1)


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Error in units of the last place of ``want`` (given in double)."""
    return np.abs(got.astype("float64") - want) / np.spacing(np.abs(want).astype(got.dtype))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("vector", [True, False], ids=["vector", "scalar"])
def test_exp_over_the_whole_range(cpu, vector):
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [np.linspace(-87.33, 88.72, 20001), rng.uniform(-1, 1, 20000), rng.normal(0, 1e-4, 1000)]
    ).astype("float32")
    got = apply("exp", x, cpu, vector)
    want = np.exp(x.astype("float64"))
    assert ulps(got, want).max() <= 2.0


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("vector", [True, False], ids=["vector", "scalar"])
def test_exp_at_its_ends(cpu, vector):
    inf, nan = np.inf, np.nan
    x = np.array(
        [
            0,
            -0.0,
            88,
            -88,
            88.72283,
            88.7229,
            89,
            104,
            -87.3,
            -103,
            -104,
            -1e30,
            1e30,
            inf,
            -inf,
            nan,
            1e-40,
            -1e-40,
            127 * np.log(2),
            -126 * np.log(2),
        ],
        dtype="float32",
    )
    got = apply("exp", x, cpu, vector)
    with np.errstate(over="ignore", under="ignore"):
        want = np.exp(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    assert (got[np.isinf(got)] > 0).all()
    finite = np.isfinite(want)
    # results below the normal numbers may be flushed to zero
    np.testing.assert_allclose(got[finite], want[finite], rtol=3e-7, atol=1.2e-38)
    assert got[0] == got[1] == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    reference, low, high = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    x = rng.uniform(low, high, 997).astype(dtype)
    got = apply(name, x)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(got, reference(x.astype("float64")), rtol=4 * eps, atol=eps / 8)


def test_erf_and_pow():
    import math

    x = np.linspace(-4, 4, 501).astype("float32")
    want = [math.erf(v) for v in x.astype("float64")]
    np.testing.assert_allclose(apply("erf", x), want, rtol=1e-6)
    a = te.placeholder((40,), name="A")
    dag = te.ComputeDAG([a, te.compute((40,), lambda i: te.pow(a[i], 2.5), name="B")])
    x = np.linspace(0, 9, 40).astype("float32")
    (got,) = run_kernel(build(task_of(dag), 0, [16, 0, 0]), [x], 1)
    np.testing.assert_allclose(got, x.astype("float64") ** 2.5, rtol=1e-6)


@pytest.mark.parametrize("cpu", CPUS)
def test_round_takes_ties_to_even(cpu):
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5], "float32")
    np.testing.assert_array_equal(apply("round", x, cpu), np.round(x))


def test_relu_passes_nan_on():
    data = te.placeholder((37,), "x")
    out = te.compute((37,), lambda i: te.relu(data[i]), "relu")
    task = SearchTask(te.ComputeDAG([data, out]), Target("llvm -num-cores=1"))
    (sketch,) = SearchSpace.of(task).sketches
    kernel = build(task, sketch.id, sketch.sample(np.random.default_rng(0), 1)[0])
    values = np.linspace(-1, 1, 37, dtype="float32")
    values[[3, 20]] = np.nan
    got = aligned_empty((37,), "float32")
    load_kernel(kernel)([aligned_copy(values), got], None, 1)
    np.testing.assert_array_equal(got, np.maximum(values, 0))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("vector", [True, False], ids=["vector", "scalar"])
def test_erf(cpu, vector):
    tiny = np.array([0.0, -0.0, 1e-30, -1e-30, 1e-7, 3.926, 3.9266, 30.0, -30.0, 1e30])
    x = np.concatenate([np.linspace(-5, 5, 2001), tiny]).astype("float32")
    got = apply("erf", x, cpu, vector).astype("float64")
    want = np.array([math.erf(v) for v in x.tolist()])
    assert (np.abs(got - want) <= 4e-7 * np.abs(want)).all()
    assert (np.abs(got[np.abs(x) >= np.float32(3.9266)]) == 1).all()
    assert np.abs(got).max() == 1.0
    special = np.array([np.nan, np.inf, -np.inf] * 8, "float32")
    np.testing.assert_array_equal(apply("erf", special, cpu, vector), [np.nan, 1, -1] * 8)
