"""Sessions of models that are not all ours: ONNX Runtime runs the rest."""

from __future__ import annotations

import logging
import sys

import numpy as np
import onnx
import pytest

import tilework as tw
from tests.graph.cut_models import (
    DETECTION,
    FOLLOWED,
    SCALED,
    SEQUENCE,
    TWICE,
    feeds_of,
    model,
    same,
    whole,
)
from tilework.errors import ModuleError, NetworkError
from tilework.runtime.parts import PartedModule
from tilework.session import Session, SessionOptions, later

TARGET = "llvm -mcpu=native -num-cores=1"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWORK_NO_PACKAGES", "1")
    return tmp_path / "cache"


def opened(text: str, **options) -> tuple[Session, dict[str, np.ndarray], list]:
    m = model(text)
    feeds = feeds_of(m)
    session = Session(m.SerializeToString(), target=TARGET, **options)
    return session, feeds, whole(m, feeds)


def no_compiler(monkeypatch):
    def refused(*_, **__):
        raise AssertionError("it is compiled again")

    monkeypatch.setattr("tilework.compiler.compile", refused)


def test_a_session_runs_all_of_a_model_and_says_once_what_is_left(caplog):
    with caplog.at_level(logging.WARNING):
        session, feeds, expected = opened(TWICE)
        assert same(session.run(None, feeds), expected)
        more = {"x": np.ones((5, 4), np.float32)}  # another form
        assert same(session.run(["s"], more), whole(model(TWICE), more)[1:])
    line, each = caplog.messages
    assert each.endswith("shapes vary: one form serves N=1..1024; shapes= gives others")
    assert line.startswith("g: left to ONNX Runtime ") and "ai.onnx.ml.Binarizer (2 of 8" in line
    assert isinstance(session.module_for(feeds), PartedModule)


def test_strict_refuses():
    with pytest.raises(NetworkError, match=r"unsupported: ai\.onnx\.ml\.Binarizer \(nodes"):
        session, feeds, _ = opened(TWICE, strict=True)
        session.run(None, feeds)


@pytest.mark.parametrize("text", [TWICE, DETECTION], ids=["twice", "detection"])
def test_the_second_start_does_not_compile(text, monkeypatch):
    session, feeds, expected = opened(text)
    session.run(None, feeds)
    no_compiler(monkeypatch)
    again, _, _ = opened(text)
    assert same(again.run(None, feeds), expected)
    with pytest.raises((NetworkError, AssertionError)):  # a form of strict is another one
        strict, _, _ = opened(text, strict=True)
        strict.run(None, feeds)


@pytest.mark.parametrize("which", range(5))
def test_whatever_is_wrong_with_an_entry_is_a_miss(which, folder):
    session, feeds, expected = opened(TWICE)
    session.run(None, feeds)
    later.finish()
    entries = sorted(folder.glob("*.entry"))
    assert len(entries) == 5
    data = bytearray(entries[which].read_bytes())
    data[len(data) // 2] ^= 1
    entries[which].write_bytes(data if which % 2 else data[:100])
    again, _, _ = opened(TWICE)
    assert same(again.run(None, feeds), expected)


def test_threads_are_those_of_the_options():
    options = SessionOptions()
    options.intra_op_num_threads = 2
    session = Session(model(DETECTION).SerializeToString(), options)
    assert session.module.num_threads == 2
    assert {p.runner.num_threads for p in session.module.image.parts} == {2}
    outputs = session.get_outputs()
    assert [(o.shape, o.type) for o in outputs] == [
        ([None, 4], "tensor(float)"), ([None, 3], "tensor(int64)"),
    ]  # fmt: skip


def test_what_is_no_tensor_goes_in_and_out_as_it_is():
    session, feeds, expected = opened(SEQUENCE)
    assert session.get_outputs()[0].type == "seq(tensor(float))"
    assert same(session.run(None, feeds), expected)
    back = """g (seq(float[3, 4]) s, float[4, 2] w) => (float[3, 2] y)
        { one = Constant <value_int = 1> () x = SequenceAt(s, one) y = MatMul(x, w) }"""
    feeds = {"s": expected[0], "w": np.ones((4, 2), np.float32)}
    session = Session(model(back).SerializeToString(), target=TARGET)
    assert session.get_inputs()[0].type == "seq(tensor(float))"
    assert np.allclose(session.run(None, feeds)[0], expected[0][1].sum(1, keepdims=True))


def test_texts_are_the_other_engine_s():
    text = """g (string[N] a, float[2, 2] x) => (string[N] b, float[2, 2] y)
        { b = StringConcat(a, a) y = MatMul(x, x) }"""
    m = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]>' + text)
    session = Session(m.SerializeToString(), target=TARGET)
    b, y = session.run(None, {"a": ["u", "vw"], "x": np.eye(2, dtype=np.float32)})
    assert list(b) == ["uu", "vwvw"] and (y == np.eye(2)).all()


def test_the_extra_is_missing(monkeypatch):
    session, feeds, _ = opened(TWICE)
    session.run(None, feeds)  # also where the form was kept
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for cache in (None, False):
        session = Session(model(TWICE).SerializeToString(), target=TARGET, cache=cache)
        with pytest.raises(ModuleError, match="not installed: pip install"):
            session.run(None, feeds)


def test_a_model_that_is_all_ours_needs_no_other_engine(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    m = model("g (float[2, 4] x) => (float[2, 4] y) { y = Relu(x) }")
    session = Session(m.SerializeToString(), target=TARGET)
    assert isinstance(session.module, tw.runtime.Module)


def sizes(text: str, *shapes: tuple[int, ...]) -> list:
    rng = np.random.default_rng(0)
    each = [{"x": rng.integers(-4, 5, shape).astype(np.float32)} for shape in shapes]
    return [(feeds, whole(model(text), feeds)) for feeds in each]


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (FOLLOWED, [(4, 4), (7, 4), (1, 4), (300, 4)]),
        (SCALED, [(1, 2, 24, 16), (1, 2, 9, 40), (1, 2, 1, 1), (1, 2, 17, 63)]),
    ],
    ids=["followed", "scaled"],
)
def test_one_form_in_parts_serves_all_shapes(text, shapes, caplog, monkeypatch):
    runs = sizes(text, *shapes)
    session, _, _ = opened(text)
    for feeds, expected in runs[:2]:
        assert same(session.run(None, feeds), expected)
    assert any("shapes vary: one form serves" in said for said in caplog.messages)
    later.finish()
    no_compiler(monkeypatch)
    for feeds, expected in runs:
        assert same(session.run(None, feeds), expected)
    again, _, _ = opened(text)
    for feeds, expected in runs:
        assert same(again.run(None, feeds), expected)


def test_what_leaves_its_range_within_a_run_gets_a_form_of_its_own(caplog, monkeypatch):
    monkeypatch.setattr("tilework.graph.onnx.leave._MOST", 4)
    text = SCALED.replace("float long = {24}", "float long = {150}")
    runs = sizes(text, (1, 2, 150, 12), (1, 2, 15, 15), (1, 2, 12, 150))
    for ranges in ({"H": "1..200:150", "W": "1..200:12"}, None):
        session = Session(model(text).SerializeToString(), target=TARGET, shapes=ranges)
        caplog.clear()
        for feeds, expected in runs:
            assert same(session.run(None, feeds), expected)
        assert len([said for said in caplog.messages if "outside of its range" in said]) == 1
