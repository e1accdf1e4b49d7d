"""Other engines: a bound call reads and writes fixed arrays and computes what a run computes."""

from __future__ import annotations

import importlib.util

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from tasks.engines import random_inputs, time_engines
from tasks.peers import PEERS, load_peer
from tilework import Target, zoo
from tilework import compile as compile_network


@pytest.fixture(scope="module")
def net():
    return zoo.get("mlp", batch=2)


@pytest.fixture(scope="module")
def path(net, tmp_path_factory):
    path = tmp_path_factory.mktemp("peers") / "net.onnx"
    net.to_onnx(path)
    return str(path)


@pytest.fixture(params=PEERS)
def peer(request, path):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return load_peer(request.param, path, 1)


def test_bound_calls_read_their_inputs_anew(peer, net):
    inputs = random_inputs(net)
    call = peer.bind(inputs)
    call()
    (first,) = (np.array(o) for o in peer.run(inputs))
    inputs["data"] *= 2
    call()
    assert not np.allclose(first, peer.run(inputs)[0])


def test_engines_take_turns(peer, net):
    module = compile_network(net, Target("llvm -num-cores=1"))
    samples = time_engines({"ours": module, "theirs": peer}, random_inputs(net), 0.01)
    assert len(samples["ours"].seconds) == len(samples["theirs"].seconds) > 0


def test_sums_of_bytes_are_whole_where_products_share_a_zero_point(tmp_path):
    """ONNX Runtime's own mode for it refuses such files, as Brevitas writes them."""
    pytest.importorskip("onnxruntime")
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[1, 64] x) => (float[1, 4] y) <float s = {0.1}, uint8 z = {0}, int8 zw = {0}> {
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
        a = DequantizeLinear(w, s, zw) h = MatMul(d, a)
        q1 = QuantizeLinear(h, s, z) d1 = DequantizeLinear(q1, s, z)
        b = DequantizeLinear(v, s, zw) y = MatMul(d1, b) }""")
    for name, shape in (("w", (64, 64)), ("v", (64, 4))):
        weights = numpy_helper.from_array(np.full(shape, 127, np.int8), name)
        model.graph.initializer.append(weights)
    onnx.save(model, tmp_path / "net.onnx")
    peer = load_peer("onnxruntime", str(tmp_path / "net.onnx"), 1, exact=True)
    (y,) = peer.run({"x": np.full((1, 64), 25, np.float32)})
    assert np.allclose(y, 64 * 25.5 * 12.7)
