"""Random numbers with a seed: the same in each run, and distributed as they should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import tilework as tw
from tests.graph.operator_cases import TARGET, Cases
from tests.graph.run_plan import run_plan
from tests.graph.test_onnx_errors import refused
from tilework.graph import from_onnx
from tilework.graph.onnx.convert.random import gaussian, uniform

MANY = 20_000


def drawn(c: Cases, path: Path) -> list[np.ndarray]:
    onnx.save(c.model(), path)
    net = from_onnx(path)
    return run_plan(net, *(c.inputs[n] for n in net.inputs))


def test_the_generator_stays_the_same() -> None:
    """Files mean these numbers, whatever NumPy is installed."""
    np.testing.assert_array_equal(
        uniform(1.5, 3), [0.8253999670705329, 0.4805981505846829, 0.7334097191018301]
    )
    np.testing.assert_allclose(
        gaussian(1.5, 2), [-0.19439789930565274, -0.6214333277025534], rtol=1e-12
    )
    assert (uniform(1.5, 5)[:3] == uniform(1.5, 3)).all() and (
        uniform(2, 3) != uniform(1.5, 3)
    ).all()


def test_distributions(tmp_path: Path) -> None:
    """Kolmogorov's distance of as many numbers is above 0.0138 once in a thousand times."""
    c = Cases(15)
    x = c.input(np.full((200, 100), 0.5, np.float32))
    c.node("RandomUniformLike", x, low=-1.0, high=3.0, seed=1.0)
    c.node("RandomUniform", shape=[MANY], seed=2.0, dtype=TensorProto.DOUBLE)
    c.node("RandomNormalLike", x, mean=2.0, scale=0.5, seed=3.0, dtype=TensorProto.FLOAT16)
    c.node("RandomNormal", shape=[100, 200], seed=4.0)
    found = drawn(c, tmp_path / "m.onnx")
    assert [y.dtype for y in found] == ["float32", "float64", "float16", "float32"]
    assert [y.shape for y in found] == [(200, 100), (MANY,), (200, 100), (100, 200)]
    r = np.random.default_rng(0)
    ends = [(found[0] + 1) / 4, found[1], (found[2].astype(np.float64) - 2) / 0.5, found[3]]
    ranks = np.arange(MANY) / MANY
    for y, normal in zip(ends, (False, False, True, True), strict=True):
        y = np.sort(y.astype(np.float64).ravel())
        if normal:
            many = np.sort(r.standard_normal(2**20))
            y = np.searchsorted(many, y) / many.size
        assert y[0] >= 0 and y[-1] <= 1 and np.abs(y - ranks).max() < 0.0138


def test_choices(tmp_path: Path) -> None:
    c = Cases(15)
    p = np.linspace(0, 1, MANY, dtype=np.float32)
    c.node("Bernoulli", c.input(p), seed=1.0)
    c.node("Bernoulli", c.input(p), seed=1.0, dtype=TensorProto.INT32)
    shares = np.array([[0.1, 0.0, 0.4, 0.5], [1, 1, 1, 1]], np.float32)
    with np.errstate(divide="ignore"):
        logs = c.input(np.log(shares) + 7)
    c.node("Multinomial", logs, sample_size=MANY, seed=3.0, dtype=TensorProto.INT64)
    first, again, classes = drawn(c, tmp_path / "m.onnx")
    assert (first == again).all() and (first.dtype, again.dtype) == ("float32", "int32")
    assert first[0] == 0 and first[-1] == 1 and set(np.unique(first)) == {0, 1}
    assert abs(first.mean() - 0.5) < 0.01 and abs(first[: MANY // 2].mean() - 0.25) < 0.015
    assert classes.dtype == "int64" and classes.shape == (2, MANY)
    for row, share in zip(classes, shares / shares.sum(1, keepdims=True), strict=True):
        counts = np.bincount(row, minlength=4) / MANY
        assert np.abs(counts - share).max() < 0.015 and (counts[share == 0] == 0).all()


def test_each_run_has_the_same(tmp_path: Path) -> None:
    c = Cases(15)
    x = c.input(np.linspace(0, 1, 50, dtype=np.float32))
    c.node("Add", x, c.node("RandomNormalLike", x, seed=1.0))
    c.node("Bernoulli", x, seed=2.0)
    want = drawn(c, tmp_path / "m.onnx")
    module = tw.compile(from_onnx(tmp_path / "m.onnx"), TARGET)
    for _ in range(2):
        for got, w in zip(module.run(c.inputs), want, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "attrs", "why"),
    [
        ("Bernoulli", {}, "it has no seed; set its attribute 'seed'"),
        ("RandomNormalLike", {}, "it has no seed"),
        ("Multinomial", {}, "it has no seed"),
        (
            "RandomUniformLike",
            {"seed": 1.0, "dtype": TensorProto.INT32},
            "random numbers of int32",
        ),
        ("RandomNormal", {"seed": 1.0, "shape": [2**16, 2**16]}, "too many"),
        ("RandomUniform", {"seed": 1.0, "shape": [2, 0]}, "empty"),
    ],
)
def test_what_is_refused(op: str, attrs: dict[str, object], why: str, tmp_path: Path) -> None:
    c = Cases(15)
    c.node(op, *([] if "shape" in attrs else [c.input(np.ones((2, 3), np.float32))]), **attrs)
    assert why in refused(c.model(), tmp_path)
