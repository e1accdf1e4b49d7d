"""Sessions whose shapes have ranges: one form for all within, right at every shape."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph import symbolic_models
from tilework.errors import ModuleError
from tilework.graph.onnx.ranges import from_one
from tilework.runtime.sites import Sites
from tilework.session import Session, SessionOptions

ort.set_default_logger_severity(4)
RANGES = {"batch": "1..4:1,2", "seq": "1..50:16,32"}
SHAPES = [(1, 1), (4, 50), (2, 16), (1, 7), (3, 31), (2, 17), (1, 50), (4, 1), (3, 13), (1, 33)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWORK_NO_PACKAGES", "1")


def attention(width=24, heads=2):
    """One layer that looks at its rows, with a mask: what encoders are made of."""
    rng = np.random.default_rng(0)
    each = width // heads
    constants = {
        **{
            f"w{n}": rng.standard_normal((width, width)).astype(np.float32) / 5
            for n in ("q", "k", "v", "o")
        },
        "one": np.ones(width, np.float32),
        "zero": np.zeros(width, np.float32),
        "cut": np.array([0, 0, heads, each], np.int64),
        "joined": np.array([0, 0, width], np.int64),
        "axes": np.array([1, 2], np.int64),
        "large": np.float32(-1e4),
    }
    nodes = []

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    for n, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        node("MatMul", ["x", f"w{n}"], f"{n}1")
        node("Reshape", [f"{n}1", "cut"], f"{n}2")
        node("Transpose", [f"{n}2"], n, perm=perm)
    node("MatMul", ["q", "k"], "s")
    node("Unsqueeze", ["mask", "axes"], "m1")
    node("Mul", ["m1", "large"], "m2")
    node("Add", ["s", "m2"], "s2")
    node("Softmax", ["s2"], "p", axis=-1)
    node("MatMul", ["p", "v"], "c1")
    node("Transpose", ["c1"], "c2", perm=[0, 2, 1, 3])
    node("Reshape", ["c2", "joined"], "c3")
    node("MatMul", ["c3", "wo"], "o")
    node("Add", ["o", "x"], "r")
    node("LayerNormalization", ["r", "one", "zero"], "y", axis=-1)
    shape = ["batch", "seq", width]
    graph = helper.make_graph(
        nodes,
        "attention",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", "seq"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model.SerializeToString()


def feeds(batch, seq, width=24):
    rng = np.random.default_rng(seq)
    mask = (rng.random((batch, seq)) < 0.2).astype(np.float32)
    return {"x": rng.standard_normal((batch, seq, width)).astype(np.float32), "mask": mask}


@pytest.fixture(scope="module")
def model():
    return attention()


@pytest.fixture(scope="module")
def other(model):
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def session(model, tmp_path_factory):
    return Session(model, cache=tmp_path_factory.mktemp("cache"), shapes=RANGES)


def close(session, other, given):
    (got,), (wanted,) = session.run(None, given), other.run(None, given)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch, seq", SHAPES)
def test_every_shape_is_right(session, other, batch, seq):
    close(session, other, feeds(batch, seq))


def test_one_form_runs_all_shapes(model, other, caplog):
    session = Session(model, shapes=RANGES)
    with caplog.at_level(logging.WARNING):
        for batch, seq in SHAPES:
            close(session, other, feeds(batch, seq))
    assert not caplog.records
    assert {session.module_for(feeds(*s)) for s in SHAPES} == {session.module}
    assert [s.name for s in session.module.symbols] == ["batch", "seq"]
    assert session.get_outputs()[0].shape == ["batch", "seq", 24]


def test_a_shape_outside_makes_another_form_and_says_so_once(model, other, caplog):
    session = Session(model, shapes=RANGES)
    with caplog.at_level(logging.WARNING):
        for seq in (51, 52, 20):
            close(session, other, feeds(1, seq))
    (said,) = (r.getMessage() for r in caplog.records)
    assert "seq is 51" in said and "outside of its range 1 to 50" in said
    assert said.endswith("another form is made")
    assert session.module_for(feeds(1, 20)) is session.module
    assert session.module_for(feeds(1, 51)) is not session.module


def test_ranges_from_0(model, other, caplog):
    """Of a batch of none, and of no positions, the outputs have no elements."""
    session = Session(model, shapes={"batch": "0..4:0,1,2", "seq": "0..50:16,32"})
    with caplog.at_level(logging.WARNING):
        for batch, seq in ((2, 16), (0, 7), (4, 50), (0, 1)):
            close(session, other, feeds(batch, seq))
    assert session.run(None, feeds(3, 0))[0].shape == (3, 0, 24)
    assert not caplog.records
    assert {session.module_for(feeds(*s)) for s in ((2, 16), (0, 7), (1, 0))} == {session.module}
    assert [(s.low, s.or_none) for s in session.module.symbols] == [(1, True), (1, True)]


def test_outputs_with_elements_beside_a_0_get_a_form_of_their_own(caplog, monkeypatch):
    """No new position leaves the past; the next start knows that the form cannot have it."""
    ranges = {"batch": "0..2:1", "seq": "0..5:1,3", "past": "0..40:9"}
    data = symbolic_models.decoder(1, past=True).SerializeToString()

    def given(batch, seq, past):
        heads, head = symbolic_models.HEADS, symbolic_models.HEAD
        kept = np.ones((batch, heads, past, head), np.float32)
        ids = np.ones((batch, seq), np.int64)
        mask = np.ones((batch, past + seq), np.int64)
        return {"input_ids": ids, "mask": mask, "past_0": kept, "past_1": kept}

    with caplog.at_level(logging.WARNING):
        session = Session(data, shapes=ranges)
        feed = given(1, 2, 0)
        want = ort.InferenceSession(data).run(None, feed)
        for g, w in zip(session.run(None, feed), want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)
        assert session.run(None, given(0, 2, 3))[1].shape[::2] == (0, 5)
        logits, *presents = session.run(None, given(1, 0, 3))
        assert logits.shape[:2] == (1, 0)
        assert all((p == 1).all() and p.shape[2] == 3 for p in presents)
    assert len(caplog.records) == 1 and "seq is 0" in caplog.records[0].getMessage()
    known = {s.name: (s.low, s.or_none) for s in session.module.symbols}
    assert known == {"batch": (1, True), "past": (0, False), "seq": (1, False)}

    def compiled(*_, **__):
        raise AssertionError("it is made again")

    monkeypatch.setattr("tilework.compiler.compile", compiled)
    again = Session(data, shapes=ranges)
    assert again.module.symbols == session.module.symbols


def neighbours():
    """Each row beside the next and the one before it: of a single row there are none."""
    nodes = [
        helper.make_node("Slice", ["x", "one", "end", "axis"], ["next"]),
        helper.make_node("Slice", ["x", "none", "minus", "axis"], ["last"]),
        helper.make_node("Pad", ["next", "behind"], ["n"]),
        helper.make_node("Pad", ["last", "before"], ["l"]),
        helper.make_node("Concat", ["n", "x", "l"], ["y"], axis=2),
    ]
    constants = {
        "one": [1], "end": [2**62], "axis": [1], "none": [0], "minus": [-1],
        "behind": [0, 0, 0, 0, 1, 0], "before": [0, 1, 0, 0, 0, 0],
    }  # fmt: skip
    graph = helper.make_graph(
        nodes, "neighbours",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 15])],
        [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return made.SerializeToString()


def test_a_point_at_which_a_model_is_another_network_gets_a_form_of_its_own(caplog, monkeypatch):
    """A slice without elements at a length of 1; the next start knows where the form begins."""
    data, ranges = neighbours(), {"batch": "0..3:1", "seq": "1..40:8"}
    with caplog.at_level(logging.WARNING):
        session, other = Session(data, shapes=ranges), ort.InferenceSession(data)
        for batch, seq in ((1, 8), (3, 2), (2, 40), (1, 1), (2, 1), (1, 3)):
            feed = {"x": np.random.default_rng(seq).standard_normal((batch, seq, 5), np.float32)}
            np.testing.assert_array_equal(session.run(None, feed)[0], other.run(None, feed)[0])
    assert [(s.name, s.low, s.high) for s in session.module.symbols][1] == ("seq", 2, 40)
    first, second = (r.getMessage() for r in caplog.records)
    assert "seq=2..40:8" in first and "batch" not in first and "seq is 1" in second

    def compiled(*_, **__):
        raise AssertionError("it is made again")

    monkeypatch.setattr("tilework.compiler.compile", compiled)
    assert Session(data, shapes=ranges).module.symbols == session.module.symbols


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("0..8", "1..8"),
        ("0..8:0,4", "1..8:4"),
        (" 0 .. 8 : 0 ", "1..8"),
        ("1..8:4", "1..8:4"),
        ("0..0", "0..0"),
        ("past + seq", "past + seq"),
    ],
)
def test_a_range_without_0(text, without):
    assert from_one(text) == without


def test_the_form_is_kept(model, other, monkeypatch):
    first = Session(model, shapes=RANGES).module

    def compiled(*_, **__):
        raise AssertionError("it is made again")

    monkeypatch.setattr("tilework.compiler.compile", compiled)
    again = Session(model, shapes=RANGES)
    assert again.module.symbols == first.symbols
    close(again, other, feeds(2, 9))


def test_a_symbol_that_is_a_number_by_the_options(model, other):
    options = SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    session = Session(model, options, shapes={"seq": "1..50:16,32"})
    assert [s.name for s in session.module.symbols] == ["seq"]
    close(session, other, feeds(2, 21))


def test_what_cannot_be_one_form_gets_one_for_each_shape(caplog):
    """The number of elements is no polynomial of that of the input."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["f"], ["r"]),
        helper.make_node("Cast", ["r"], ["z"], to=TensorProto.INT64),
        helper.make_node("ConstantOfShape", ["z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "found",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m"])],
    )
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    found.ir_version = 8
    with caplog.at_level(logging.WARNING):
        session = Session(found.SerializeToString(), shapes={"n": "1..9"})
        x = np.array([0, 1, 0, 2], np.float32)
        assert np.array_equal(session.run(None, {"x": x})[0], [0, 0])
    assert caplog.records[0].getMessage().endswith("each shape gets a form of its own")


def test_a_model_without_ranges_has_a_form_for_each_shape(model):
    session = Session(model)
    with pytest.raises(ModuleError, match="no compiled network of its own"):
        _ = session.module


def test_a_run_asks_once_what_its_shapes_are(monkeypatch):
    asked, of = [], Sites.of
    monkeypatch.setattr(Sites, "of", lambda self, arrays: asked.append(1) or of(self, arrays))
    session = Session(attention(), shapes=RANGES)
    for batch, seq in SHAPES[:3]:
        session.run(None, feeds(batch, seq))
    assert len(asked) == 3
