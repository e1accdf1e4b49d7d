"""Modules whose runs repeat calls: their files, and what is refused of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilework as tw
from tests.runtime.test_archive import MODULES, rewrite
from tilework.errors import ModuleError
from tilework.runtime import Module
from tilework.runtime.repeats import Repeat, moving, trips_of

W = np.array([[[1, 0], [-1, 1], [0, 2]]], np.float32) / 2
R = np.array([[[0, 1, 0], [1, 0, 1], [0, -1, 1]]], np.float32) / 2
TARGET = "reference -num-cores=1"


def model() -> onnx.ModelProto:
    """Steps of a batch of 2, the last one first."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["t", 2, 2])]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "last")]
    node = helper.make_node(
        "RNN", ["x", "w", "r"], ["y", "last"], hidden_size=3, direction="reverse"
    )
    weights = [numpy_helper.from_array(a, n) for n, a in (("w", W), ("r", R))]
    graph = helper.make_graph([node], "steps", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h, out = np.zeros((2, 3), np.float32), np.zeros((len(x), 1, 2, 3), np.float32)
    for t in reversed(range(len(x))):
        h = out[t, 0] = np.tanh(x[t] @ W[0].T + h @ R[0].T)
    return out, h[None]


def check(module: Module) -> None:
    rng = np.random.default_rng(0)
    for steps in (1, 9, 4):
        x = rng.standard_normal((steps, 2, 2), np.float32)
        for got, want in zip(module.run(x), expected(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def module() -> Module:
    return tw.compile(tw.from_onnx(model(), {"t": "1..9"}), TARGET)


def test_a_file_of_the_abi_that_has_repeats(module: Module, tmp_path: Path) -> None:
    check(module)
    check(tw.load_module(MODULES / "abi6.tw"))
    path = tmp_path / "odd.tw"
    module.save(path)
    check(tw.load_module(path))
    rewrite(path, lambda m: m.update(abi_version=5))
    with pytest.raises(ModuleError, match="repeats beside ABI version 5"):
        tw.load_module(path)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"first": 99}, "repeats of 1 steps from 99 on"),
        ({"count": 0}, "repeats of 0 steps"),
        ({"trips": -1}, "-1 trips"),
        ({"advances": [0]}, "1 advances for 4"),
        ({"advances": [0, 0, 0, "t"]}, "damaged"),
    ],
)
def test_damaged_files(module: Module, tmp_path: Path, changed: dict[str, Any], text: str) -> None:
    path = tmp_path / "odd.tw"
    module.save(path)
    rewrite(path, lambda m: m["image"]["repeats"][0].update(changed))
    with pytest.raises(ModuleError, match=text):
        tw.load_module(path)


@pytest.mark.parametrize("target", [TARGET, "llvm -mcpu=native -num-cores=1"])
def test_the_last_trip_is_proved_to_lie_in_its_block(target: str) -> None:
    image = tw.compile(tw.from_onnx(model(), {"t": "1..9"}), target).image
    (repeat,) = image.repeats
    x = np.zeros((4, 2, 2), np.float32)
    further = tuple(2 * n for n in repeat.advances)
    back = tuple(-n for n in repeat.advances)
    for odd in (
        replace(repeat, trips=repeat.trips + 1),
        replace(repeat, advances=further),
        replace(repeat, advances=back),
    ):
        with pytest.raises(ModuleError, match="a reference leaves its block"):
            Module(replace(image, repeats=(odd,))).run(x)


def test_the_way_to_the_last_trip() -> None:
    repeats = [Repeat(1, 2, 5, (0, 8, -4)), Repeat(4, 1, 1, (16,))]
    assert moving(repeats, [2, 1, 2, 3, 1]) == {3: 32, 4: -16, 8: 0}
    assert repeats[0].numbers == (5, 0, 8, -4)
    assert trips_of(repeats, 6) == [1, 5, 5, 1, 1, 1]
