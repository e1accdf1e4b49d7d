"""Random networks, compiled: passes, fusion, shared memory and kernels together."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

import tilework as tw
from tests.graph.run_plan import relative_error, run_nodes
from tests.graph.test_random_networks import networks
from tilework.graph import Network

TARGET = tw.Target("llvm -mcpu=native -num-cores=2")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(networks())
def test_compiled_networks_keep_the_meaning(net: Network) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(t.shape, dtype=np.float32) for t in net.inputs.values()]
    got = tw.compile(net, TARGET).run(dict(zip(net.inputs, inputs, strict=True)))
    for a, b in zip(got, run_nodes(net, *inputs), strict=True):
        assert relative_error(a, b) < 1e-4
