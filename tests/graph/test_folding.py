"""Operators of constants, evaluated when a file is read, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.graph.operator_cases import Cases
from tilework.errors import NetworkError
from tilework.graph import failures, from_onnx
from tilework.graph.onnx import fold


def gathered(indices: np.ndarray, axis: int, data: np.ndarray | None = None) -> Cases:
    """The sum of an input and of what is gathered from constants."""
    c = Cases()
    if data is None:
        data = np.random.default_rng(0).standard_normal((3, 40, 5)).astype(np.float32)
    y = c.node("GatherElements", c.constant(data), c.constant(indices, "int64"), axis=axis)
    c.node("Add", c.input(np.ones(1, np.float32)), y)
    return c


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_of_constants_are_gathered(axis: int, tmp_path: Path) -> None:
    """The package's own evaluator takes 32 positions at most."""
    extent = (3, 40, 5)[axis]
    indices = np.random.default_rng(1).integers(-extent, extent, (2, 35, 5))
    gathered(indices, axis).check(tmp_path)


@pytest.mark.parametrize("index", [40, -41])
@pytest.mark.parametrize("strict", [False, True])
def test_an_index_out_of_range_is_refused(
    index: int, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "strict", strict)
    with pytest.raises(NetworkError, match=rf"GatherElements: .*indices from .*{index}"):
        from_onnx(gathered(np.full((1, 1, 1), index), 1).model())
    c = Cases()  # of an input, at constant places
    c.node("GatherElements", c.input(np.ones((3, 40), np.float32)), c.constant([[index]], "int64"))
    with pytest.raises(NetworkError, match=r"indices from .* for a dimension of 3"):
        from_onnx(c.model())


OPERATORS = [
    ("Gather", ([3, -1],), {"axis": 1}),
    ("GatherElements", ([[0, 1, -1]],), {"axis": 1}),
    ("Slice", ([1], [3], [1]), {}),
    ("Transpose", (), {"perm": [1, 0]}),
    ("ScatterND", ([[1], [-1]], np.float32([[9] * 4, [8] * 4])), {}),
    ("ScatterElements", ([[1, 0, -1, 2]], np.float32([[7, 6, 5, 4]])), {}),
    ("ReduceSum", ([1],), {"keepdims": 0}),
    ("Tile", ([2, 1],), {}),
    ("Expand", ([2, 3, 4],), {}),
    ("Add", (np.float32([1, 2, 3, 4]),), {}),
    ("Clip", (np.float32(0), np.float32(1)), {}),
]


@pytest.mark.parametrize(("op", "more", "attrs"), OPERATORS, ids=lambda x: str(x)[:12])
def test_what_the_evaluator_cannot_do_the_network_does(
    op: str, more: tuple, attrs: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> None:
        raise fold.NotFolded("as always")

    monkeypatch.setattr(failures, "strict", False)
    monkeypatch.setattr(fold.Folding, "fold", fails)
    c = Cases()
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    rest = [c.constant(m, "float32" if isinstance(m, np.floating | np.ndarray) else "int64")
            for m in more]  # fmt: skip
    y = c.node(op, c.constant(x), *rest, **attrs)
    c.node("Mul", c.input(np.float32([2])), y)
    c.check(tmp_path)


@pytest.mark.parametrize(
    ("op", "more", "attrs"),
    [
        ("Gather", ([3],), {}), ("GatherND", ([[2, 4]],), {}), ("Slice", ([0], [1], [0], [0]), {}),
        ("ScatterND", ([[3]], np.ones((1, 4), np.float32)), {}), ("Reshape", ([5, -1],), {}),
        ("ScatterElements", ([[3]], np.ones((1, 1), np.float32)), {}), ("Split", ([1, 1],), {}),
        ("Add", (np.ones(3, np.float32),), {}), ("Expand", ([2, 5],), {}),
        ("Transpose", (), {"perm": [0, 0]}), ("Squeeze", ([1],), {}), ("ReduceSum", ([2],), {}),
        ("Tile", ([2],), {}), ("Unsqueeze", ([7],), {}), ("Concat", (), {"axis": 4}),
    ],
    ids=lambda x: str(x)[:12],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    op: str, more: tuple, attrs: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the evaluator's complaint is not taken for the last word."""
    monkeypatch.setattr(failures, "strict", False)
    c = Cases()
    x = c.constant(np.ones((3, 4)))
    rest = [c.constant(m, "float32" if isinstance(m, np.ndarray) else "int64") for m in more]
    y = c.node(op, x, *rest, outputs=2 if op == "Split" else 1, **attrs)
    c.node("Relu", y)
    with pytest.raises(NetworkError, match=op):
        from_onnx(c.model())
