"""Pooling with all its attributes against ONNX Runtime, adaptive pooling against NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tilework as tw
from tests.graph.operator_cases import Cases
from tilework.errors import NetworkError, UnknownExtent
from tilework.graph.ir import Builder
from tilework.graph.operators.windows import ceil_pads, same_pads
from tilework.index.symbols import symbol


@pytest.mark.parametrize("seed", range(4))
def test_all_attributes(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    c = Cases(opset=19)
    for rank in (1, 2, 3):
        for op in ("MaxPool", "AveragePool", "LpPool"):
            kernel = r.integers(1, 4, rank).tolist()
            dilation = r.integers(1, 3, rank).tolist()
            reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
            attrs = {"kernel_shape": kernel, "strides": r.integers(1, 4, rank).tolist()}
            if seed == 3:
                attrs["auto_pad"] = ("SAME_UPPER", "SAME_LOWER", "VALID")[rank - 1]
            else:
                attrs["dilations"] = dilation
                bounds = [min(k, e) for k, e in zip(kernel, reach, strict=True)]
                attrs["pads"] = [int(r.integers(0, n)) for n in (*bounds, *bounds)]
                attrs["ceil_mode"] = seed % 2
            if op == "AveragePool":
                attrs["count_include_pad"] = int(seed in (1, 2))
            if op == "LpPool":
                attrs["p"] = 1 + seed % 3
            size = [int(n) for n in r.integers(6, 10, rank)]
            x = c.input(r.standard_normal((2, 3, *size)).astype(np.float32))
            indices = op == "MaxPool" and seed != 3
            if indices and rank == 2:
                attrs["storage_order"] = seed % 2
            c.node(op, x, outputs=1 + indices, **attrs)
    x = c.input(r.standard_normal((2, 3, 4, 5)).astype(np.float32))
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        c.node(op, x)
    c.node("GlobalLpPool", x, p=3)
    c.check(tmp_path, export=False)


def test_export(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases()
    x = c.input(r.standard_normal((1, 3, 8, 7)).astype(np.float32))
    c.node("LpPool", x, kernel_shape=[2, 3], p=3)
    c.node("MaxPool", x, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
    c.node("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
    c.check(tmp_path)


def test_bytes(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases()
    x = c.input(r.integers(0, 255, (1, 2, 5, 6)).astype(np.uint8))
    c.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    c.check(tmp_path, export=False)


def check_adaptive(got: Sequence[np.ndarray], maps: np.ndarray, wanted: tuple[int, ...]) -> None:
    """Means and maxima of the windows of maps [N, ..., C]."""
    axes = tuple(range(1, len(wanted) + 1))
    for array, function in zip(got, (np.mean, np.max), strict=True):
        want = np.empty((len(maps), *wanted, maps.shape[-1]), np.float32)
        for at in np.ndindex(*wanted):
            box = tuple(
                slice(i * n // m, -(-(i + 1) * n // m))
                for i, n, m in zip(at, maps.shape[1:-1], wanted, strict=True)
            )
            want[(slice(None), *at)] = function(maps[(slice(None), *box)], axis=axes)
        np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_adaptive(layout: str) -> None:
    r = np.random.default_rng(1)
    for size, wanted in (((7,), (3,)), ((7, 2), (2, 4)), ((4, 6), (4, 2)), ((3, 5, 4), (2, 2, 3))):
        b = Builder("adaptive")
        shape = (2, *size, 3) if layout == "NHWC" else (2, 3, *size)
        x = b.input("x", shape)
        outs = [b.op(f"adaptive_{k}_pool", x, size=wanted, layout=layout) for k in ("avg", "max")]
        a = r.standard_normal(shape).astype(np.float32)
        got = tw.compile(b.finish(outs), "llvm -mcpu=native").run(a)
        if layout == "NCHW":
            a, got = np.moveaxis(a, 1, -1), [np.moveaxis(y, 1, -1) for y in got]
        check_adaptive(got, a, wanted)


def test_adaptive_of_any_size() -> None:
    r = np.random.default_rng(2)
    b, wanted = Builder("adaptive"), (3, 4)
    x = b.input("x", (2, symbol("h", 1, 40, (16,)), symbol("w", 2, 30, (16,)), 3))
    outs = [b.op(f"adaptive_{k}_pool", x, size=wanted, layout="NHWC") for k in ("avg", "max")]
    module = tw.compile(b.finish(outs), "llvm -mcpu=native")
    for size in ((1, 2), (9, 7), (16, 16), (40, 29)):
        a = r.standard_normal((2, *size, 3)).astype(np.float32)
        check_adaptive(module.run(a), a, wanted)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("reach", [1, 2, 3, 6])
def test_pads_of_any_size_make_as_many_windows_as_those_of_each(reach: int, stride: int) -> None:
    """Where a run decides the size; or it has to be known."""

    def windows(size: int, pads: tuple[int, ...]) -> int:
        return (size + sum(pads) - reach) // stride + 1

    n = symbol("n", 1, 1000, [64])
    for upper in (False, True):
        alone = {size: same_pads(size, reach, stride, upper) for size in range(1, 40)}
        assert all(windows(size, p) == -(-size // stride) for size, p in alone.items())
        if len({before for before, _ in alone.values()}) == 1:
            pads = same_pads(n, reach, stride, upper)
            assert all(windows(size, pads) == windows(size, p) for size, p in alone.items())
            assert pads[0] == alone[1][0]
        else:
            with pytest.raises(UnknownExtent):
                same_pads(n, reach, stride, upper)
        assert same_pads(30 * n, reach, stride, upper) == alone[30]
    for before, end in itertools.product(range(reach), range(reach)):
        given = (reach,), (stride,), (before, end), (1,)
        for size in range(max(1, reach - before - end), 40):
            room = size + before + end - reach
            count = -(-room // stride) + 1
            count -= (count - 1) * stride >= size + before  # it would start in the padding
            assert windows(size, ceil_pads([size], *given)) == count
            if end + stride <= reach:
                assert windows(size, ceil_pads([n], *given)) == count


def test_bad_pooling() -> None:
    b = Builder("bad")
    x = b.input("x", (1, 5, 5, 2))
    window = {"kernel": (2, 2), "strides": (1, 1), "pads": (0,) * 4, "dilation": (1, 1)}
    for op, attrs, message in (
        ("lp_pool2d", {**window, "p": 0}, "it must be positive"),
        ("max_pool2d", {**window, "pads": (2, 0, 0, 0)}, "the padding is as large as the window"),
        ("max_pool2d", {**window, "pads": (0, 0, 2, 0)}, "the padding is as large as the window"),
        ("adaptive_avg_pool", {"size": (5, 0)}, r"cannot pool \[5, 5\] to \[5, 0\]"),
    ):
        with pytest.raises(NetworkError, match=message):
            b.op(op, x, layout="NHWC", **attrs)
