"""Reductions, positions of extrema, normalisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.graph.operator_cases import Cases
from tilework.errors import NetworkError
from tilework.graph.ir import Builder

SUMS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("opset", [13, 18])
def test_reductions_over_any_axes(seed: int, opset: int, tmp_path: Path) -> None:
    r = np.random.default_rng([seed, opset])
    c = Cases(opset)
    for op in SUMS:
        rank = int(r.integers(1, 6))
        shape = tuple(int(n) for n in r.integers(1, 7 if rank > 2 else 80, rank))
        count = int(r.integers(0, rank + 1))
        axes = [int(d) - rank * (d % 2) for d in r.permutation(rank)[:count]]
        x = c.input(r.uniform(0.2, 1.6, shape).astype(np.float32))
        keep = int(r.integers(0, 2))
        if not axes:
            c.node(op, x, keepdims=keep)
        elif opset < 18 and op != "ReduceSum":
            c.node(op, x, axes=axes, keepdims=keep)
        else:
            c.node(op, x, c.constant(axes, "int64"), keepdims=keep)
    c.check(tmp_path)


def test_reductions_of_other_types(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases(20)
    for dtype in ("int32", "int64", "float64"):
        x = c.input(r.integers(-5, 9, (3, 4, 21)).astype(dtype))
        for op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean"):
            if op != "ReduceMean" or dtype == "float64":
                c.node(op, x, c.constant([1, 2][: 1 if op == "ReduceProd" else 2], "int64"))
    small = c.input(r.integers(-5, 9, (3, 40)).astype("int8"))
    c.node("ReduceMax", small, c.constant([1], "int64"))
    flags = c.input(r.random((3, 5)) < 0.3)
    c.node("ReduceMax", flags, c.constant([1], "int64"))
    c.node("ReduceMin", flags, c.constant([0], "int64"), keepdims=0)
    x = c.input(r.normal(size=(3, 5)).astype("float32"))
    c.node("ReduceSum", x, c.constant([], "int64"), noop_with_empty_axes=1)
    c.check(tmp_path, export=False)


def test_log_sum_exp_of_large_and_infinite(tmp_path: Path) -> None:
    c = Cases()
    x = c.input(np.array([[1000, 999, -1e4], [-np.inf] * 3, [-np.inf, 5, 2]], np.float32))
    c.node("ReduceLogSumExp", x, axes=[1])
    c.node("LogSoftmax", c.input(np.array([[1000, 999, -900]], np.float32)))
    c.check(tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_positions_of_extrema(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    c = Cases()
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            shape = tuple(int(n) for n in r.integers(1, 30, int(r.integers(1, 4))))
            x = c.input(r.integers(-4, 5, shape).astype("int32" if last else "float32"))
            axis = int(r.integers(-len(shape), len(shape)))
            keep = int(r.integers(0, 2))
            c.node(op, x, axis=axis, keepdims=keep, select_last_index=last)
    c.check(tmp_path)


@pytest.mark.parametrize("opset", [11, 13])
def test_distributions(opset: int, tmp_path: Path) -> None:
    r = np.random.default_rng(opset)
    c = Cases(opset)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (0, -1) if opset == 13 else (1,):
            shape = tuple(int(n) for n in r.integers(2, 20, 3))
            c.node(op, c.input(3 * r.standard_normal(shape).astype(np.float32)), axis=axis)
        c.node(op, c.input(r.standard_normal((4, 7)).astype(np.float32)))
    c.check(tmp_path, export=opset >= 13)


def test_normalisations(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases(21)

    def f32(*shape: int) -> str:
        return c.input((1 + r.standard_normal(shape)).astype(np.float32))

    c.node("LayerNormalization", f32(3, 5, 32), f32(32), f32(32))
    c.node("LayerNormalization", f32(3, 5, 32), f32(5, 32), axis=1, epsilon=0.1)
    c.node("LayerNormalization", f32(3, 35), f32(35), f32(35), outputs=3)
    c.node("InstanceNormalization", f32(2, 3, 6, 7), f32(3), f32(3))
    c.node("InstanceNormalization", f32(2, 5, 9), f32(5), f32(5), epsilon=1e-3)
    c.node("GroupNormalization", f32(2, 6, 5, 7), f32(6), f32(6), num_groups=3)
    c.node("GroupNormalization", f32(2, 6, 9), f32(6), f32(6), num_groups=6, epsilon=1e-2)
    c.node("GroupNormalization", f32(1, 4, 3, 3), f32(4), f32(4), num_groups=1)
    c.node("MeanVarianceNormalization", f32(2, 3, 5, 4))
    c.node("MeanVarianceNormalization", f32(2, 3, 5, 4), axes=[-1, 1])
    for p in (1, 2):
        c.node("LpNormalization", f32(3, 9, 4), axis=1, p=p)
    for size, beta in ((3, 0.75), (5, 0.5), (7, 0.3), (1, 1.0)):
        c.node("LRN", f32(2, 9, 3, 4), size=size, beta=beta, alpha=0.02, bias=1.5)
    stats = [f32(4), f32(4), f32(4), c.input(r.uniform(0.5, 2, 4).astype(np.float32))]
    c.node("BatchNormalization", f32(2, 4, 3, 3), *stats)
    c.check(tmp_path, rtol=2e-5)


def test_bad_axes() -> None:
    b = Builder("bad")
    x = b.input("x", (2, 3, 4))
    for op, attrs, message in (
        ("reduce_sum", {"axes": (3,), "keepdims": True}, "axis 3 does not exist"),
        ("reduce_sum", {"axes": (1, -2), "keepdims": True}, "name a dimension twice"),
        ("argmax", {"axis": -4, "keepdims": True}, "axis -4 does not exist"),
        ("softmax", {"axis": 3}, "axis 3 does not exist"),
        ("normalize", {"axes": (), "epsilon": 1e-5, "center": True}, "no dimension to normalise"),
        ("normalize", {"axes": (1,), "epsilon": -1.0, "center": True}, "must not be negative"),
        ("group_norm", {"groups": 2, "epsilon": 1e-5, "layout": "NCHW"}, "2 groups do not divide"),
    ):
        with pytest.raises(NetworkError, match=message):
            b.op(op, x, **attrs)
