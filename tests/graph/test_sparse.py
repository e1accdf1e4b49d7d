"""Networks with block-sparse weights: conversion, layouts, tasks, measured and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
from tilework.errors import NetworkError, ScheduleError
from tilework.graph.ir import Builder, Network
from tilework.graph.sparse import densify, sparse_layers, sparsify
from tilework.measure import Candidate, Measurer
from tilework.measure.inputs import draw_inputs
from tilework.measure.verify import make_reference
from tilework.ops.bsr import prune
from tilework.record import Status
from tilework.space import SearchSpace
from tilework.space.sparse import SPARSE_RULES
from tilework.task import rules_of

TARGET = "llvm -num-cores=2"


def small_net(layout: str = "NHWC", zeros: float | None = None) -> Network:
    """conv1x1 + batch norm + relu, a strided conv1x1 added to it, conv3x3, pooling, dense."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        w = rng.uniform(-1, 1, shape).astype(np.float32)
        return prune(w, zeros, (16, 1), rng) if zeros is not None else w

    def taps(w: np.ndarray, k: int = 1) -> str:
        w = np.repeat(np.repeat(w[:, :, None, None], k, 2), k, 3)
        w = w.transpose(2, 3, 1, 0) if layout == "NHWC" else w
        return b.constant(np.ascontiguousarray(w), "w")

    b = Builder("small")
    last = layout == "NHWC"
    x = b.input("data", (1, 8, 6, 16) if last else (1, 16, 8, 6))
    window = {"dilation": (1, 1), "layout": layout, "pads": (0,) * 4}
    y = b.op("conv2d", x, taps(weight(24, 16)), strides=(2, 2), **window)
    stats = [b.constant(rng.uniform(0.5, 1, 24).astype(np.float32), "s") for _ in range(4)]
    y = b.op("batch_norm", y, *stats, axis=3 if last else 1, epsilon=1e-5)
    other = b.op("conv2d", x, taps(weight(24, 16)), strides=(2, 2), **window)
    y = b.op("relu", b.op("add", y, other))
    y = b.op("conv2d", y, taps(weight(20, 24), 3), strides=(1, 1), **{**window, "pads": (1,) * 4})
    y = b.op("global_avg_pool", y, layout=layout)
    y = b.op("reshape", y, shape=(1, 20))
    y = b.op("dense", y, b.constant(weight(40, 20), "w"))
    y = b.op("add", y, b.constant(rng.uniform(-1, 1, (40,)).astype(np.float32), "bias"))
    return b.finish([b.op("softmax", y, axis=-1)])


def run(net: Network) -> np.ndarray:
    x = np.random.default_rng(7).uniform(-1, 1, next(iter(net.inputs.values())).shape)
    return tw.compile(net, TARGET).run({"data": x.astype(np.float32)})[0]


class TestSparsify:
    @pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
    @pytest.mark.parametrize("block", [(16, 1), (4, 2), (1, 1)])
    def test_computes_what_the_dense_form_computes(self, layout, block):
        net = sparsify(small_net(layout), 0.7, block)
        layers = sparse_layers(net)
        assert [layer.op for layer in layers] == ["sparse_conv", "sparse_conv", "sparse_dense"]
        assert all(0.2 < layer.density < 0.4 for layer in layers)
        np.testing.assert_allclose(run(net), run(densify(net)), atol=1e-5)

    def test_own_zeros_change_nothing(self):
        net = small_net(zeros=0.8)
        sparse = sparsify(net)
        assert len(sparse_layers(sparse)) == 3
        np.testing.assert_allclose(run(sparse), run(net), atol=1e-5)

    def test_layers_without_zeros_stay_dense(self):
        with pytest.raises(NetworkError, match="50% or more blocks of zeros"):
            sparsify(small_net())

    @pytest.mark.skipif(
        "avx512bf16" not in tw.Target("llvm").features, reason="this CPU lacks avx512bf16"
    )
    def test_bfloat16_beside_sparse_layers(self):
        net = sparsify(small_net(), 0.5)
        x = np.random.default_rng(7).uniform(-1, 1, (1, 8, 6, 16)).astype(np.float32)
        narrow = tw.compile(net, TARGET, precision="bf16").run({"data": x})[0]
        np.testing.assert_allclose(narrow, run(net), atol=2e-2)

    def test_random_blocks_have_a_seed(self):
        nets = [sparsify(small_net(), 0.5, method="random", seed=s) for s in (3, 3, 4)]
        one, same, other = ([*net.constants.values()] for net in nets)
        assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
        assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))

    def test_channels_first_without_other_convolutions(self):
        rng = np.random.default_rng(0)
        b = Builder("first")
        x = b.input("data", (2, 12, 5, 7))
        w = b.constant(rng.uniform(-1, 1, (33, 12, 1, 1)).astype(np.float32), "w")
        window = {"strides": (1, 2), "pads": (0,) * 4, "dilation": (1, 1), "layout": "NCHW"}
        net = b.finish([b.op("relu", b.op("conv2d", x, w, **window))])
        c = Builder("sparse")
        dense = sparsify(net, 0.5, (8, 1))
        assert dense.types[dense.outputs[0]].shape == net.types[net.outputs[0]].shape
        # the operator itself in that layout, as a network that was never converted has it
        layer = next(n for n in dense.nodes if n.op == "sparse_conv")
        x = c.input("data", (2, 12, 5, 7))
        arrays = [c.constant(dense.constants[v], v) for v in layer.inputs[1:]]
        y = c.op("sparse_conv", x, *arrays, units=33, strides=(1, 2), axis=1)
        np.testing.assert_allclose(run(c.finish([c.op("relu", y)])), run(dense), atol=1e-5)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"sparsity": 1.0}, "not between 0 and 1"),
            ({"sparsity": 0.5, "block": (128, 1)}, "rows must be 1 to 64"),
            ({"sparsity": 0.5, "block": (1, 7)}, "no dense layer"),
            ({"sparsity": 0.5, "method": "best"}, "unknown"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, arguments, message):
        with pytest.raises(NetworkError, match=message):
            sparsify(small_net(), **arguments)

    def test_export_is_dense(self, tmp_path):
        net = sparsify(tw.zoo.get("mlp", image_shape=(1, 4, 4)), 0.5)
        net.to_onnx(tmp_path / "net.onnx")
        again = tw.from_onnx(tmp_path / "net.onnx")
        assert [n.op for n in again.nodes if "sparse" in n.op] == []
        np.testing.assert_allclose(run(again), run(net), atol=1e-5)


