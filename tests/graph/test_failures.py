"""What operators, converters and passes raise becomes one error that says where and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from tests.graph.onnx_models import GraphMaker
from tilework.errors import NetworkError
from tilework.graph import Builder, from_onnx, passes, plan
from tilework.graph.onnx import importer
from tilework.graph.onnx.convert import CONVERTERS
from tilework.graph.operators import OPERATORS

ERRORS = [IndexError("no such thing"), TypeError("no such thing"), AssertionError("no such thing")]
ERRORS += [ZeroDivisionError("no such thing"), RuntimeError("no such thing")]


def raising(error: Exception) -> Callable[..., Any]:
    def fails(*args: object, **kwargs: object) -> None:
        raise error

    return fails


def model() -> onnx.ModelProto:
    g = GraphMaker()
    g.node("Relu", "x", output="y")
    return g.model({"x": (2, 3)}, {"y": None})


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_lowering(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(OPERATORS["relu"], lower=raising(error))
    monkeypatch.setitem(OPERATORS, "relu", broken)
    with pytest.raises(NetworkError, match="no such thing") as e:
        plan(from_onnx(model()))
    for part in ("node 'y'", "operator relu", "float32[2, 3]", "other operators"):
        assert part in str(e.value)


def test_the_inputs_of_a_wide_node_are_not_all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(OPERATORS["concat"], lower=raising(ERRORS[0]))
    monkeypatch.setitem(OPERATORS, "concat", broken)
    b = Builder("wide")
    x = b.input("x", (2, 3))
    with pytest.raises(NetworkError, match="and 36 more"):
        plan(b.finish([b.op("concat", *[x] * 40, axis=0)]))


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_converters(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONVERTERS, "Relu", raising(error))
    with pytest.raises(NetworkError, match="Relu: malformed: no such thing") as e:
        from_onnx(model())
    assert "cannot import the model" in str(e.value) and "'/Relu_0'" in str(e.value)


@pytest.mark.parametrize(
    ("error", "told"), [(MemoryError(), "too much memory"), (RecursionError(), "too deeply")]
)
def test_converters_without_bounds(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONVERTERS, "Relu", raising(error))
    with pytest.raises(NetworkError, match=told):
        from_onnx(model())


@pytest.mark.parametrize("error", [*ERRORS, MemoryError()], ids=lambda e: type(e).__name__)
def test_the_importer_itself(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "input_types", raising(error))
    with pytest.raises(NetworkError, match="cannot import the model: "):
        from_onnx(model())


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_inference(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, "relu", replace(OPERATORS["relu"], infer=raising(error)))
    b = Builder("net")
    with pytest.raises(NetworkError, match=r"node 'y' \(relu of \[2\]\): no such thing"):
        b.op("relu", b.input("x", (2,)), name="y")


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_passes(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fold_everything(net: object) -> None:
        raise error

    monkeypatch.setattr(passes, "PASSES", (fold_everything,))
    b = Builder("mine")
    net = b.finish([b.op("add", b.input("x", (2,)), b.constant(np.ones(2, np.float32)))])
    with pytest.raises(NetworkError, match=r"pass fold_everything .* 'mine'.*no such thing"):
        plan(net)
