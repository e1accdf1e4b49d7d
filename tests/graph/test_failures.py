"""What operators, converters and passes raise becomes one error that says where and what to do."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.graph import onnx_models
from tests.graph.onnx_models import GraphMaker
from tests.graph.run_plan import relative_error, run_onnxruntime, run_plan
from tilework.errors import NetworkError
from tilework.graph import Builder, Network, failures, from_onnx, passes, plan
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
    broken = replace(OPERATORS["relu"], declare=raising(error))
    monkeypatch.setitem(OPERATORS, "relu", broken)
    with pytest.raises(NetworkError, match="no such thing") as e:
        plan(from_onnx(model()))
    for part in ("node 'y'", "operator relu", "float32[2, 3]", "other operators"):
        assert part in str(e.value)


def test_the_inputs_of_a_wide_node_are_not_all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(OPERATORS["concat"], declare=raising(ERRORS[0]))
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


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "strict", False)


def small() -> Network:
    b = Builder("mine")
    return b.finish([b.op("add", b.input("x", (2,)), b.constant(np.ones(2, np.float32)))])


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.usefixtures("lenient")
def test_a_pass_that_fails_is_left_out(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fold_everything(net: object) -> None:
        raise error

    monkeypatch.setattr(passes, "PASSES", (fold_everything, *passes.PASSES))
    caplog.set_level(logging.INFO, "tilework")
    (y,) = run_plan(small(), np.arange(2, dtype=np.float32))
    np.testing.assert_array_equal(y, [1, 2])
    (line,) = caplog.messages
    assert "fold_everything" in line and "'mine'" in line and "no such thing" in line
    monkeypatch.setattr(failures, "strict", True)
    with pytest.raises(type(error), match="no such thing"):
        plan(small())


@pytest.mark.usefixtures("lenient")
def test_a_pass_that_changes_the_signature_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def shorten(net: Network) -> Network:
        return replace(net, outputs=("x", "x"))

    monkeypatch.setattr(passes, "PASSES", (shorten,))
    assert len(run_plan(small(), np.zeros(2, np.float32))) == 1


@pytest.mark.usefixtures("lenient")
def test_a_pass_that_is_needed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(net: object) -> None:
        raise ERRORS[0]

    monkeypatch.setitem(passes._REPLACED, cannot, lambda n: n.op == "batch_norm")
    monkeypatch.setattr(passes, "PASSES", (cannot,))
    b = Builder("mine")
    stats = [b.constant(np.ones(3, np.float32)) for _ in range(4)]
    net = b.finish([b.op("batch_norm", b.input("x", (2, 3)), *stats, axis=1, epsilon=1e-5)])
    with pytest.raises(NetworkError, match=r"pass cannot .* 'mine'.*no such thing"):
        plan(net)
    plan(small())


@pytest.mark.parametrize("number", range(len(passes.PASSES)))
@pytest.mark.usefixtures("lenient")
def test_whichever_pass_fails(
    number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The others do not rely on it, or say so."""
    model = onnx_models.resnet(18, image=32, width=4, classes=3)
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), dtype=np.float32)
    run = list(passes.PASSES)
    run[number] = raising(ERRORS[0])
    failed = passes.PASSES[number]
    run[number].__name__ = failed.__name__
    if failed in passes._REPLACED:
        monkeypatch.setitem(passes._REPLACED, run[number], passes._REPLACED[failed])
    monkeypatch.setattr(passes, "PASSES", tuple(run))
    net = from_onnx(onnx_models.save(model, tmp_path / "m.onnx"))
    if failed in (passes.simplify_inference, passes.convert_layout):
        with pytest.raises(NetworkError, match=failed.__name__):
            plan(net)
        return
    (got,), (want,) = run_plan(net, x), run_onnxruntime(tmp_path / "m.onnx", x)
    assert relative_error(got, want) < 1e-4


@pytest.mark.usefixtures("lenient")
def test_a_constant_that_cannot_be_evaluated_is_computed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tilework")
    module = importlib.import_module("tilework.graph.passes.fold_constants")
    monkeypatch.setattr(module, "_evaluate", raising(ERRORS[0]))
    b = Builder("mine")
    c = b.op("relu", b.constant(np.float32([-1, 2])), name="c")
    (y,) = run_plan(b.finish([b.op("add", b.input("x", (2,)), c)]), np.ones(2, np.float32))
    np.testing.assert_array_equal(y, [1, 3])
    assert "node 'c' (relu)" in caplog.messages[0]
