"""The measurer with generated code: every sampled schedule is right, and is timed."""

from __future__ import annotations

import numpy as np

import tilework as tw
from tilework import te
from tilework.measure import Candidate, Measurer
from tilework.record import Status
from tilework.space import SearchSpace
from tilework.task import SearchTask


def conv_task(target):
    """A padded 3x3 convolution with a ReLU, weights free to be packed, odd extents."""
    x = te.placeholder((1, 13, 13, 12), name="x")
    w = te.placeholder((3, 3, 12, 20), name="w")

    def inside(n, i, j, c):
        within = te.all(i >= 1, i < 14, j >= 1, j < 14)
        return te.if_then_else(within, x[n, i - 1, j - 1, c], te.const(0.0, "float32"))

    p = te.compute((1, 15, 15, 12), inside, name="p")
    a, b = te.reduce_axis(3, "a"), te.reduce_axis(3, "b")
    k = te.reduce_axis(12, "k")
    conv = te.compute(
        (1, 13, 13, 20),
        lambda n, y, x, f: te.sum(p[n, y + a, x + b, k] * w[a, b, k, f], axis=[a, b, k]),
        name="conv",
        attrs={"layout_free": ("w",)},
    )
    zero = te.const(0.0, "float32")
    relu = te.compute(conv.shape, lambda n, y, x, f: te.maximum(conv[n, y, x, f], zero), name="r")
    return SearchTask(te.ComputeDAG([x, w, relu]), target, "conv")


def test_generated_candidates_are_verified_and_timed():
    target = tw.Target("llvm -mcpu=native")
    task = conv_task(target)
    rng = np.random.default_rng(0)
    candidates = []
    for sketch in SearchSpace.of(task).sketches:
        rows = sketch.sample(rng, 8)
        rows = rows[sketch.valid(rows)][:3]
        candidates += [Candidate(sketch.id, tuple(map(int, row)), 0.0, "") for row in rows]
    with Measurer(target, time_budget_ms=5.0) as measurer:
        results = measurer.measure(task, candidates, None)
    assert len(candidates) >= 3
    for result in results:
        assert result.status == Status.ok, result.error
        assert 1e-7 < result.latency_s < 0.1
        assert result.max_rel_error < 1e-5
        assert result.code_hash
