"""Networks that ONNX Runtime's tools quantised: equal to its fused kernels, element by element."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import tilework as tw
from tests.graph.quantized_models import (
    DYNAMIC,
    STATIC,
    by_onnx_runtime,
    inputs,
    quantised,
    with_bytes_as_outputs,
)
from tests.hosts import HOST_ARCH, x86
from tilework.graph import from_onnx
from tilework.graph.passes import optimize
from tilework.target import Target


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray], path: Path) -> list[np.ndarray]:
    onnx.save(model, path)
    got = tw.compile(from_onnx(path), target="llvm -num-cores=1").run(*feed.values())
    return list(got) if isinstance(got, (list, tuple)) else [got]


@pytest.mark.parametrize(
    ("network", "form"),
    [
        *((network, form) for network in ("mobile", "encoder") for form in STATIC),
        ("resnet", "QDQ u8 s8"),  # of whose operators all but the pooling are in the others
        ("resnet", "QOperator u8 u8"),
    ],
)
def test_every_quantised_tensor_is_that_of_the_fused_kernels(network, form, tmp_path):
    model = quantised(network, form, tmp_path)
    feed = inputs(model, np.random.default_rng(1))
    names = with_bytes_as_outputs(model)
    want = by_onnx_runtime(model, feed)
    got = run(model, feed, tmp_path / "all.onnx")
    assert names
    wrong = {}
    for name, y in zip(want, got, strict=True):
        if name in names:
            apart = np.abs(y.astype(int) - want[name].astype(int))
            if apart.any():
                wrong[name] = int((apart > 0).sum()), apart.size, int(apart.max())
    assert not wrong


@pytest.mark.parametrize(
    ("network", "form"),
    [("mobile", "u8"), ("resnet", "s8"), ("encoder", "u8"), ("encoder", "s8")],
)
def test_dynamic_networks_are_near_those_of_onnx_runtime(network, form, tmp_path):
    """Scales are extremes of data, which are floats: what is rounded may fall the other way."""
    model = quantised(network, form, tmp_path)
    feed = inputs(model, np.random.default_rng(1))
    (want,) = by_onnx_runtime(model, feed).values()
    (got,) = run(model, feed, tmp_path / "q.onnx")
    assert np.abs(got - want).max() <= 0.02 * np.abs(want).max()


@pytest.mark.parametrize("form", [*STATIC, *DYNAMIC])
@pytest.mark.parametrize("network", ["mobile", "resnet", "encoder"])
def test_products_with_weights_are_products_of_bytes(network, form, tmp_path):
    """Depthwise filters without a zero point that fits have words; attention stays in float."""
    model = quantised(network, form, tmp_path)
    onnx.save(model, tmp_path / "q.onnx")
    net = optimize(from_onnx(tmp_path / "q.onnx"))
    products = [n for n in net.nodes if n.op in ("conv2d", "dense", "matmul")]
    left = [n for n in products if "sums" not in n.attrs and net.types[n.name].dtype != "int32"]
    assert not left
    for node in products:
        if node.attrs.get("groups", 1) == 1 and "sums" in node.attrs:
            types = [net.types[v].dtype for v in node.inputs]
            assert types == ["uint8", "int8"]
            assert net.types[node.inputs[0]].shape[-1] % 4 == 0


@pytest.mark.parametrize("target", ["reference", x86("haswell", 1), x86("x86-64", 2)])
def test_other_machines_compute_the_same(target, tmp_path):
    """Bytes are the same everywhere; what ends in a softmax in float is not compared here."""
    if target != "reference" and HOST_ARCH != "x86_64":
        pytest.skip("this machine runs no x86 code")
    model = quantised("mobile", "QDQ u8 u8", tmp_path)
    feed = inputs(model, np.random.default_rng(1))
    names = with_bytes_as_outputs(model)
    want = by_onnx_runtime(model, feed)
    onnx.save(model, tmp_path / "q.onnx")
    got = tw.compile(from_onnx(tmp_path / "q.onnx"), target=target).run(*feed.values())
    for name, y in zip(want, got, strict=True):
        if name in names:
            np.testing.assert_array_equal(y, want[name])


@pytest.mark.skipif("avx512bf16" not in Target("llvm").features, reason="it lacks avx512bf16")
def test_floats_between_bytes_may_be_narrow(tmp_path):
    model = quantised("encoder", "QDQ u8 s8", tmp_path)
    feed = inputs(model, np.random.default_rng(1))
    (want,) = by_onnx_runtime(model, feed).values()
    onnx.save(model, tmp_path / "q.onnx")
    net = from_onnx(tmp_path / "q.onnx")
    got = tw.compile(net, "llvm -num-cores=1", precision="bf16").run(*feed.values())
    got = got[0] if isinstance(got, (list, tuple)) else got
    assert np.abs(got - want).max() <= 0.1 * np.abs(want).max()
