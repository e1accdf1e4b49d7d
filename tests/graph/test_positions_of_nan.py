"""Positions of extrema among NaN: valid, never twice, ONNX Runtime's where it has a rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import tilework as tw
from tests.graph.operator_cases import TARGET, Cases
from tests.graph.run_plan import run_plan
from tilework.graph import from_onnx

NAN, INF = np.nan, np.inf
ROWS = np.array([
    [NAN, NAN, NAN, NAN], [NAN, 1, 2, 0], [1, NAN, 2, NAN], [2, NAN, 1, 2], [1, 2, 2, NAN],
    [INF, INF, NAN, 0], [-INF, -INF, NAN, NAN], [-INF, -INF, -INF, -INF], [NAN, -INF, NAN, NAN],
    [0, -1, NAN, -1], [3, 4, 1, 2],
])  # fmt: skip


def outputs(c: Cases, tmp_path: Path) -> list[list[np.ndarray]]:
    """Outputs of the compiled network, and of its plan evaluated."""
    path = tmp_path / "cases.onnx"
    onnx.save(c.model(), path)
    net = from_onnx(path)
    module = tw.compile(net, TARGET)
    arrays = [c.inputs[n] for n in net.inputs]
    return [list(module.run(dict(zip(net.inputs, arrays, strict=True)))), run_plan(net, *arrays)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_arg_extrema(dtype: str, tmp_path: Path) -> None:
    c = Cases()
    x, turned = c.input(ROWS.astype(dtype)), c.input(np.ascontiguousarray(ROWS.astype(dtype).T))
    for op in ("ArgMax", "ArgMin"):
        for last in (0, 1):
            c.node(op, x, axis=1, keepdims=0, select_last_index=last)
            c.node(op, turned, axis=0, keepdims=1, select_last_index=last)
    if dtype == "float32":
        c.node("Hardmax", x)
    c.check(tmp_path)


def ranking(row: np.ndarray, largest: bool) -> list[int]:
    """Numbers in order, then NaN, equal ones by index."""
    number = [i for i in range(len(row)) if row[i] == row[i]]
    rest = [i for i in range(len(row)) if row[i] != row[i]]
    return [*sorted(number, key=lambda i: -row[i] if largest else row[i]), *rest]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_top_k(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([ROWS, rng.choice(ROWS[:, 0], (40, 4))]).astype(dtype)
    c = Cases()
    x = c.input(rows)
    ks = [(k, largest) for k in (1, 3, 4) for largest in (0, 1)]
    for k, largest in ks:
        c.node("TopK", x, c.constant([k], "int64"), outputs=2, largest=largest)
    for found in outputs(c, tmp_path):
        for (k, largest), values, places in zip(ks, found[::2], found[1::2], strict=True):
            want = np.array([ranking(row, bool(largest))[:k] for row in rows])
            np.testing.assert_array_equal(places, want)
            np.testing.assert_array_equal(values, np.take_along_axis(rows, want, 1))


@pytest.mark.parametrize("pads", [[0, 0], [1, 1]])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_max_pool(dtype: str, pads: list[int], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    if dtype == "float32":
        x = rng.choice(
            np.array([NAN, -INF, 1, 2, 3], dtype), (2, 3, 40), p=[0.5, 0.3, 0.1, 0.05, 0.05]
        )
        x[0, 0] = NAN
        x[0, 1] = -INF
    else:
        x = rng.choice(np.array([np.iinfo(dtype).min, 3, 4]), (2, 3, 40)).astype(dtype)
    c = Cases()
    c.node("MaxPool", c.input(x), outputs=2, kernel_shape=[3], pads=pads)
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (pads[0], pads[1])), constant_values=NAN)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)
    steps = np.arange(windows.shape[2]) - pads[0]
    for values, places in outputs(c, tmp_path):
        lowest = max(float(np.finfo(dtype).min) if dtype == "float32" else -INF, -INF)
        best = np.fmax(np.fmax.reduce(windows, axis=3, initial=-INF), lowest)
        if dtype == "float32":
            np.testing.assert_array_equal(np.fmax(values, np.float32(lowest)), best)
        else:
            np.testing.assert_array_equal(values, best)
        inside = places - 40 * np.arange(6).reshape(2, 3, 1)
        first, last = np.maximum(steps, 0), np.minimum(steps + 2, 39)
        assert ((inside >= first) & (inside <= last)).all()
        chosen = x.reshape(-1)[places]
        found = best > lowest
        np.testing.assert_array_equal(chosen[found], best[found])
        assert (inside == first)[~found & (dtype == "float32")].all()
