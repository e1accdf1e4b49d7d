"""Which values of a network are stored in bfloat16."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
from tilework.errors import NetworkError, TargetError
from tilework.graph import Builder, plan
from tilework.graph.precision import require_precision
from tilework.target import Target

ZEN4 = Target("llvm -mcpu=znver4 -num-cores=1")


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
    planned = plan(small_network(), "bf16")
    kinds = {c.desc: [t.dtype for t in c.dag.tensors] for c in planned.calls}
    narrow, wide = "bfloat16", "float32"
    assert kinds == {
        "conv2d+add+relu 1x8x8x3 k3 s1 -> 16 bf16": [wide, wide, wide, narrow],
        "conv2d+add+add+relu 1x8x8x16 k3 s1 -> 16 bf16": [narrow, narrow, wide, narrow],
        "global_avg_pool 1x8x8x16 bf16": [narrow, narrow],
        "dense+add 1x16 -> 10 bf16": [narrow, narrow, wide, wide],
        "softmax 1x10": [wide, wide],
    }
    assert plan(small_network()).calls[1].dag.workload_key != planned.calls[1].dag.workload_key
    assert all(t.dtype == wide for c in plan(small_network()).calls for t in c.dag.tensors)


def test_odd_channels_stay_wide():
    b = Builder("odd")
    x = b.op("relu", b.input("data", (1, 15)))
    w = b.constant(np.ones((8, 15), np.float32))
    planned = plan(b.finish([b.op("dense", x, w)]), "bf16")
    assert {t.dtype for c in planned.calls for t in c.dag.tensors} == {"float32"}


def test_targets_without_the_instructions_are_refused():
    net = small_network()
    old = "llvm -mcpu=core-avx2 -num-cores=1"
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
