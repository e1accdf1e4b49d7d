"""Other engines: a bound call reads and writes fixed arrays and computes what a run computes."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

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
