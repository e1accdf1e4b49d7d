"""What is known of a model before it is compiled, and how often it is read."""

from __future__ import annotations

import builtins
import io

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilework as tw
from tilework.session.facts import Source, facts_of


def model():
    """Rows times a large weight, cut by a constant: what a row is has to be inferred."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            helper.make_node("Reshape", ["y", "shape"], ["z"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.ones((64, 96), np.float32), "w"),
            numpy_helper.from_array(np.array([-1, 4, 24]), "shape"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_outputs_are_inferred_without_weights(monkeypatch):
    infer, sizes = onnx.shape_inference.infer_shapes, []

    def measured(given, **more):
        sizes.append(given.ByteSize())
        return infer(given, **more)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", measured)
    (output,) = facts_of(Source(model().SerializeToString()), None).outputs
    assert output.shape[1:] == (4, 24) and output.dtype == "float32"
    assert sizes and max(sizes) < 1000


@pytest.mark.parametrize("fixed", [False, True])
def test_the_file_is_read_once(tmp_path, monkeypatch, fixed):
    given = model()
    if fixed:
        given.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    path = tmp_path / "net.onnx"
    onnx.save(given, path)
    opened, real = [], builtins.open

    def opening(file, *args, **more):
        opened.append(str(file))
        return real(file, *args, **more)

    monkeypatch.setattr(builtins, "open", opening)
    monkeypatch.setattr(io, "open", opening)
    session = tw.Session(path, cache=False)
    assert session.run(None, {"x": np.ones((2, 64), np.float32)})[0].shape == (2, 4, 24)
    assert opened.count(str(path)) == 1
    assert session._forms._source._read is None  # and its memory is given back
