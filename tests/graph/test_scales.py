"""Scales and offsets of any rank around products: folded where they may be, and never an error."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.graph.run_plan import relative_error, run_nodes, run_plan
from tilework.graph import Builder, Network
from tilework.graph.passes import fold_scale_back, fold_scale_forward, merge_constants, optimize

CHANNELS = 3
SCALES = ((), (1,), (CHANNELS,), (1, CHANNELS), (2, 1), (2, CHANNELS), (1, 1, CHANNELS), (1, 1, 1))
STARTS = ((), (1,), (CHANNELS,), (1, CHANNELS), (2, CHANNELS), (1, 2, CHANNELS))
Step = tuple[str, tuple[int, ...], bool]
STEPS = st.tuples(
    st.sampled_from(("add", "multiply", "multiply", "relu", "dense", "both")),
    st.sampled_from(SCALES),
    st.booleans(),  # the constant comes first
)


def network(shape: tuple[int, ...], steps: list[Step]) -> Network:
    r = np.random.default_rng(0)
    b = Builder("scales")
    y = x = b.input("x", shape)
    for op, constant, first in steps:
        if op == "relu":
            y = b.op("relu", y)
        elif op == "both":
            y = b.op("multiply", y, x)
        elif op == "dense":
            if len(b.shape(y)) == 2 and b.shape(y)[1] == CHANNELS:
                w = r.standard_normal((CHANNELS, CHANNELS)).astype(np.float32)
                y = b.op("dense", y, b.constant(w))
        else:
            c = b.constant(r.uniform(0.5, 2, constant).astype(np.float32))
            y = b.op(op, *((c, y) if first else (y, c)))
    return b.finish([b.op("identity", y)])


@settings(max_examples=150, deadline=None)
@given(shape=st.sampled_from(STARTS), steps=st.lists(STEPS, max_size=7))
@example(shape=(), steps=[("multiply", (), False)])
@example(shape=(), steps=[("add", (), False), ("multiply", (1,), False)])
@example(shape=(2, 3), steps=[("dense", (), False), ("add", (3,), True), ("multiply", (), True)])
def test_scales_of_unlike_rank(shape: tuple[int, ...], steps: list[Step]) -> None:
    net = network(shape, steps)
    data = np.asarray(np.random.default_rng(1).standard_normal(shape), np.float32)
    (want,) = run_nodes(net, data)
    passes = (fold_scale_back, fold_scale_forward, merge_constants, optimize)
    for new in (p(net) for p in passes):
        assert new.types[new.outputs[0]].shape == want.shape
        (got,) = run_nodes(new, data)
        assert relative_error(got, want) < 1e-5
    (got,) = run_plan(net, data)
    assert relative_error(got, want) < 1e-5
