"""Every schedule of every computation gives the right result, in generated code and interpreted.

The examples are fixed, so that a run repeats; ``python -m tests.lower.guarded SEED EXAMPLES``
looks for new ones.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.hosts import on_x86
from tests.lower import computations as c
from tests.lower.check import check_dag, check_row, random_inputs, reference, task_of
from tests.te.workloads import conv2d_relu, conv_bn_relu, matmul, max_pool, softmax, winograd
from tilework import te
from tilework.space import SearchSpace
from tilework.target import Target

SEEDS = st.integers(0, 2**31)
ANY = st.one_of(
    c.convolutions(), c.depthwise_convolutions(), c.windows(), c.products(), c.pools(),
    c.reductions(), c.elementwise(), c.networks(),
)  # fmt: skip


def examples(n: int):
    return settings(
        max_examples=n, deadline=None, database=None, derandomize=True,
        phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@examples(16)
@given(c.convolutions(), SEEDS)
def test_convolutions(dag, seed):
    check_dag(dag, seed, sketches=2, rows=1)


@examples(5)
@given(c.convolutions(dtype="float64", with_epilogue=False), SEEDS)
def test_convolutions_in_double(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1, tol=1e-12)


@examples(10)
@given(c.depthwise_convolutions(), SEEDS)
def test_depthwise_convolutions(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1)


@examples(5)
@given(c.winograd_convolutions(), SEEDS)
def test_winograd_forms(dag, seed):
    task = task_of(dag)
    rng = np.random.default_rng(seed)
    inputs = random_inputs(dag, rng)
    want = reference(dag, inputs)
    forms = [s for s in SearchSpace.of(task).sketches if s.dag is not dag]
    if not forms:
        return  # no output is large enough to save multiplications
    sketch = forms[int(rng.integers(len(forms)))]
    for row in sketch.sample(rng, 1):
        check_row(task, sketch, row, inputs, want, tol=2e-4, threads=(1, 3))


@examples(16)
@given(c.products(), SEEDS)
def test_matrix_products(dag, seed):
    check_dag(dag, seed, rows=1)


@examples(5)
@given(c.products(dtype="int32"), SEEDS)
def test_integer_matrix_products(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1)


@examples(16)
@given(c.windows(), SEEDS)
def test_windows_of_any_rank(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1)


@examples(8)
@given(c.windows(), SEEDS)
def test_windows_with_strange_tiles(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1, strange=True, with_interpreter=False)


@examples(10)
@given(c.pools(), SEEDS)
def test_pools(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1)


@examples(20)
@given(c.reductions(), SEEDS)
def test_reductions(dag, seed):
    check_dag(dag, seed, rows=1)


@examples(4)
@given(c.softmaxes(), SEEDS)
def test_softmaxes(dag, seed):
    check_dag(dag, seed, rows=1)


@examples(32)
@given(c.elementwise(), SEEDS)
def test_elementwise(dag, seed):
    check_dag(dag, seed, rows=1)


@examples(25)
@given(c.integers(), SEEDS)
def test_integers(dag, seed):
    check_dag(dag, seed, rows=1)


@examples(10)
@given(c.networks(), SEEDS)
def test_networks(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1)


@examples(20)
@given(ANY, SEEDS)
def test_tiles_that_sampling_would_not_choose(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1, strange=True)


@pytest.mark.parametrize("cpu", on_x86("core-avx2", "x86-64"))
def test_other_cpus(cpu):
    missing = Target(f"llvm -mcpu={cpu}").missing_on_host()
    if missing:
        pytest.skip(f"this CPU lacks {', '.join(missing)}")

    @examples(12)
    @given(ANY, SEEDS)
    def every(dag, seed):
        check_dag(
            dag, seed, sketches=1, rows=1, target=f"llvm -mcpu={cpu}", with_interpreter=False
        )

    every()

    @examples(8)
    @given(c.windows(), SEEDS)
    def windows(dag, seed):
        check_dag(
            dag, seed, sketches=1, rows=1, target=f"llvm -mcpu={cpu}", with_interpreter=False
        )

    windows()


def test_mixed_types_share_a_nest():
    """The accumulator, the result and the operands may have different widths."""
    a = te.placeholder((5, 7), name="a", dtype="int8")
    b = te.placeholder((7, 40), name="b", dtype="int8")
    k = te.reduce_axis(7, "k")

    def wide(kind):
        return te.compute(
            (5, 40),
            lambda i, j: te.sum(te.cast(kind, a[i, k]) * te.cast(kind, b[k, j]), axis=k),
            name="acc",
        )

    for kind in ("int32", "float64", "int64"):
        acc = wide(kind)
        for to in ("float32", "int8", "float64", "bool"):
            out = te.compute(
                (5, 40),
                lambda i, j, acc=acc, to=to: te.cast(
                    to, acc[i, j] // 64 if acc.dtype[0] == "i" else acc[i, j] * 0.01
                ),
                name="o",
            )
            check_dag(te.ComputeDAG([a, b, out]), 1, sketches=1, rows=1)


FIXED = {
    "conv2d": conv2d_relu(1, 5, 7, 8, 24),
    "conv2d strided": conv2d_relu(1, 7, 9, 3, 17, k=5, s=2, p=2, free=False),
    "conv_bn_relu": conv_bn_relu(1, 8, 6, 3, 8, 7, 2, 3),
    "matmul": matmul(37, 41, 24),
    "dense": matmul(1, 131, 48, free=True),
    "max_pool": max_pool(1, 9, 7, 20),
    "softmax": softmax(5, 29),
    "winograd": winograd(1, 7, 6, 8, 8),
}


@pytest.mark.parametrize("name", FIXED)
def test_every_sketch_of_the_usual_computations(name):
    interpreted = name != "winograd"  # takes a minute; some are in `test_winograd_forms`
    check_dag(te.ComputeDAG(FIXED[name]), 3, rows=1, tol=2e-4, with_interpreter=interpreted)


def test_weight_that_is_read_in_part():
    a, b = te.placeholder((4, 16), name="A"), te.placeholder((16, 32), name="B")
    k = te.reduce_axis(8, "k")
    out = te.compute(
        (4, 24),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        name="C",
        attrs={"layout_free": ("B",)},
    )
    check_dag(te.ComputeDAG([a, b, out]), 0, rows=2)


def test_outer_product():
    a, b = te.placeholder((13,), name="a"), te.placeholder((37,), name="b")
    out = te.compute((13, 37), lambda i, j: a[i] * b[j], name="outer")
    check_dag(te.ComputeDAG([a, b, out]), 0, rows=4)


def test_scalar_computations():
    a = te.placeholder((128,), name="A")
    k = te.reduce_axis(128, "k")
    total = te.compute((), lambda: te.sum(a[k], axis=k), name="B")
    check_dag(te.ComputeDAG([a, total]), 0)
    check_dag(te.ComputeDAG([a, te.compute((), lambda: te.exp(a[0]), name="C")]), 0)
    scaled = te.compute((128,), lambda i: a[i] / total[()], name="D")
    check_dag(te.ComputeDAG([a, scaled]), 0)


def test_unused_input():
    a, b = te.placeholder((4, 4), name="A"), te.placeholder((9,), name="B")
    check_dag(te.ComputeDAG([a, b, te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="C")]), 0)
