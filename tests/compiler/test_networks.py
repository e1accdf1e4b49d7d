"""Compiled networks give what ONNX Runtime gives for the exported network."""

from __future__ import annotations

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest

from tests.graph import onnx_models
from tests.hosts import runs_x86
from tilework import Target, from_onnx, load_module, zoo
from tilework import compile as compile_network

pytest.importorskip("onnxruntime")
from tests.graph.run_plan import run_onnxruntime

TOLERANCE = 1e-3


def check(net, path, target, seed=0):
    """Compile, run with one and two threads, compare with the ONNX file at ``path``."""
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(t.shape, dtype=np.float32) for t in net.inputs.values()]
    module = compile_network(net, target)
    expected = run_onnxruntime(path, *inputs)
    for threads in (1, 2):
        module.set_threads(threads)
        outputs = module.run(dict(zip(net.inputs, inputs, strict=True)))
        assert len(outputs) == len(expected)
        for ours, theirs in zip(outputs, expected, strict=True):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            assert np.max(np.abs(ours - theirs)) <= TOLERANCE * np.max(np.abs(theirs))
    return module


def check_exported(net, folder, target):
    path = folder / "network.onnx"
    net.to_onnx(path)
    return check(net, path, target)


def test_mlp(mlp, tmp_path, target):
    check_exported(mlp, tmp_path, target)


def test_outputs_have_the_names_of_the_file(tmp_path):
    """Passes make other values; a name that an input has, too, cannot be kept."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[2, 8] x, float[2, 8] z) => (float[2, 8] states, float[2, 8] z, float[2, 8] z_out) {
        d = ReduceMean<axes = [1]>(x)
        c = Sub(x, d)
        v = Mul(c, c)
        e = ReduceMean<axes = [1]>(v)
        s = Sqrt(e)
        states = Div(c, s)
        z_out = Identity(states)
    }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    net = from_onnx(tmp_path / "net.onnx")
    module = check(net, tmp_path / "net.onnx", Target("llvm -num-cores=2"))
    assert [v.name for v in module.outputs] == ["states", "z_out", "z_out_out"]
    module.save(tmp_path / "net.tw")
    assert load_module(tmp_path / "net.tw").outputs == module.outputs


@runs_x86
def test_narrower_vectors(tmp_path):
    """The plainest CPU; kernels of those between are in `test_targets`."""
    target = Target("llvm -mcpu=x86-64 -num-cores=2")
    if target.missing_on_host():
        pytest.skip(f"this CPU lacks {target.missing_on_host()}")
    model = onnx_models.resnet(18, image=64, classes=10, width=16)
    path = onnx_models.save(model, tmp_path / "resnet.onnx")
    check(from_onnx(path), path, target)


def test_full_size(tmp_path, target):
    """Channels last; the standard ONNX tests have networks of full size with channels first."""
    module = check_exported(zoo.get("resnet-18"), tmp_path, target)
    assert sum(row.weight for row in module.report) <= len(module.image.steps)
    assert not any(row.tuned for row in module.report)


def test_weights_that_layers_share_lie_once(target):
    """The memory of three weights is one: ALBERT's layers are like that."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3,96] x) => (float[3,96] y) {
            a = MatMul(x, w1)  b = Tanh(a)  c = MatMul(b, w2)  d = Tanh(c)  y = MatMul(d, w3)
        }"""
    model, rng = onnx.parser.parse_model(text), np.random.default_rng(0)
    w, x = (rng.standard_normal((n, 96)).astype(np.float32) / 8 for n in (96, 3))
    own = [onnx.numpy_helper.from_array(w + i, f"w{i + 1}") for i in range(3)]
    model.graph.initializer.extend(own)
    net = from_onnx(model)
    one = next(iter(net.constants.values()))
    net.constants.update({name: one[...] for name in net.constants})
    module = compile_network(net, target)
    expected = np.tanh(np.tanh(x @ w) @ w) @ w
    assert np.allclose(module.run(x)[0], expected, atol=1e-3)
    assert module.image.constants.nbytes < 1.5 * w.nbytes