class TestTasks:
    def test_tasks_have_rules_and_the_networks_own_indices(self):
        net = sparsify(small_net(), 0.7)
        tasks, _ = tw.extract_tasks(net, TARGET)
        sparse = [t for t in tasks if t.rules]
        assert len(sparse) == 3
        for task in sparse:
            assert task.rules == rules_of(task.workload_key) == SPARSE_RULES
            assert task.real_flops < 0.5 * task.flops
            assert "% of 16x1" in task.desc
            assert len(task.inputs) == 2
        assert rules_of(tasks[-1].workload_key) == ()

    def test_equal_structures_share_a_workload(self):
        nets = [sparsify(small_net(), 0.7, method="random", seed=s) for s in (0, 1)]
        keys = [[t.workload_key for t in tw.extract_tasks(n, TARGET)[0]] for n in nets]
        assert keys[0] == keys[1]
        other = tw.extract_tasks(sparsify(small_net(), 0.6), TARGET)[0]
        assert {t.workload_key for t in other if t.rules}.isdisjoint(keys[0])

    def test_rules_of_strangers_are_not_imported(self):
        for name in ("os:system", "tilework.nothing:rule"):
            with pytest.raises(ScheduleError, match="build its task yourself"):
                rules_of(f'["0", [1], {{"rules": ["{name}"]}}]')

    def test_inputs_must_fit(self):
        task = next(t for t in tw.extract_tasks(sparsify(small_net(), 0.7), TARGET)[0] if t.rules)
        with pytest.raises(ScheduleError, match="is no input of the task"):
            tw.SearchTask(task.compute_dag, task.target, inputs={"p9": np.zeros(3, np.int32)})


class TestMeasurement:
    def test_structures_are_the_tasks_own_or_drawn_in_range(self):
        task = next(t for t in tw.extract_tasks(sparsify(small_net(), 0.7), TARGET)[0] if t.rules)
        dag = task.compute_dag
        position = [t.name for t in dag.inputs]
        own = draw_inputs(dag, 0, -1.0, task.inputs)
        drawn, again = (draw_inputs(dag, 0, -1.0, {}) for _ in range(2))
        for name, array in task.inputs.items():
            at = position.index(name)
            np.testing.assert_array_equal(own[at], array)
            np.testing.assert_array_equal(drawn[at], again[at])
            assert drawn[at].shape == array.shape
            assert drawn[at].max() <= array.max() + len(array)
        make_reference(dag, 0)  # every read is in range: `te.evaluate` checks it

    def test_candidates_are_verified_and_timed(self):
        tasks = tw.extract_tasks(sparsify(small_net(), 0.7), TARGET)[0]
        task = next(t for t in tasks if t.rules)
        sketch = SearchSpace.of(task).sketches[0]
        rows = sketch.sample(np.random.default_rng(0), 4)
        with Measurer(task.target, build_processes=1, min_repeat_ms=0.1) as measurer:
            found = measurer.measure(
                task, [Candidate(0, tuple(map(int, r)), 0.0, "") for r in rows]
            )
        assert all(m.status is Status.ok for m in found), [m.error for m in found]
