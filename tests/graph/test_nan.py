"""NaN in elementwise operators: where ONNX Runtime keeps it, so does a compiled network."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.graph.operator_cases import Cases
from tilework.graph import from_onnx, plan

NAN = float("nan")
SPECIAL = np.array([NAN, 1.0, -1.0, 0.0, -0.0, np.inf, -np.inf, 0.5])
PAIRS = np.array(list(itertools.product(SPECIAL, SPECIAL)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_max_and_min_keep_the_nan_of_either_side(dtype: str, tmp_path: Path) -> None:
    c = Cases()
    x, y = (c.input(PAIRS[:, i].astype(dtype)) for i in (0, 1))
    z = c.input(np.roll(PAIRS[:, 0], 5).astype(dtype))
    for op in ("Max", "Min"):
        c.node(op, x, y)
        c.node(op, x, y, z)
        for constant in (0.5, NAN, np.inf, -np.inf):
            c.node(op, x, c.constant(constant, dtype))
            c.node(op, c.constant(constant, dtype), y)
        c.node(op, x, c.constant(np.where(np.arange(64) % 3, 1.0, NAN), dtype))
    c.check(tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_limits(dtype: str, tmp_path: Path) -> None:
    """A limit that is NaN does not limit; where the limits cross, the upper one wins."""
    c = Cases()
    x = c.input(SPECIAL.astype(dtype))
    ends = (NAN, -0.5, 0.75, -np.inf, np.inf)
    known = {e: c.constant(e, dtype) for e in ends}
    given = {e: c.input(np.array(e, dtype)) for e in ends}
    for low, high in itertools.product(ends, ends):
        c.node("Clip", x, known[low], known[high])
    for low, high in ((NAN, 0.75), (-0.5, NAN), (0.75, -0.5), (-0.5, 0.75), (NAN, NAN)):
        c.node("Clip", x, given[low], given[high])
        c.node("Clip", x, known[low], given[high])
        c.node("Clip", x, given[low], known[high])
    c.check(tmp_path)


def test_a_maximum_with_a_number_is_one_instruction(tmp_path: Path) -> None:
    """The common case, a constant without NaN, is not slowed down."""
    import onnx

    c = Cases()
    x = c.input(np.zeros((4, 8), np.float32))
    c.node("Max", x, c.constant(0.0))
    c.node("Min", c.constant(np.ones(8)), x)
    c.node("Max", x, c.constant(NAN))
    onnx.save(c.model(), tmp_path / "max.onnx")
    texts = [str(call.dag) for call in plan(from_onnx(tmp_path / "max.onnx")).calls]
    assert ["select" in text for text in texts] == [False, False, True]
