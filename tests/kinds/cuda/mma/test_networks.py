"""Networks in the precisions of tensor cores."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
from tests.kinds.cuda.mma.declared import A100
from tilework.graph import Builder
from tilework.kinds.cuda.tiling import MMA
from tilework.space import SearchSpace


@pytest.mark.parametrize("precision", ["bf16", "f16", "tf32"])
def test_most_tasks_of_a_network_may_use_tensor_cores(precision):
    tasks, _ = tw.extract_tasks(tw.zoo.outline("resnet-18"), A100, precision=precision)
    plain, _ = tw.extract_tasks(tw.zoo.outline("resnet-18"), A100)
    assert len(tasks) == len(plain)
    offered = [
        task.desc
        for task in tasks
        if any(b.levels == MMA for s in SearchSpace.of(task).sketches for b in s.blocks)
    ]
    assert (
        len(offered) == 19
    )  # not the first layer of 3 channels, pooling, the classifier, softmax
    assert all(desc.endswith(f" {precision}") for desc in offered)


def small():
    """Residual blocks on 16 channels."""
    rng = np.random.default_rng(0)

    def weights(*shape):
        scale = np.sqrt(np.prod(shape[:-1]))
        return b.constant((rng.standard_normal(shape) / scale).astype(np.float32), "w")

    window = {"pads": (1, 1, 1, 1), "dilation": (1, 1), "layout": "NHWC", "strides": (1, 1)}
    b = Builder("small")
    y = b.op(
        "relu", b.op("conv2d", b.input("data", (1, 12, 12, 3)), weights(3, 3, 3, 16), **window)
    )
    for _ in range(2):
        z = b.op("add", b.op("conv2d", y, weights(3, 3, 16, 16), **window), weights(16))
        y = b.op("relu", b.op("add", z, y))
    y = b.op("reshape", b.op("global_avg_pool", y, layout="NHWC"), shape=(1, 16))
    return b.finish([b.op("dense", y, weights(10, 16))])


@pytest.mark.cuda_full
@pytest.mark.parametrize(("precision", "bound"), [("tf32", 2e-3), ("f16", 2e-3), ("bf16", 2e-2)])
def test_a_network_is_near_the_one_in_float32(needs_compiler, precision, bound):
    net = small()
    x = np.random.default_rng(1).standard_normal((1, 12, 12, 3)).astype(np.float32)
    (want,) = tw.compile(net, "llvm -num-cores=1").run(x)
    module = tw.compile(net, "cuda -arch=sm_80 -run=emulated", precision=precision)
    (got,) = module.run(x)
    assert 1e-6 < np.abs(got - want).max() / np.abs(want).max() < bound
    assert f"precision {precision}" in module.summary()
