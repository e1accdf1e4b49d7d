"""What calls of symbolic shapes have in common, and how much of a run they take."""

from __future__ import annotations

import numpy as np

import tilework as tw
from tilework import Target
from tilework.compiler.alike import Alike
from tilework.compiler.shares import shares
from tilework.graph import Builder, plan
from tilework.index.symbols import symbol, symbols_of
from tilework.model.effort import CLOSE, LEAST, effort_for

A, B, LONG = symbol("a", 1, 40, [16]), symbol("b", 1, 40, [16]), symbol("c", 1, 80, [16])


def two_layers():
    """The same layer over lengths of the same range, and of another one; a small one besides."""
    weight = np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)
    b = Builder("two")
    outputs = []
    for n in (A, B, LONG):
        x = b.input(f"x_{n}", (n, 512))
        outputs.append(b.op("relu", b.op("dense", x, b.constant(weight))))
    outputs.append(b.op("relu", b.input("y", (A, 3))))
    return b.finish(outputs), weight


def test_lengths_of_one_range_share_a_kernel():
    net, weight = two_layers()
    module = tw.compile(net, "llvm -mcpu=native -num-cores=2", cache=False)
    of_a, of_b, of_c, small = [step.symbol for step in module.image.steps]
    assert of_a == of_b and len({of_a, of_c, small}) == 3
    rng = np.random.default_rng(1)
    for lengths in ((3, 17, 5), (40, 1, 80)):
        given = [rng.standard_normal((n, 512)).astype(np.float32) for n in lengths]
        given.append(rng.standard_normal((lengths[0], 3)).astype(np.float32))
        got = module.run(*given)
        for x, y in zip(given[:3], got[:3], strict=True):
            np.testing.assert_allclose(y, np.maximum(x @ weight.T, 0), rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(got[3], np.maximum(given[3], 0))


def test_shares_of_a_run():
    net, _ = two_layers()
    calls = plan(net, "f32", Target("llvm -mcpu=native")).calls
    symbols = symbols_of((A, B, LONG))
    alike = Alike(symbols)
    share = shares(calls, symbols, alike)
    of_a, of_b, of_c, small = calls
    (first, own), (_, mine) = map(alike.first, (call.dag for call in (of_b, of_a)))
    assert first is of_a.dag and own == {symbols[0]: symbols[1]} and not mine
    assert of_b.dag.workload_key not in share
    both, other = share[of_a.dag.workload_key], share[of_c.dag.workload_key]
    assert abs(both - 2 * other) < 0.01 and effort_for(both) is CLOSE
    assert effort_for(share[small.dag.workload_key]) is LEAST
