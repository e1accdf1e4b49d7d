"""Sessions of which nothing is said: shapes that vary come to share a form."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph import test_grouped_of_any_length as grouped
from tests.graph.test_usual_ranges import frames
from tests.session.test_symbolic import attention, close, feeds, neighbours
from tilework.session import Session
from tilework.session.cache import ModuleCache
from tilework.session.common import ranges_of
from tilework.session.facts import Declared

ort.set_default_logger_severity(4)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWORK_NO_PACKAGES", "1")


@pytest.fixture
def compiled(monkeypatch):
    """A list that grows by one with each form that is compiled."""
    import tilework.compiler

    compile, made = tilework.compiler.compile, []
    monkeypatch.setattr(
        "tilework.compiler.compile", lambda *a, **k: made.append(1) or compile(*a, **k)
    )
    return made


def model_of(nodes, shapes, weights=()):
    """A model of float inputs ``shapes`` and an output y."""
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    arrays = [numpy_helper.from_array(np.asarray(w), n) for n, w in dict(weights).items()]
    graph = helper.make_graph(nodes, "some", infos, [y], arrays)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return made.SerializeToString()


def run(session, other, shapes):
    rng = np.random.default_rng(1)
    given = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    got, wanted = session.run(None, given)[0], other.run(None, given)[0]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_the_second_combination_makes_a_form_for_all(compiled, caplog):
    """It is kept and takes the place of the first; what is beyond makes a wider one."""
    model = attention()
    session, other = Session(model), ort.InferenceSession(model)
    with caplog.at_level(logging.WARNING):
        for batch, seq in ((1, 9), (1, 16), (1, 23), (1, 9), (1, 1), (3, 700), (2, 5)):
            close(session, other, feeds(batch, seq))
    assert len(compiled) == 2
    (said,) = [r.getMessage() for r in caplog.records]
    assert "batch=1..16" in said and "seq=1..1024" in said
    assert len(session._forms.modules) == 1
    close(session, other, feeds(17, 11))
    assert len(compiled) == 3 and len(session._forms.modules) == 1
    again = Session(model)
    for batch, seq in ((4, 31), (1, 9), (20, 1000)):
        close(again, other, feeds(batch, seq))
    assert len(compiled) == 3 and len(again._forms.modules) == 1


def test_extents_without_names(compiled):
    """Those that are equal share a symbol until they differ; a question mark names none."""
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    data = model_of(nodes, {"a": ["?", "?", 3], "b": [None, None, 3]})
    session, other = Session(data), ort.InferenceSession(data)
    for n, m in ((1, 5), (2, 7), (3, 9), (4, 2), (7, 7)):
        run(session, other, {"a": (n, m, 3), "b": (n, m, 3)})
    assert len(compiled) == 1 + 1
    for n, m in ((2, 7), (3, 9), (5, 11)):
        run(session, other, {"a": (1, 1, 3), "b": (n, m, 3)})
    assert len(compiled) == 1 + 1 + 3 + 1  # which of them is broadcast differs: one try in vain


def test_sizes_that_fit_in_steps_alone(compiled, caplog):
    """A map that is halved, rounded up, and doubled again beside itself."""
    w = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    scales = np.array([1, 1, 2, 2], np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Resize", ["h", "", "s"], ["d"], mode="nearest"),
        helper.make_node("Concat", ["c", "d"], ["y"], axis=1),
    ]
    data = model_of(nodes, {"x": ["n.1", 3, "n.2", None]}, {"w": w, "s": scales})
    session, other = Session(data), ort.InferenceSession(data)
    with caplog.at_level(logging.WARNING):
        for n, height, width in (
            (1, 32, 48),
            (1, 64, 48),
            (1, 96, 80),
            (1, 32, 320),
            (1, 160, 16),
        ):
            run(session, other, {"x": (n, 3, height, width)})
    assert len(compiled) == 1 + 2  # the width varies later
    assert "n_2_by_32=1..32" in caplog.text and "by_16=1..64" in caplog.text


def test_a_shape_that_none_serves_gets_its_own(compiled):
    """A length of 1 is another network there: it does not make the form anew each time."""
    data = neighbours()
    session, other = Session(data), ort.InferenceSession(data)
    for seq in (8, 9, 10, 1, 11, 1, 12, 13):
        run(session, other, {"x": (1, seq, 5)})
    assert len(compiled) == 1 + 1 + 1 + 1  # one of them in vain


def test_what_cannot_be_one_form_says_so_once(caplog, monkeypatch):
    data = model_of(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Sqrt", ["f"], ["r"]),
            helper.make_node("Cast", ["r"], ["z"], to=TensorProto.INT64),
            helper.make_node("ConstantOfShape", ["z"], ["y"]),
        ],
        {"x": ["n", "m"]},
    )
    session, other = Session(data), ort.InferenceSession(data)
    with caplog.at_level(logging.WARNING):
        for n in range(2, 8):
            run(session, other, {"x": (n, 3)})
    said = [r.getMessage() for r in caplog.records if "form of its own" in r.getMessage()]
    assert len(said) == 1

    def read(*_):
        raise AssertionError("it is tried again")

    monkeypatch.setattr("tilework.session.common.form_over", read)
    run(Session(data), other, {"x": (9, 3)})


def test_threads_that_meet_new_shapes_at_once_share_a_form(compiled):
    model = attention()
    session, other = Session(model, cache=False), ort.InferenceSession(model)
    close(session, other, feeds(1, 9))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(close, session, other, feeds(1, n)) for n in (5, 6, 7, 8)]:
            done.result()
    assert len(compiled) == 2 and len(session._forms.modules) == 1


def test_ranges_of_what_was_seen():
    inputs = [
        Declared("x", "float32", ("batch", 3, None, None)),
        Declared("m", "int64", ("batch", "seq")),
        Declared("p", "int64", ("batch", "seq + batch")),
    ]
    seen = [
        {"x": (2, 3, 64, 64), "m": (2, 5), "p": (2, 7)},
        {"x": (2, 3, 64, 96), "m": (2, 0), "p": (2, 2)},
        {"x": (2, 3, 64, 320), "m": (2, 5000), "p": (2, 5002)},
    ]
    assert ranges_of(inputs, seen, 32) == {
        "x": (2, 3, 64, "32*extent_3_by_32"),
        "m": (2, "seq"),
        "p": (2, "(seq) + (2)"),
        "extent_3_by_32": "1..32:2,3,10",
        "seq": "0..10000:5,5000",
    }
    named = ranges_of([Declared("m", "int64", (2, "m"))], seen)
    assert named == {"m": (2, "m_"), "m_": "0..10000:5,5000"}
    seen[1]["m"] = (3, 0)  # another batch than that of x
    assert ranges_of(inputs, seen)["m"] == ("extent_4", "seq")


def test_a_batch_may_be_any_and_short_lengths_are_looked_at():
    inputs = [Declared("ids", "int64", ("s72", "s70")), Declared("rate", "int64", ("n",))]
    seen = [{"ids": (1, n), "rate": (1,)} for n in (128, 384)]
    assert ranges_of(inputs, seen, wider=True) == {
        "ids": ("s72", "s70"),
        "rate": (1,),
        "s72": "1..16:1",
        "s70": "1..1024:16,128,384",
    }
    images = [Declared("x", "float32", ("n", 3, "h", "w"))]
    shapes = [{"x": (1, 3, 224, w)} for w in (224, 320)]
    ranges = ranges_of(images, shapes, wider=True)
    assert ranges["x"] == ("n", 3, "h", "w") and ranges["h"] == "1..1024:224"
    assert ranges_of(images, [{"x": (n, 3, 224, 224)} for n in (1, 4)], wider=True)["x"][2:] == (
        224,
        224,
    )


def test_dimensions_may_be_arithmetic_and_have_any_name():
    inputs = [
        Declared("x", "float32", ("n", 3, "4*rows", "2*c + 1")),
        Declared("c_", "f", ("2d",)),
    ]
    seen = [{"x": (1, 3, 4 * n, 2 * n + 1), "c_": (n,)} for n in (40, 48)]
    assert ranges_of(inputs, seen, wider=True) == {
        "x": ("n", 3, "4*(rows)", "2*(c) + 1"),
        "c_": ("_2d",),
        "n": "1..16:1",
        "rows": "1..256:40,48",
        "c": "1..512:40,48",
        "_2d": "1..1024:16,40,48",
    }
    names = ("a.b", "a b", "a_b", "lambda")
    seen = [{"x": (n, n + 1, n + 2, n + 3)} for n in (3, 4)]
    named = ranges_of([Declared("x", "float32", names)], seen)
    assert named["x"] == ("a_b", "a_b_", "a_b__", "_lambda")
    inputs = [Declared("x", "float32", ("a", "2*a"))]
    assert ranges_of(inputs, [{"x": (n, 2 * n)} for n in (3, 4)])["x"] == ("a", "2*(a)")
    odd = ranges_of(inputs, [{"x": (n, 2 * n + n % 2)} for n in (3, 4)])
    assert odd["x"] == ("a", "_2_a")


def test_what_was_always_equal_may_stay_so():
    inputs = [
        Declared("ids", "int64", ("s1", "total")),
        Declared("mask", "int64", ("s2", "total")),
        Declared("states", "float32", ("s3", "n")),
        Declared("scale", "float32", ("s2 + total",)),
    ]
    seen = [
        {"ids": (b, n), "mask": (b, n), "states": (b, n - 3), "scale": (b + n,)}
        for b, n in ((2, 24), (1, 17))
    ]
    assert ranges_of(inputs, seen, related=True) == {
        "ids": ("((s3))", "(n + 3)"),
        "mask": ("(s3)", "(n + 3)"),
        "states": ("s3", "n"),
        "scale": ("((s3)) + ((n + 3))",),
        "s3": "1..16:1,2",
        "n": "1..1024:14,21",
    }


def merged_decoder():
    """Scores of x over keys: those of a past where there is one, else of what an encoder says."""
    cached = [helper.make_node("MatMul", ["x", "past"], ["then_y"])]
    fresh = [
        helper.make_node("Transpose", ["states"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Concat", ["past", "t"], ["keys"], axis=2),
        helper.make_node("MatMul", ["x", "keys"], ["else_y"]),
    ]
    shapes = {"x": ["n", "s", 4], "past": ["n", 4, "e"], "states": ["n", "e", 4]}
    branches = {
        f"{name}_branch": helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)]
        )
        for name, nodes in (("then", cached), ("else", fresh))
    }
    model = onnx.load_from_string(
        model_of([helper.make_node("If", ["cached"], ["y"], **branches)], shapes)
    )
    model.graph.input.append(helper.make_tensor_value_info("cached", TensorProto.BOOL, [1]))
    return model.SerializeToString()


@pytest.mark.parametrize("ranges", [None, {"n": "1..4", "s": "1..30", "e": "1..64"}])
def test_values_that_decide_have_forms_of_their_own(compiled, ranges):
    """A decoder with and without a past in one file, as Optimum merges them.

    In front of the first token the past of what the encoder says is empty, though it shares its
    symbol with that.
    """
    data = merged_decoder()
    session, other = Session(data, shapes=ranges), ort.InferenceSession(data)
    rng = np.random.default_rng(0)
    for cached in (True, False, True):
        for n, s, e in ((1, 5, 7), (1, 1, 9), (2, 3, 12), (1, 2, 30), (3, 6, 5)):
            past = e if cached else 0
            shapes = {"x": (n, s, 4), "past": (n, 4, past), "states": (n, e, 4)}
            given = {k: rng.standard_normal(v).astype(np.float32) for k, v in shapes.items()}
            given["cached"] = np.array([cached])
            got, wanted = session.run(None, given)[0], other.run(None, given)[0]
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert len(compiled) == 2 * (1 + 1) + (ranges is not None)  # these do not hold an empty past


def test_a_run_of_a_shape_that_was_there_reads_no_file(monkeypatch):
    data = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n"]})
    session, other = Session(data), ort.InferenceSession(data)
    for n in (1, 2, 3):
        run(session, other, {"x": (n,)})
    asked, of = [], ModuleCache.note
    monkeypatch.setattr(ModuleCache, "note", lambda self, key: asked.append(key) or of(self, key))
    for n in (1, 2, 3):
        run(session, other, {"x": (n,)})
    assert not asked


def test_a_symbol_that_has_to_be_a_sum_of_others(compiled, caplog):
    """A mask as long as the past and the new tokens: GroupQueryAttention needs to know that."""
    data = grouped.model_of(rotated=False).SerializeToString()
    session, other = Session(data), ort.InferenceSession(data)
    with caplog.at_level(logging.WARNING):
        for new, past in ((4, 0), (1, 4), (1, 5), (1, 9), (3, 0), (2, 30)):
            given = grouped.feeds([past + new], new, past)
            for got, wanted in zip(session.run(None, given), other.run(None, given), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert len(compiled) == 1 + 1
    assert "p=0..1024, s=1..1024" in caplog.text


def test_the_part_of_a_range_in_which_it_is_one_network_follows_from_values(compiled):
    data = frames().SerializeToString()
    session, other = Session(data), ort.InferenceSession(data)
    for n in (9, 11, 14, 8, 15, 10):
        x = np.random.default_rng(n).standard_normal((n, 6), np.float32)
        given = {"x": x, "rate": np.array([8])}
        np.testing.assert_array_equal(session.run(None, given)[0], other.run(None, given)[0])
    assert len(compiled) == 1 + 1


def test_extents_that_have_always_been_equal_are_one_where_it_must_be(compiled):
    """As of FLUX: tokens of image and text beside their places, of extents of other names."""
    nodes = [
        helper.make_node("Concat", ["text", "image"], ["all"], axis=0),
        helper.make_node("Concat", ["text_at", "image_at"], ["at"], axis=0),
        helper.make_node("Mul", ["all", "at"], ["scaled"]),
        helper.make_node("Transpose", ["scaled"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["scaled", "turned"], ["y"]),
    ]
    shapes = {"text": ["a", 4], "image": ["b", 4], "text_at": ["c", 4], "image_at": ["d", 4]}
    data = model_of(nodes, shapes)
    session, other = Session(data), ort.InferenceSession(data)
    for a, b in ((3, 8), (5, 9), (7, 16), (2, 30)):
        run(session, other, {n: ({"t": a, "i": b}[n[0]], 4) for n in shapes})
    assert len(compiled) == 1 + 1
