"""ONNX's messages without its package: the same classes, types, values and attributes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import defs, helper, numpy_helper

from tilework import zoo
from tilework.graph.onnx import to_model
from tilework.graph.onnx.importer import OLDEST_OPSET
from tilework.graph.onnx.protos import attribute_value, messages, numpy_type
from tilework.graph.onnx.standard import USUAL, strange

_ANSWER = """
import sys
import numpy as np
import tilework as tw
session = tw.Session(sys.argv[1], cache=False)
feeds = {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()}
session.run(None, feeds)
rest = ("tilework.graph.onnx.write", "tilework.graph.onnx.convert.microsoft")
print(sorted(m for m in sys.modules if m.partition(".")[0] == "onnx" or m.startswith(rest)))
import onnx
from tilework.graph.onnx.protos import messages
print(messages().ModelProto is onnx.ModelProto)
"""


@pytest.mark.parametrize("declared", [True, False])
def test_a_first_answer_does_without_onnx(tmp_path, declared):
    """As without what writes files, and reads operators of others' domains.

    What was read is an ``onnx.ModelProto`` to whoever imports it afterwards.

    Outputs of unknown shapes, truth values and what exporters compute of shapes change nothing.
    """
    path = tmp_path / "mlp.onnx"
    model = to_model(zoo.get("mlp", batch=1))
    if not declared:
        truth = numpy_helper.from_array(np.array([True]), "truth")
        last = model.graph.output[0]
        last.name, was = "out", last.name
        last.type.tensor_type.ClearField("shape")
        model.graph.initializer.append(truth)
        model.graph.node.extend(
            [
                helper.make_node("Cast", ["truth"], ["one"], to=1),
                helper.make_node("Mul", [was, "one"], ["scaled"]),
                helper.make_node("ReduceMean", ["scaled"], ["out"], keepdims=1),
            ]
        )
    onnx.save(model, path)
    done = subprocess.run(
        [sys.executable, "-c", _ANSWER, str(path)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[]", "True"]


def test_messages_are_those_of_the_package():
    assert messages().ModelProto is onnx.ModelProto
    assert messages().TensorProto.STRING == onnx.TensorProto.STRING


def test_types_of_elements():
    for number in onnx.TensorProto.DataType.values():
        if number:
            assert numpy_type(number) == helper.tensor_dtype_to_np_dtype(number)
    for number in (0, 1000):
        with pytest.raises(KeyError):
            numpy_type(number)


def test_values_of_attributes():
    tensor = numpy_helper.from_array(np.arange(3))
    kind = helper.make_tensor_type_proto(1, (2,))
    graph = helper.make_graph([], "g", [], [])
    sparse = onnx.SparseTensorProto(values=tensor, indices=tensor, dims=[3])
    for value in (1.5, 2, "text", tensor, sparse, graph, kind):
        for given in (value, [value, value]):
            attribute = helper.make_attribute("a", given)
            assert attribute_value(attribute) == helper.get_attribute_value(attribute)
    assert attribute_value(onnx.AttributeProto(name="a")) is None
    with pytest.raises(ValueError, match="no value of its own"):
        attribute_value(onnx.AttributeProto(name="a", ref_attr_name="b"))


def test_usual_attributes_are_known_in_every_opset_since():
    for op, text in USUAL.items():
        for name, _, since in (one.partition(":") for one in text.split()):
            for opset in range(int(since or OLDEST_OPSET), defs.onnx_opset_version() + 1):
                try:
                    assert name in defs.get_schema(op, opset, "").attributes, (op, name, opset)
                except defs.SchemaError:  # there is no such operator yet
                    continue


@pytest.mark.parametrize(
    ("op", "opset", "given", "expected"),
    [
        ("Conv", 13, {"group": 1, "grup": 1}, ["grup"]),
        ("MaxPool", 9, {"ceil_mode": 1}, ["ceil_mode"]),
        ("MaxPool", 10, {"ceil_mode": 1}, []),
        ("ReduceMean", 13, {"axes": [1]}, []),
        ("ReduceMean", 18, {"axes": [1]}, ["axes"]),
        ("Relu", 13, {}, []),
        ("NoSuch", 13, {"a": 1}, []),
    ],
)
def test_attributes_that_the_standard_does_not_know(op, opset, given, expected):
    assert strange(helper.make_node(op, ["x"], ["y"], **given), opset) == expected
