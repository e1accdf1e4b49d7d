"""Whole networks on an emulated GPU equal ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.conformance.network import network
from tests.graph.run_plan import relative_error, run_onnxruntime
from tilework import Target, compile, load_module
from tilework.graph import from_onnx, zoo
from tilework.record import MemoryHistory

TOLERANCE = 1e-3
TARGET = "cuda -model=a100 -run=emulated"
pytestmark = pytest.mark.usefixtures("needs_compiler")


def check(net, path, tmp_path, target=TARGET):
    """A network and its file agree, before and after the module is saved."""
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(v.shape, np.float32) for n, v in net.inputs.items()}
    wanted = run_onnxruntime(path, *inputs.values())
    module = compile(net, Target(target), MemoryHistory())
    module.save(tmp_path / "net.tw")
    for one in (module, load_module(tmp_path / "net.tw")):
        for got, want in zip(one.run(inputs), wanted, strict=True):
            assert relative_error(got, want) < TOLERANCE


def written(net, tmp_path):
    net.to_onnx(tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.mark.parametrize("make", [lambda: zoo.get("mlp"), network], ids=["mlp", "small"])
def test_small_networks(make, tmp_path):
    net = make()
    check(net, written(net, tmp_path), tmp_path)


@pytest.mark.cuda_full
@pytest.mark.parametrize("name", ["resnet-18", "resnet-50", "mobilenet", "squeezenet_v1.1"])
def test_networks_of_the_zoo(name, tmp_path):
    net = zoo.get(name)
    check(net, written(net, tmp_path), tmp_path)


@pytest.mark.cuda_full
def test_channels_first_for_another_architecture(tmp_path):
    net = zoo.get("resnet-18", layout="NCHW", image_shape=(3, 64, 64))
    check(net, written(net, tmp_path), tmp_path, "cuda -model=h100 -run=emulated")


@pytest.mark.cuda_full
def test_a_layer_of_a_transformer(tmp_path):
    from benchmarks._encoder import encoder

    onnx.save(encoder(1, 256, 4, 64), tmp_path / "net.onnx")
    check(from_onnx(tmp_path / "net.onnx"), tmp_path / "net.onnx", tmp_path)
