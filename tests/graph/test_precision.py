"""Which values of a network are stored in bfloat16."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
from tests.graph.run_symbolic import point_of, run_at
from tests.hosts import x86
from tilework import ops, te
from tilework.dtypes import round_tf32
from tilework.errors import NetworkError, TargetError
from tilework.graph import Builder, plan
from tilework.graph.precision import require_precision
from tilework.index.symbols import symbol
from tilework.target import Target
from tilework.te.serial import dag_from_json, dag_to_json

ZEN4 = Target(x86("znver4", 1))


def small_network():
    rng = np.random.default_rng(0)

    def weights(*shape):
        return b.constant(rng.standard_normal(shape, dtype=np.float32), "w")

    window = {"pads": (1, 1, 1, 1), "dilation": (1, 1), "layout": "NHWC"}
    b = Builder("small")
    x = b.input("data", (1, 8, 8, 3))
    y = b.op("conv2d", x, weights(3, 3, 3, 16), strides=(1, 1), **window)
    y = b.op("relu", b.op("add", y, weights(16)))
    z = b.op("conv2d", y, weights(3, 3, 16, 16), strides=(1, 1), **window)
    y = b.op("relu", b.op("add", b.op("add", z, weights(16)), y))
    y = b.op("global_avg_pool", y, layout="NHWC")
    y = b.op("reshape", y, shape=(1, 16))
    y = b.op("add", b.op("dense", y, weights(10, 16)), weights(10))
    return b.finish([b.op("softmax", y, axis=-1)])


def test_values_between_calls_are_narrow_and_the_border_is_not():
    planned = plan(small_network(), "bf16", ZEN4)
    kinds = {c.desc: [t.dtype for t in c.dag.tensors] for c in planned.calls}
    narrow, wide = "bfloat16", "float32"
    assert kinds == {
        "pad 1x8x8x3 bf16": [wide, narrow],
        "concat 1x8x1x4 bf16": [narrow] * 4,
        "concat 1x1x10x4 bf16": [narrow] * 4,
        "conv2d+add+relu 1x10x40x1 k3x12 s1x4 -> 16 bf16": [narrow, narrow, wide, narrow],
        "conv2d+add+add+relu 1x8x8x16 k3 s1 -> 16 bf16": [narrow, narrow, wide, narrow],
        "global_avg_pool 1x8x8x16 bf16": [narrow, narrow],
        "dense+add 1x16 -> 10 bf16": [narrow, narrow, wide, wide],
        "softmax 1x10": [wide, wide],
    }
    assert plan(small_network()).calls[1].dag.workload_key != planned.calls[1].dag.workload_key
    assert all(t.dtype == wide for c in plan(small_network()).calls for t in c.dag.tensors)


def test_angles_of_positions_stay_wide():
    """As of rotary embeddings: bfloat16 has one number for 1,000 and 1,001."""
    b = Builder("rotary")
    length = symbol("n", 1, 2000, (1000,))
    x = b.input("x", (length, 8))
    places = b.op("arange", shape=(length, 1), axis=0, start=0, step=1, dtype="float32")
    steps = np.float32([[1, 0.5, 0.25, 0.1]])
    angles = b.op("einsum", places, b.constant(steps, "steps"), equation="ni,ij->nj")
    both = b.op("concat", angles, angles, axis=1)
    turned = (b.op("multiply", x, b.op(wave, both)) for wave in ("cos", "sin"))
    net = b.finish([b.op("add", *turned)])
    (y,) = run_at(plan(net, "bf16", ZEN4), point_of(net, {"n": 1500}), np.ones((1500, 8), "f4"))
    at = np.arange(1500.0)[:, None] * np.tile(steps.astype(np.float64), 2)
    np.testing.assert_allclose(y, np.cos(at) + np.sin(at), atol=0.01)


def test_odd_channels_stay_wide():
    b = Builder("odd")
    x = b.op("relu", b.input("data", (1, 15)))
    w = b.constant(np.ones((8, 15), np.float32))
    planned = plan(b.finish([b.op("dense", x, w)]), "bf16")
    assert {t.dtype for c in planned.calls for t in c.dag.tensors} == {"float32"}


@pytest.mark.parametrize("precision", ["bf16", "f16", "tf32"])
def test_a_sum_of_one_operand_is_no_product(precision):
    b = Builder("sum")
    x = b.op("relu", b.input("data", (4, 16)))
    planned = plan(b.finish([b.op("einsum", x, equation="ij->i")]), precision)
    assert {t.dtype for c in planned.calls for t in c.dag.tensors} == {"float32"}


def test_targets_without_the_instructions_are_refused():
    net = small_network()
    old = x86("core-avx2", 1)
    for call in (
        lambda: tw.extract_tasks(net, old, precision="bf16"),
        lambda: tw.compile(net, old, precision="bf16"),
    ):
        with pytest.raises(TargetError, match="avx512bf16"):
            call()
    with pytest.raises(NetworkError, match="f32, bf16"):
        require_precision(ZEN4, "f8")


def test_tasks_of_a_precision():
    net = small_network()
    narrow, weights = tw.extract_tasks(net, ZEN4, precision="bf16")
    wide, same = tw.extract_tasks(net, ZEN4)
    assert weights == same
    shared = {t.workload_key for t in narrow} & {t.workload_key for t in wide}
    assert len(shared) == 1  # the softmax


@pytest.mark.skipif(
    "avx512bf16" not in Target("llvm").features, reason="this CPU lacks avx512bf16"
)
def test_a_network_is_as_accurate_as_documented():
    net = small_network()
    target = Target("llvm -num-cores=2")
    wide, narrow = tw.compile(net, target), tw.compile(net, target, precision="bf16")
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 3), dtype=np.float32)
    (want,), (got,) = wide.run(x), narrow.run(x)
    assert got.dtype == np.float32
    assert 0 < np.abs(got - want).max() / np.abs(want).max() < 2e-2


@pytest.mark.parametrize("precision", ["f16", "tf32"])
def test_cpus_refuse_precisions_of_tensor_cores_in_one_line(precision):
    for target in (ZEN4, Target(x86("core-avx2", 1))):
        with pytest.raises(TargetError, match=f"{precision} needs a GPU") as told:
            tw.extract_tasks(small_network(), target, precision=precision)
        assert "\n" not in str(told.value)
    require_precision(Target("cuda -arch=sm_80"), precision)
    with pytest.raises(TargetError, match="sm_80"):
        require_precision(Target("cuda -arch=sm_75"), precision)


def test_float16_is_stored_where_bfloat16_would_be():
    gpu = Target("cuda -arch=sm_80")
    narrow, half = plan(small_network(), "bf16", gpu), plan(small_network(), "f16", gpu)
    for a, b in zip(narrow.calls, half.calls, strict=True):
        renamed = {"bfloat16": "float16", "float32": "float32"}
        assert [t.dtype for t in b.dag.tensors] == [renamed[t.dtype] for t in a.dag.tensors]
        assert b.desc == a.desc.replace(" bf16", " f16")


def test_tf32_rounds_factors_and_nothing_else():
    wide, rounded = plan(small_network()), plan(small_network(), "tf32")
    told = {c.desc: c.dag for c in rounded.calls}
    assert list(told) == [
        "conv2d+add+relu 1x8x8x3 k3 s1 -> 16",  # 3 channels are not taken in fours
        "conv2d+add+add+relu 1x8x8x16 k3 s1 -> 16 tf32",
        "global_avg_pool 1x8x8x16",
        "dense+add 1x16 -> 10 tf32",
        "softmax 1x10",
    ]
    assert all(t.dtype == "float32" for dag in told.values() for t in dag.tensors)
    for a, b in zip(wide.calls, rounded.calls, strict=True):
        changed = b.desc.endswith(" tf32")
        assert (a.dag.workload_key != b.dag.workload_key) == changed
        assert ("round_tf32" in str(b.dag)) == changed
        assert a.dag.flops == b.dag.flops
    dag = told["conv2d+add+add+relu 1x8x8x16 k3 s1 -> 16 tf32"]
    again = dag_from_json(dag_to_json(dag))
    assert again.workload_key == dag.workload_key


def test_products_of_rounded_factors():
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (64, 64)).astype(np.float32) for _ in range(2))
    pa, pb = te.placeholder((64, 64), "a"), te.placeholder((64, 64), "b")
    exact = te.ComputeDAG([pa, pb, ops.matmul(pa, pb)])
    rounded = te.ComputeDAG([pa, pb, ops.tf32_products(ops.matmul(pa, pb))])
    want, got = (te.evaluate(dag, [a, b])[0] for dag in (exact, rounded))
    error = np.abs(got - want).max() / np.abs(want).max()
    assert 1e-5 < error < 1e-3
    by_hand = round_tf32(a).astype(np.float64) @ round_tf32(b).astype(np.float64)
    np.testing.assert_allclose(got, by_hand, atol=1e-5)
    (whole,) = te.evaluate(rounded, [a, b], "float64")  # a reference of higher precision is exact
    np.testing.assert_allclose(whole, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-12)
    p = te.placeholder((4, 4), "p", "float64")
    with pytest.raises(TypeError, match="multiplies float64"):
        ops.tf32_products(ops.matmul(p, p))
    with pytest.raises(TypeError, match="not a sum of products"):
        ops.tf32_products(ops.relu(pa))
