"""Every element type: arithmetic, conversions, reductions, in generated code and interpreted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.hosts import on_x86
from tests.lower.check import check_dag, run_kernel, task_of
from tests.lower.element_types import EVERY, INTEGERS, typed, typed_inputs, typed_reductions
from tests.lower.test_programs import SEEDS, examples
from tilework import te
from tilework.dtypes import converted, numpy_dtype
from tilework.kinds.cpu.build import build
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.te.serial import dag_from_json, dag_to_json

CPUS = ["native", *on_x86("core-avx2", "x86-64")]


def on(cpu: str) -> str:
    target = f"llvm -mcpu={cpu} -num-cores=2"
    missing = Target(target).missing_on_host()
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    return target


@pytest.mark.parametrize("cpu", CPUS)
def test_elementwise(cpu):
    target = on(cpu)

    @examples(60 if cpu == "native" else 20)
    @given(typed(), SEEDS)
    def each(dag, seed):
        check_dag(
            dag, seed, rows=1, exact=True, inputs=typed_inputs(dag, seed), target=target,
            with_interpreter=cpu == "native",
        )  # fmt: skip

    each()


@examples(30)
@given(typed_reductions(), SEEDS)
def test_reductions(dag, seed):
    inputs = typed_inputs(dag, seed)
    if inputs[0].dtype.kind == "f":  # products stay finite
        inputs[0] = 1 + inputs[0] / 2048
    check_dag(dag, seed, sketches=2, rows=1, exact=True, inputs=inputs)


@examples(30)
@given(typed(), SEEDS)
def test_documents_keep_the_computation(dag, seed):
    again = dag_from_json(dag_to_json(dag))
    assert again.workload_key == dag.workload_key
    inputs = typed_inputs(dag, seed)
    for x, y in zip(te.evaluate(dag, inputs), te.evaluate(again, inputs), strict=True):
        np.testing.assert_array_equal(x, y)


def run_map(fn, x: np.ndarray, target: str = "llvm") -> np.ndarray:
    a = te.placeholder(x.shape, "A", str(x.dtype))
    dag = te.ComputeDAG([a, te.compute(x.shape, lambda *i: fn(a[i]), "B")])
    task = task_of(dag, target)
    rows = np.array([[width, 0, 0] for width in (16, 8, 4, 2, 1)], np.int32)  # as CPUs have them
    widest = rows[SearchSpace.of(task).sketches[0].valid(rows)][0]
    return run_kernel(build(task, 0, widest), [x], 1)[0]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_narrow_numbers_round_to_nearest_even(kind, cpu):
    """All 65536 of them, their neighbours' midpoints, and numbers out of their range."""
    narrow = np.arange(65536, dtype=np.uint16).view(numpy_dtype(kind))
    target = on(cpu)
    got = run_map(lambda e: te.cast("float32", e), narrow, target)
    np.testing.assert_array_equal(got, narrow.astype("float32"))
    finite = np.sort(got[np.isfinite(got)])
    middle = ((finite[1:].astype("float64") + finite[:-1]) / 2).astype("float32")
    special = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 65519, 65520, 1e5, 3.4e38], "float32")
    wide = np.concatenate([
        middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9)),
        special, np.random.default_rng(0).standard_normal(1001).astype("float32"),
    ])  # fmt: skip
    if kind == "bfloat16" and "avx512bf16" in Target(target).features:
        wide = wide[~(np.abs(wide) < 2.0**-125)]  # the instruction takes denormal ones for zeros
    got = run_map(lambda e: te.cast(kind, e), wide, target)
    with np.errstate(over="ignore"):
        want = wide.astype(numpy_dtype(kind))
    np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))


@pytest.mark.parametrize("to", [t for t in EVERY if t != "bool"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_fractions_are_cut_off(source, to):
    x = np.array([0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 99.99, -99.99, 127, -128, 300, -300], source)
    got = run_map(lambda e: te.cast(to, e), x)
    np.testing.assert_array_equal(got, converted(x, to))
    if to.startswith("u"):
        assert got[4] == np.array(-1).astype(to)  # wraps around


def test_large_numbers_become_unsigned():
    x = np.array([2.0**63, 2.0**63 + 2**40, 2.0**64 - 2**11, 2.0**62, 5.0], "float64")
    np.testing.assert_array_equal(run_map(lambda e: te.cast("uint64", e), x), x.astype("uint64"))
    y = np.array([2**64 - 1, 2**63, 7], "uint64")
    np.testing.assert_array_equal(run_map(lambda e: te.cast("float64", e), y), y.astype("float64"))


@pytest.mark.parametrize("kind", INTEGERS)
def test_division_never_traps(kind):
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    x = np.array([low, low, low, high, 7, 0, high, 5], kind)
    y = np.array([high, 0, 1, 0, 2, 0, high, 3], kind)
    if low:
        y[0] = -1
    a, b = te.placeholder((8,), "A", kind), te.placeholder((8,), "B", kind)
    for fn in (te.floordiv, te.floormod, te.truncdiv, te.truncmod):
        dag = te.ComputeDAG([a, b, te.compute((8,), lambda i, fn=fn: fn(a[i], b[i]), "C")])
        (got,) = run_kernel(build(task_of(dag), 0, [8, 0, 0]), [x, y], 1)
        (want,) = te.evaluate(dag, [x, y])
        np.testing.assert_array_equal(got[y != 0], want[y != 0])
