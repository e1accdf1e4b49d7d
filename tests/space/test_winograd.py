"""The Winograd rewriting: where it applies, that it is right, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

from tilework import te
from tilework.codegen import aligned_copy, aligned_empty, build, load_kernel
from tilework.space import SearchSpace
from tilework.space.winograd import WeightTransform, winograd_variants
from tilework.target import Target
from tilework.task import SearchTask


def conv(size, cin, cout, *, kernel=3, stride=1, pad=1, free=True, relu=True):
    data = te.placeholder((1, size, size, cin), "p0")
    weight = te.placeholder((kernel, kernel, cin, cout), "p1")
    full = size + 2 * pad
    inside = te.compute(
        (1, full, full, cin),
        lambda n, h, w, c: te.if_then_else(
            te.all(h >= pad, h < size + pad, w >= pad, w < size + pad),
            data[n, h - pad, w - pad, c],
            0.0,
        ),
        "pad_temp",
    )
    source = inside if pad else data
    ry, rx = te.reduce_axis(kernel, "ry"), te.reduce_axis(kernel, "rx")
    rc = te.reduce_axis(cin, "rc")
    out = (full - kernel) // stride + 1
    result = te.compute(
        (1, out, out, cout),
        lambda n, y, x, f: te.sum(
            source[n, y * stride + ry, x * stride + rx, rc] * weight[ry, rx, rc, f],
            axis=[ry, rx, rc],
        ),
        "conv",
        {"layout_free": ("p1",)} if free else {},
    )
    if relu:
        plain = result
        result = te.compute(plain.shape, lambda n, y, x, f: te.relu(plain[n, y, x, f]), "T_relu")
    return te.ComputeDAG([data, weight, result])


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("size,pad", [(8, 1), (7, 1), (13, 0), (5, 2)])
def test_the_rewritten_dag_computes_the_same(tile, size, pad):
    dag = conv(size, 16, 19, pad=pad)
    (variant,) = winograd_variants(dag, (tile,))
    rng = np.random.default_rng(0)
    data, weight = (rng.uniform(-1, 1, t.shape).astype("float32") for t in dag.inputs)
    (want,) = te.evaluate(dag, [data, weight])
    transformed = variant.transforms["p1"].apply(weight)
    assert transformed.shape == (tile + 2, tile + 2, 16, 19)
    (got,) = te.evaluate(variant.dag, [data, transformed])
    assert np.abs(got - want).max() < 2e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": 1, "pad": 0},
        {"kernel": 5, "pad": 2},
        {"stride": 2},
        {"free": False},
        {"cin": 3},
    ],
)
def test_it_applies_to_wide_constant_3x3_stride_1_convolutions_only(arguments):
    arguments = {"size": 8, "cin": 16, "cout": 16} | arguments
    assert winograd_variants(conv(**arguments)) == []


@pytest.mark.parametrize("target", ["llvm -num-cores=2", "llvm -mcpu=core-avx2 -num-cores=2"])
@pytest.mark.parametrize("size,cin,cout,relu", [(9, 16, 40, True), (14, 17, 16, False)])
def test_generated_code_agrees_with_the_direct_form(target, size, cin, cout, relu):
    task = SearchTask(conv(size, cin, cout, relu=relu), Target(target))
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-1, 1, t.shape).astype("float32") for t in task.compute_dag.inputs]
    (want,) = te.evaluate(task.compute_dag, inputs)
    sketches = [s for s in SearchSpace.of(task).sketches if s.transforms]
    assert len(sketches) == 2
    for sketch in sketches:
        for row in sketch.sample(rng, 4):
            kernel = build(task, sketch.id, row)
            arrays = [
                aligned_copy(a.packing.apply(x) if a.packing else x)
                for a, x in zip(kernel.args, inputs, strict=False)
            ]
            got = aligned_empty(want.shape, "float32")
            workspace = aligned_empty((kernel.workspace_bytes(2),), "uint8")
            for threads in (1, 2):
                got.fill(np.nan)
                workspace.fill(0xFF)
                load_kernel(kernel)([*arrays, got], workspace, threads)
                assert np.abs(got - want).max() < 1e-4 * np.abs(want).max(), (sketch.name, row)


def test_weights_are_transformed_before_they_are_cut():
    weight = np.zeros((3, 3, 1, 1), "float32")
    weight[1, 1] = 1
    u = WeightTransform(2).apply(weight)[:, :, 0, 0]
    column = np.array([0, 0.5, -0.5, 0], "float32")
    np.testing.assert_allclose(u, np.outer(column, column))
