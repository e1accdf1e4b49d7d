"""What a compiled module takes, returns, refuses and tells."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

from tilework import compile as compile_network
from tilework.errors import ModuleError
from tilework.graph import Builder
from tilework.runtime.arrays import aligned_copy


def test_inputs_may_be_named_or_positional(mlp_module, image):
    named = mlp_module.run({"data": image})
    assert np.array_equal(named[0], mlp_module.run(image)[0])


def test_memory_order_and_alignment_of_inputs_do_not_matter(mlp_module, image):
    expected = mlp_module.run(image)[0]
    odd = np.empty(image.size + 1, np.float32)[1:].reshape(image.shape)
    odd[...] = image
    for given in (odd, aligned_copy(image), np.asfortranarray(image)):
        assert np.array_equal(mlp_module.run(given)[0], expected)


def test_outputs_are_new_arrays(mlp_module, image):
    first = mlp_module.run(image)[0]
    kept = first.copy()
    mlp_module.run(-image)
    assert np.array_equal(first, kept)


@pytest.mark.parametrize(
    "inputs, told",
    [
        ({}, "missing data"),
        ({"x": 1}, "missing data and unknown x"),
        (None, "missing data"),
        ({"data": np.zeros((2, 7), "float32")}, r"expected float32\[2, .*got float32\[2, 7\]"),
        ({"data": [[1.0, 2.0]]}, r"expected float32.*got float64\[1, 2\]"),
    ],
)
def test_bad_inputs_are_named(mlp_module, inputs, told):
    with pytest.raises(ModuleError, match=told):
        mlp_module.run(inputs)


def test_wrong_type_is_refused(mlp_module, image):
    with pytest.raises(ModuleError, match="got float64"):
        mlp_module.run(image.astype("float64"))


def test_too_many_inputs_are_refused(mlp_module, image):
    with pytest.raises(ModuleError, match="unknown number 2"):
        mlp_module.run(image, image)


def test_threads(mlp_module, image, target):
    assert mlp_module.num_threads == target.num_cores
    with pytest.raises(ModuleError, match="at least 1"):
        mlp_module.set_threads(0)
    assert mlp_module.num_threads == target.num_cores


def test_several_python_threads_may_run_one_module(mlp_module, image):
    expected = mlp_module.run(image)[0]
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(mlp_module.run(image)[0], expected):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_benchmark_prints_as_people_know_it(mlp_module):
    result = mlp_module.benchmark(repeat=2, min_repeat_ms=1, threads=1)
    assert len(result.results) == 2
    assert 0 < result.min <= result.median <= result.max
    head, names, values = str(result).splitlines()
    assert head == "Execution time summary:"
    assert names == " mean (ms)   median (ms)    max (ms)     min (ms)     std (ms)  "
    assert re.fullmatch(r"( +\d+\.\d{4}){5} *", values)


def test_profile_has_a_row_per_call(mlp_module):
    rows = mlp_module.profile(repeat=2, threads=1)
    assert len(rows) == len(mlp_module.image.steps)
    assert sum(r.share for r in rows) == pytest.approx(1)
    assert all(r.time_ms > 0 for r in rows)


def test_summary_and_report(mlp_module):
    assert "0 of 4 tasks tuned" in mlp_module.summary()
    assert [r.source for r in mlp_module.report] == ["untuned"] * len(mlp_module.report)
    assert all(r.latency_s is None and r.gflops is None for r in mlp_module.report)


def test_several_outputs_views_and_repeats(target):
    b = Builder("several")
    x = b.input("x", (2, 6))
    y = b.op("relu", x)
    z = b.op("reshape", y, shape=(3, 4))
    w = b.op("add", y, y)
    module = compile_network(b.finish([y, z, w, y, x]), target)
    x_value = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    outputs = module.run(x_value)
    y_value = np.maximum(x_value, 0)
    expected = [y_value, y_value.reshape(3, 4), 2 * y_value, y_value, x_value]
    for ours, theirs in zip(outputs, expected, strict=True):
        assert ours.shape == theirs.shape
        assert np.array_equal(ours, theirs)
    for i, a in enumerate(outputs):
        assert not any(np.shares_memory(a, b) for b in outputs[:i])


def test_computed_operands_need_no_packing(target):
    b = Builder("product")
    x, y = b.input("x", (5, 7)), b.input("y", (7, 9))
    module = compile_network(b.finish([b.op("matmul", x, y)]), target)
    rng = np.random.default_rng(0)
    xs, ys = rng.random((5, 7), np.float32), rng.random((7, 9), np.float32)
    assert np.allclose(module.run(xs, ys)[0], xs @ ys, rtol=1e-5)
    assert np.allclose(module.run({"y": ys, "x": xs})[0], xs @ ys, rtol=1e-5)
