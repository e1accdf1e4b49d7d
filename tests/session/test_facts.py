"""What is known of a model before it is compiled, and how often it is read."""

from __future__ import annotations

import builtins
import gc
import io

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilework as tw
from tilework.errors import NetworkError


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
    (output,) = tw.Session(model(), cache=False).get_outputs()
    assert output.shape[1:] == [4, 24] and output.type == "tensor(float)"
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


def saved(path, rows=24):
    given = model()
    given.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.array([-1, 4, rows]), "shape"))
    onnx.save(given, path)
    return path


def test_outputs_are_inferred_when_they_are_asked_for(tmp_path, monkeypatch):
    """Once, before a form of the model is made or after it; and not from another model."""
    infer, asked = onnx.shape_inference.infer_shapes, []

    def counted(*args, **more):
        asked.append(1)
        return infer(*args, **more)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", counted)
    path, cache = saved(tmp_path / "net.onnx"), tmp_path / "cache"
    early, late, changed = (tw.Session(path, cache=False) for _ in range(3))
    kept = tw.Session(path, cache=cache)
    assert early.get_outputs()[0].shape[1:] == [4, 24] and asked == [1]
    for session in (early, late, changed, kept):
        session.run(None, {"x": np.ones((2, 64), np.float32)})
    assert asked == [1]
    for session in (early, late, late, kept, tw.Session(path, cache=cache)):
        assert session.get_outputs()[0].shape[1:] == [4, 24]
    assert asked == [1] * 3  # the last one finds a note
    saved(path, 12)
    assert changed.get_outputs()[0].shape == []
    path.unlink()
    assert kept.get_outputs()[0].shape[1:] == [4, 24]


def test_no_cycles_are_looked_for_before_the_first_answer():
    seen = []

    def looking(phase, about):
        seen.append(phase)

    def answer():
        session = tw.Session(model(), cache=False)
        session.run(None, {"x": np.ones((2, 64), np.float32)})
        return session

    gc.collect()
    gc.callbacks.append(looking)
    try:
        session = answer()
    finally:
        gc.callbacks.remove(looking)
    assert not seen and gc.isenabled()
    with pytest.raises(tw.TileworkError):
        tw.Session(b"no model", cache=False)
    assert gc.isenabled() and session.get_outputs()


@pytest.mark.parametrize("external", [False, True])
def test_mapped_weights_are_those_of_the_file(tmp_path, monkeypatch, external):
    """At any place in the file: what is mapped cannot be moved to where arrays are aligned."""
    monkeypatch.setattr("tilework.runtime.content._LARGE", 1)
    rng, given = np.random.default_rng(0), model()
    w = rng.standard_normal((128, 96)).astype(np.float32)
    given.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w"))
    given.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 128
    x = rng.standard_normal((3, 128)).astype(np.float32)
    for name in ("g", "gg", "ggg", "gggg"):
        given.graph.name = name
        path = tmp_path / f"{name}.onnx"
        where = {"save_as_external_data": external, "location": f"{name}.data"}
        onnx.save(onnx.ModelProto.FromString(given.SerializeToString()), path, **where)
        (z,) = tw.Session(path, cache=False).run(None, {"x": x})
        np.testing.assert_allclose(z, (x @ w).reshape(-1, 4, 24), rtol=1e-4, atol=1e-5)


def test_a_file_that_is_written_to_is_opened_again(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    session = tw.Session(path, cache=False)
    with open(path, "r+b") as file:
        file.seek(0, 2)
        file.write(b"\x40\x00")
    with pytest.raises(NetworkError, match="was written to after the session was opened"):
        session.run(None, {"x": np.ones((2, 64), np.float32)})
    assert tw.Session(path, cache=False).run(None, {"x": np.ones((2, 64), np.float32)})
