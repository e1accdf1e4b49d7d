"""Operators that the standard defines as functions of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.graph.onnx_models import GraphMaker, save
from tests.graph.run_plan import relative_error, run_plan
from tilework.graph import from_onnx
from tilework.graph.onnx.calls import body
from tilework.graph.onnx.standard import definition, is_function
from tilework.graph.operators import ValueType


def test_defaults_of_the_standard_become_attributes_of_the_call() -> None:
    found = definition(helper.make_node("Celu", ["x"], ["y"]), 13, [ValueType((3,))])
    assert found is not None
    function, call = found
    assert [a.name for a in call.attribute] == ["alpha"]
    assert {n.op_type for n in body(function, call, "p.")} >= {"Elu"}


@pytest.mark.parametrize("opset", [17, 18, 23])
def test_functions_that_depend_on_types(opset: int) -> None:
    node = helper.make_node("LayerNormalization", ["x", "s", ""], ["y"], axis=-1)
    found = definition(node, opset, [ValueType((2, 4)), ValueType((4,)), None])
    assert found is not None
    names = [n.op_type for n in body(*found, "p.")]
    assert "ReduceMean" in names
    assert "Add" in names


def test_others_are_no_functions() -> None:
    assert not is_function("Conv", 17)
    assert not is_function("Nonsense", 17)
    assert definition(helper.make_node("Conv", ["x", "w"], ["y"]), 17, []) is None


@pytest.mark.parametrize(("op", "opset"), [("Mish", 18), ("HardSwish", 14), ("Swish", 24)])
def test_they_are_imported(op: str, opset: int, tmp_path: Path) -> None:
    g = GraphMaker()
    y = g.node(op, "x")
    model = g.model({"x": (2, 5)}, {y: None}, opset=opset)
    net = from_onnx(save(model, tmp_path / "op.onnx"))
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert relative_error(run_plan(net, x)[0], want) < 1e-5
