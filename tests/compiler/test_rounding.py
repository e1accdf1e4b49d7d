"""A layer whose weights do not suit a Winograd schedule runs without one, and that is told."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.test_history import record
from tilework import compile as compile_network
from tilework.compiler.choose import choose_schedule
from tilework.compiler.kernels import Kernels
from tilework.compiler.rounding import ERROR_BOUND, within_bound
from tilework.graph import Builder, plan
from tilework.record import MemoryHistory
from tilework.runtime import load_module
from tilework.space import SearchSpace
from tilework.space.winograd import WeightTransform
from tilework.space.winograd.error import rounding_error
from tilework.task import SearchTask

SIZE, CHANNELS = 12, 32


def filters(seed, scale=0.06):
    rng = np.random.default_rng(seed)
    return (scale * rng.standard_normal((CHANNELS, CHANNELS, 3, 3))).astype("float32")


TINY = 1e-40
"""Weights that float32 holds with few bits; divided by up to 144, as F(4x4) does, with fewer."""


def two_layers(first, second):
    b = Builder("two")
    x = b.input("data", (1, SIZE, SIZE, CHANNELS))
    for i, weight in enumerate((first, second)):
        w = b.constant(weight.transpose(2, 3, 1, 0).copy(), f"w{i}")
        window = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}
        x = b.op("conv2d", x, w, layout="NHWC", **window)
        x = b.op("relu", x)
    return b.finish([x])


def records(net, target):
    """A fast record of F(4x4, 3x3) and a slower one of a direct form, for each task."""
    out = []
    for call in plan(net).calls:
        task = SearchTask(call.dag, target, call.desc)
        for sketch in SearchSpace.of(task).sketches:
            fast = "F(4x4" in sketch.name
            if fast or not sketch.transforms:
                row = sketch.sample(np.random.default_rng(0), 1)[0]
                seconds = (1.0 if fast else 2.0) + 0.01 * sketch.id
                out.append(record(task, row, seconds, sketch=sketch.id))
    return MemoryHistory(out)


@pytest.fixture(scope="module")
def one_refused(target):
    net = two_layers(filters(0), filters(1, TINY))
    return net, compile_network(net, target, records(net, target))


def test_only_the_layer_with_unsuitable_weights_runs_direct(one_refused):
    net, module = one_refused
    (report,) = [r for r in module.report if r.weight == 2]
    assert report.winograd_refused == 1
    assert report.winograd_error is not None and report.winograd_error > ERROR_BOUND
    assert report.source == "tuned"
    data = np.random.default_rng(2).standard_normal((1, SIZE, SIZE, CHANNELS)).astype("float32")
    (got,) = module.run(data)
    assert np.isfinite(got).all()
    weights = [c.dag.inputs[1].shape for c in plan(net).calls]
    assert weights == [(3, 3, CHANNELS, CHANNELS)] * 2


def test_the_report_and_the_summary_say_so(one_refused, tmp_path):
    _, module = one_refused
    assert "Winograd in 1 call" in module.summary()
    assert "Winograd refused in 1 of 2 calls of conv2d" in module.summary()
    module.save(tmp_path / "m.twm")
    assert load_module(tmp_path / "m.twm").report == module.report


def test_usual_weights_pass(target):
    net = two_layers(filters(0), filters(1))
    module = compile_network(net, target, records(net, target))
    (report,) = module.report
    assert report.winograd_refused == 0
    assert report.winograd_error is not None and 0 < report.winograd_error < 2e-5
    assert "Winograd in 2 calls, rounding error at most" in module.summary()


def test_without_direct_records_the_draft_decides(target):
    net = two_layers(filters(0), filters(1, TINY))
    call = plan(net).calls[0]
    task = SearchTask(call.dag, target, call.desc)
    sketch = next(s for s in SearchSpace.of(task).sketches if "F(4x4" in s.name)
    row = sketch.sample(np.random.default_rng(0), 1)[0]
    history = MemoryHistory([record(task, row, 1.0, sketch=sketch.id)])
    choice = choose_schedule(task, history)
    weights = {call.dag.inputs[1].name: filters(1, TINY).transpose(2, 3, 1, 0)}
    found = within_bound(task, choice, weights, history, Kernels(target))
    assert found.refused and found.choice.source == "untuned"
    assert not SearchSpace.of(task).sketch(found.choice.sketch_id).transforms
    assert within_bound(task, choice, {}, history, Kernels(target)).choice == choice


@pytest.mark.parametrize("taps", [(3, 3), (1, 3), (3, 1), (3, 3, 3)])
@pytest.mark.parametrize("tile", [2, 4])
def test_the_estimate_is_of_the_size_of_the_real_error(tile, taps):
    n = len(taps)
    shape = (*taps, 48, 40)
    window = tuple(d for d in range(n) if taps[d] == 3)[-2:]
    rest = tuple(d for d in range(n + 2) if d not in window and (d >= n or taps[d] > 1))
    transform = WeightTransform(tile, shape, window, rest)
    weight = np.random.default_rng(4).standard_normal(shape).astype("float32")
    error = rounding_error(transform, weight)
    low, high = {2: (5e-8, 2e-6), 4: (5e-7, 2e-5)}[tile]
    assert low < error < high
    assert rounding_error(transform, 1e-20 * weight) == pytest.approx(error, rel=0.5)
    weight[(0,) * (n + 2)] = np.nan
    assert rounding_error(transform, weight) == np.inf
