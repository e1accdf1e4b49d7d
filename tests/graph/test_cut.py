"""Models that are cut: who runs what, and that it is the same model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper, parser

from tests.graph.cut_models import (
    BRANCH,
    DETECTION,
    FOLLOWED,
    FUNCTION,
    LOOP,
    SCALED,
    SEQUENCE,
    TWICE,
    feeds_of,
    model,
    same,
    whole,
)
from tests.graph.run_plan import run_plan
from tilework.errors import NetworkError
from tilework.graph import Network, Parts, extract_tasks, from_onnx
from tilework.graph.onnx.usual import narrowed
from tilework.graph.parts import OurPart, TheirPart
from tilework.runtime.other import OtherPart

CASES = {
    "twice": TWICE, "detection": DETECTION, "loop": LOOP, "branch": BRANCH, "sequence": SEQUENCE,
    "function": FUNCTION,
}  # fmt: skip


def cut(m: onnx.ModelProto, feeds) -> Parts:
    found = from_onnx(m, {n: a.shape for n, a in feeds.items()}, strict=False)
    assert isinstance(found, Parts)
    return found


def run(parts: Parts, feeds) -> list[object]:
    """The outputs of a model in parts; ours are evaluated, not compiled."""
    values = dict(feeds)
    for number, part in enumerate(parts.parts):
        given = {n: values[n] for n in part.inputs}
        if isinstance(part, OurPart):
            found = run_plan(part.network, *given.values())
        else:
            found = OtherPart(part.model, f"part {number}", 1).run(given, {}, 1)
        values.update(zip(part.outputs, found, strict=True))
    return [values[n] for n in parts.outputs]


def kinds(parts: Parts) -> str:
    return "".join("o" if isinstance(p, OurPart) else "t" for p in parts.parts)


@pytest.mark.parametrize("name", CASES)
def test_the_parts_compute_what_the_model_does(name):
    m = model(CASES[name])
    feeds = feeds_of(m)
    parts = cut(m, feeds)
    expected = whole(m, feeds)
    assert "o" in kinds(parts) and "t" in kinds(parts)
    assert same(run(parts, feeds), expected)
    check = OtherPart(parts.whole(()), "whole", 1)
    assert same(check.run(feeds, {}, 1), expected)


def test_what_is_left_and_in_which_parts():
    feeds = feeds_of(model(TWICE))
    parts = cut(model(TWICE), feeds)
    assert kinds(parts) == "ototo"
    assert parts.left.operators == ("ai.onnx.ml.Binarizer",)
    assert (parts.left.nodes, parts.left.of, parts.left.uncounted) == (2, 8, 0)
    assert "Binarizer (nodes 'c', 'e')" in parts.refused
    tasks, weights = extract_tasks(parts, "llvm -num-cores=1")
    assert len(tasks) < sum(weights)  # the same product in several parts is one task


def test_what_data_decide_the_extents_of_is_left_to_the_end():
    m = model(DETECTION)
    parts = cut(m, feeds_of(m))
    assert kinds(parts) == "ot"
    assert parts.left.operators == ("NonMaxSuppression",)  # the others merely read it
    assert parts.values["chosen"].shape == (None, 4)


def test_extents_that_are_known_again_are_ours_again():
    m = model("""g (float[24] x, bool[24] flag, float[4, 3] v) => (float[4, 1] y)
        <int64[2] column = {3, 1}>
        {
            some = Compress(x, flag)
            three = Reshape(some, column)
            y = MatMul(v, three)
        }""")
    feeds = feeds_of(m) | {"flag": np.arange(24) % 8 == 0}
    parts = cut(m, feeds)
    assert kinds(parts) == "to"
    assert same(run(parts, feeds), whole(m, feeds))


def test_nodes_that_are_not_worth_a_part_are_given_away():
    m = model("""g (float[N, 4] x) => (float[N, 4] y)
        { a = ai.onnx.ml.Binarizer <threshold = 0.123> (x)
          b = Neg(a)
          y = ai.onnx.ml.Binarizer <threshold = 0.123> (b) }""")
    parts = cut(m, feeds_of(m))
    assert kinds(parts) == "t"
    assert parts.left.nodes == 3 and parts.again is not None
    assert kinds(parts.again()) == "tot"


def test_constants_are_known_to_all_who_read_them():
    """Shape arithmetic is done at import; an output may be a constant, or an input."""
    m = model("""g (float[N, 4] x) => (float[4, N] y, int64[2] s, float[N, 4] x)
        { s = Shape(x)
          back = Constant <value_ints = [1, 0]> ()
          n = Gather(s, back)
          a = ai.onnx.ml.Binarizer <threshold = 0.123> (x)
          y = Reshape(a, n) }""")
    feeds = feeds_of(m)
    parts = cut(m, feeds)
    assert parts.left.of == 2
    assert same(run(parts, feeds), whole(m, feeds))


def test_large_constants_are_not_copied():
    w = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Binarizer", ["a"], ["b"], domain="ai.onnx.ml"),
        helper.make_node("Add", ["b", "w"], ["c"]),
        helper.make_node("Binarizer", ["c"], ["y"], domain="ai.onnx.ml"),
    ]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", kind, [64, 64])],
        [helper.make_tensor_value_info("y", kind, [64, 64])], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    m = helper.make_model(graph, opset_imports=model(TWICE).opset_import, ir_version=9)
    feeds = feeds_of(m)
    parts = cut(m, feeds)
    theirs = parts.parts[-1].model
    assert len(theirs.model) < 1000 and list(theirs.weights) == ["w"]
    assert theirs.weights["w"] is parts.whole(()).weights["w"]
    assert same(run(parts, feeds), whole(m, feeds))


def test_weights_in_other_files(tmp_path):
    m = model(TWICE)
    loop = model(LOOP)
    for each, name in ((m, "twice"), (loop, "loop")):
        onnx.save(
            each, tmp_path / f"{name}.onnx", save_as_external_data=True, size_threshold=0,
            convert_attribute=True, location=f"{name}.data",
        )  # fmt: skip
        fresh = model({"twice": TWICE, "loop": LOOP}[name])
        feeds = feeds_of(fresh)
        parts = from_onnx(
            tmp_path / f"{name}.onnx", {n: a.shape for n, a in feeds.items()}, strict=False
        )
        assert same(run(parts, feeds), whole(fresh, feeds))


def test_strict_refuses_and_all_of_ours_is_a_network():
    with pytest.raises(NetworkError, match=r"unsupported: ai\.onnx\.ml\.Binarizer"):
        from_onnx(model(TWICE), {"N": (2,)})
    ours = model("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
    assert isinstance(from_onnx(ours, {"N": (2,)}, strict=False), Network)


def test_what_nobody_needs_is_not_left_to_anybody():
    m = model("""g (float[N, 4] x) => (float[N, 4] y)
        { y = Relu(x) z = ai.onnx.ml.Binarizer <threshold = 0.123> (x) }""")
    assert isinstance(from_onnx(m, {"N": (2,)}, strict=False), Network)


def test_a_rank_that_nobody_knows_is_no_scalar():
    """ONNX Runtime says of both that there are no extents."""
    m = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'
        "g (float[3, 4] x) => (float[3, 4] y) "
        "{ a = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]> (x) y = Add(a, x) }"
    )
    feeds = feeds_of(m)
    parts = cut(m, feeds)
    assert kinds(parts) == "t" and parts.left.uncounted == 2
    assert same(run(parts, feeds), whole(m, feeds))


@pytest.mark.parametrize("first", ["Relu", "ai.onnx.ml.Binarizer"])
def test_nodes_in_another_order(first):
    """The standard has them sorted; ONNX Runtime and its converter to float16 do not."""
    m = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'
        "g (float[3] x) => (float[3] y) <bool yes = {1}> { y = Add(c, a) "
        "c = If (yes) <then_branch = t () => (float[3] p) { p = Mul(a, b) },"
        " else_branch = e () => (float[3] q) { q = Neg(b) }> "
        f"b = Exp(a) a = {first}(x) }}"
    )
    feeds = feeds_of(m)
    found = from_onnx(m, strict=False)
    got = run(found, feeds) if isinstance(found, Parts) else run_plan(found, *feeds.values())
    assert same(got, whole(m, feeds))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Binarizer(w) }",
            "which nothing before it defines",
        ),
        (
            "g (float[2] x) => (float[2] q) { y = ai.onnx.ml.Binarizer(x) }",
            "'q' is never computed",
        ),
        ("g (float[N, M] x) => (float[N] y) { y = ai.onnx.ml.Binarizer(x) }", "symbolic extents"),
    ],
)
def test_what_is_wrong_is_told_as_ever(text, message):
    with pytest.raises(NetworkError, match=message) as e:
        from_onnx(model(text), strict=False)
    assert "\n" not in str(e.value)


OURS = ("MatMul", "Add", "Softmax")
THEIRS = ("Binarizer", "Unshaped")


@st.composite
def models(draw):
    """Graphs of [3, 3] tensors: ours, operators of another domain, and extents from data."""
    lines, names = [], ["x", "W"]
    for n in range(draw(st.integers(2, 9))):
        op = draw(st.sampled_from(OURS + THEIRS))
        a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        if op == "Binarizer":
            lines.append(f"v{n} = ai.onnx.ml.Binarizer <threshold = 0.123> ({a})")
        elif op == "Unshaped":  # all nine elements and back, by way of an extent that data decide
            lines.append(
                f"r{n} = Constant <value_ints = [-1]> () "
                f"l{n} = Reshape({a}, r{n}) k{n} = Greater(l{n}, low) "
                f"c{n} = Compress(l{n}, k{n}) s{n} = Constant <value_ints = [3, 3]> () "
                f"v{n} = Reshape(c{n}, s{n})"
            )
        elif op == "Softmax":
            lines.append(f"v{n} = Softmax({a})")
        else:
            lines.append(f"v{n} = {op}({a}, {b})")
        names.append(f"v{n}")
    outputs = draw(st.lists(st.sampled_from(names[2:]), min_size=1, max_size=3, unique=True))
    told = ", ".join(f"float[3, 3] {o}" for o in outputs)
    return model(
        f"g (float[3, 3] x) => ({told}) "
        "<float[3, 3] W = {0.1, -0.3, 0.2, 0.4, 0.0, -0.1, 0.3, 0.2, -0.2}, float low = {-1e30}> "
        f"{{ {' '.join(lines)} }}"
    )


@given(models())
@settings(max_examples=25, deadline=None)
def test_random_models_compute_the_same_in_parts(m):
    feeds = feeds_of(m)
    expected = whole(m, feeds)
    found = from_onnx(m, strict=False)
    if isinstance(found, Parts):
        assert same(run(found, feeds), expected)
    else:
        assert same(run_plan(found, *feeds.values()), expected)


def over(m: onnx.ModelProto, shapes) -> Parts | Network:
    return from_onnx(m, shapes, strict=False)


def test_what_a_run_brings_is_known_to_both_engines():
    at, there = (over(model(FOLLOWED), {"N": n}) for n in (16, "1..512:16,64"))
    assert isinstance(at, Parts) and isinstance(there, Parts)
    assert [type(p) for p in there.parts] == [type(p) for p in at.parts]
    assert there.left.operators == at.left.operators
    assert [str(n) for n in there.values["c"].shape] == ["N", "4"]
    assert there.values["z"].shape == (2, None)  # by data
    assert all([s.name for s in net.symbols] == ["N"] for net in there.networks)


def test_what_follows_from_shapes_by_other_arithmetic_has_symbols_of_its_own():
    parts = over(model(SCALED), {"H": "1..64:24", "W": "1..64:16"})
    heavy = next(n for n in parts.networks if any(o.op == "conv2d" for o in n.nodes))
    assert {"H", "W"} < {s.name for s in heavy.symbols}
    assert "Conv" not in {o for p in parts.parts if isinstance(p, TheirPart)
                          for o in p.model.operators}  # fmt: skip


def test_a_node_asks_for_narrower_ranges_and_is_not_left():
    text = SCALED.replace("Conv <pads = [1, 1, 1, 1]> (resized, k)", "Conv(x, k)")
    with pytest.raises(NetworkError, match="whether H < 3"):
        over(model(text), {"H": "1..64:24", "W": "1..64:16"})
    ranges = narrowed(model(text), {"H": "1..64:24", "W": "1..64:16"})
    assert isinstance(over(model(text), ranges), Parts)
    assert ranges["H"].startswith("3..64")


def test_a_network_at_numbers_is_left_over_no_range():
    text = SCALED.replace("z = NonZero(high)", "z = Shape(high)").replace(
        "int64[4, K]", "int64[4]"
    )
    assert isinstance(over(model(text), {"H": 24, "W": 16}), Network)
    with pytest.raises(NetworkError, match="its sizes must be a constant"):
        over(model(text), {"H": "1..64:24", "W": "1..64:16"})
