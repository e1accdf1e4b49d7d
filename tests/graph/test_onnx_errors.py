"""Files that cannot be imported: one error each, that names everything that is wrong."""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph import onnx_models
from tests.graph.onnx_models import GraphMaker, save
from tilework.errors import NetworkError
from tilework.graph import Builder, from_onnx


def refused(model: onnx.ModelProto, tmp_path: Path, **kwargs: object) -> str:
    path = save(model, tmp_path / "model.onnx")
    with pytest.raises(NetworkError) as e:
        from_onnx(path, **kwargs)  # type: ignore[arg-type]
    assert str(path) in str(e.value) and "\n" not in str(e.value)
    return str(e.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="does not exist"):
        from_onnx(tmp_path / "no.onnx")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="cannot read"):
        from_onnx(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x08\x09\xff\xff\xff" * 50])
def test_not_onnx(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(NetworkError, match="not a valid ONNX file"):
        from_onnx(path)


def test_an_attribute_that_the_standard_does_not_know(tmp_path: Path) -> None:
    """It would be ignored in silence, as would one of a newer operator set."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[3, 4] x) => (float[3, 4] z) {
        i = Constant <value = int64[1] {1}> ()
        [first] y = CumSum <surprise = 1> (x, i)
        [second] z = Relu <alpha = 0.5> (x)
    }"""
    said = refused(onnx.parser.parse_model(text), tmp_path, strict=True)
    assert "'surprise' in operator set 17" in said and "'alpha' in operator set 17" in said


def test_too_few_inputs(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x"], ["y"], name="half")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in "xy")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]))
    assert "it has too few inputs: 1 of at least 2 (node 'half')" in refused(model, tmp_path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    data = onnx_models.mlp((4, 3, 2)).SerializeToString()
    path = tmp_path / "cut.onnx"
    for end in range(0, len(data) - 1, 7):
        path.write_bytes(data[:end])
        with pytest.raises(NetworkError):
            from_onnx(path)


def test_random_damage_is_an_error_or_a_network(tmp_path: Path) -> None:
    data = bytearray(onnx_models.resnet(18, image=32, width=2, classes=3).SerializeToString())
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.onnx"
    for _ in range(40):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 20):
            broken[at] = rng.integers(256)
        path.write_bytes(broken)
        with contextlib.suppress(NetworkError):
            from_onnx(path)


def test_missing_weight_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        onnx_models.mlp(),
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    assert from_onnx(path).num_parameters == 784 * 128 + 128 * 64 + 64 * 10 + 128 + 64 + 10
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(NetworkError, match=r"weights.bin"):
        from_onnx(path)


def test_all_unsupported_operators_at_once(tmp_path: Path) -> None:
    g = GraphMaker()
    x = g.node("Wave", "x", domain="my.ops")
    x = g.node("Relu", g.node("Wave", x, domain="my.ops"))
    x = g.node("Tide", x, "x", "x", domain="my.ops")
    w = g.weight(np.ones((4, 2, 3, 3), np.float32))
    y = g.node("Conv", "x", w, group=4)
    z = g.node("ReduceMean", "x", axes=[7])
    g.nodes.append(helper.make_node("Fancy", [z], ["z"], name="mine", domain="my.ops"))
    g.node("Concat", x, y, "z", axis=1, output="out")
    message = refused(g.model({"x": (1, 4, 8, 8)}, {"out": None}), tmp_path)
    assert "my.ops.Wave (nodes '/Wave_0', '/Wave_1')" in message
    assert "my.ops.Tide (node '/Tide_3')" in message
    assert "Conv: node 'v4' (conv2d of [1, 4, 8, 8], [4, 2, 3, 3]): each of 4 groups" in message
    assert "ReduceMean: axes [7] do not exist" in message
    assert "my.ops.Fancy (node 'mine')" in message
    assert "Relu" not in message and "Concat" not in message


@pytest.mark.parametrize("opset", [5, 99])
def test_operator_set_out_of_range(opset: int, tmp_path: Path) -> None:
    model = onnx_models.mlp((4, 2))
    model.opset_import[0].version = opset
    assert f"operator set {opset} is not supported" in refused(model, tmp_path)


def test_symbolic_extents(tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("Relu", "x", output="y")
    model = g.model({"x": ("batch", 3, "height", "width")}, {"y": ("batch", 3, "h", "w")})
    message = refused(model, tmp_path)
    assert "'x' [batch, 3, height, width]" in message and "shapes={'batch': (1,)" in message
    assert "has extent 3 in dimension 1, not 4" in refused(
        model, tmp_path, shapes={"x": (1, 4, 8, 8)}
    )
    assert "4 dimensions" in refused(model, tmp_path, shapes={"x": (1, 3)})
    assert "did you mean 'x'" in refused(model, tmp_path, shapes={"xx": (1, 3, 8, 8)})
    net = from_onnx(tmp_path / "model.onnx", {"x": (2, 3, 8, 9)})
    assert net.inputs["x"].shape == (2, 3, 8, 9)


@pytest.mark.parametrize(
    ("dims", "shapes", "told"),
    [
        ((-3, 4), {}, "declared with extent -3 in dimension 0"),
        ((2, -(2**40)), {}, "in dimension 1"),
        ((-3, 4), {"x": (7, 4)}, "declared with extent -3 in dimension 0"),
        (("n", 4), {"x": (-2, 4)}, "has extent -2 in dimension 0"),
        ((-1, 4), {"x": (-2, 4)}, "has extent -2 in dimension 0"),
        (("n", 4), {"n": (-2,)}, "takes one positive number, or 0"),
        (("n", 4), {"x": (2.5, 4)}, "(2.5, 4), given for 'x', is no number, range or shape"),
    ],
)
def test_extents_that_are_no_extents(
    dims: tuple[int | str, ...], shapes: dict[str, object], told: str, tmp_path: Path
) -> None:
    g = GraphMaker()
    g.node("Relu", "x", output="y")
    assert told in refused(g.model({"x": dims}, {"y": None}), tmp_path, shapes=shapes)


def test_a_builder_takes_no_negative_extents() -> None:
    with pytest.raises(NetworkError, match="no extent may be negative"):
        Builder("net").input("x", (2, -3))


@pytest.mark.parametrize("extent", [2**40, 2**62])
def test_hostile_input_size(extent: int, tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("Relu", "x", output="y")
    message = refused(g.model({"x": (1, extent)}, {"y": None}), tmp_path)
    assert "too large" in message


def test_hostile_result_size(tmp_path: Path) -> None:
    g = GraphMaker()
    y = g.node("Add", "x", "y")
    g.node("MatMul", y, "z", output="out")
    shapes = {"x": (2**20, 1), "y": (1, 2**20), "z": (2**20, 2**5)}
    assert "too large" in refused(g.model(shapes, {"out": None}), tmp_path)


def test_hostile_padding(tmp_path: Path) -> None:
    g = GraphMaker()
    w = g.weight(np.ones((1, 1, 1, 1), np.float32))
    g.node("Conv", "x", w, pads=[2**40, 0, 0, 0], output="y")
    assert "too large" in refused(g.model({"x": (1, 1, 4, 4)}, {"y": None}), tmp_path)


def test_hostile_constants(tmp_path: Path) -> None:
    g = GraphMaker()
    a, b = (g.weight(np.ones(s, np.float32)) for s in ((2**14, 1), (1, 2**14)))
    g.node("Add", "x", g.node("Mul", a, b), output="y")
    assert "too large" in refused(g.model({"x": (1, 1)}, {"y": None}), tmp_path)


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    g = GraphMaker()
    y = g.conv("x", 3, 8, 3)
    g.conv(y, 9, 8, 3)
    out = g.nodes[-1].output[0]
    message = refused(g.model({"x": (1, 3, 8, 8)}, {out: None}), tmp_path)
    assert "the data has 8 channels but the weights expect 9" in message


@pytest.mark.parametrize("dtype", [TensorProto.STRING, TensorProto.COMPLEX64])
def test_other_input_types(dtype: int, tmp_path: Path) -> None:
    info = [helper.make_tensor_value_info(n, dtype, [2]) for n in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", *([i] for i in info)
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert "inputs are supported" in refused(model, tmp_path)


def test_other_weight_types(tmp_path: Path) -> None:
    g = GraphMaker()
    w = g.weight(np.ones((4, 2), np.float64))
    g.node("MatMul", "x", w, output="y")
    message = refused(g.model({"x": (1, 4)}, {"y": None}), tmp_path)
    assert "different types: float32, float64" in message


def test_undefined_values(tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("Relu", "nowhere", output="y")
    assert "corrupt" in refused(g.model({"x": (1,)}, {"y": None}), tmp_path)
    g = GraphMaker()
    g.node("Relu", "x")
    assert "'out' is never computed" in refused(g.model({"x": (1,)}, {"out": None}), tmp_path)


def test_truncated_weight(tmp_path: Path) -> None:
    model = onnx_models.mlp((4, 2))
    model.graph.initializer[0].raw_data = b"1234"
    assert "constant 'w0' cannot be read" in refused(model, tmp_path)
    tensor = numpy_helper.from_array(np.ones(3, np.float32), "w0")
    model.graph.initializer[0].CopyFrom(tensor)
    assert "Gemm" in refused(model, tmp_path)


def test_operators_behind_others_are_named_too() -> None:
    """Those within functions and within loops as well."""
    g, h = GraphMaker(), helper
    x = g.node("First", "x", domain="my.ops")
    names = [g.node("Many", x, domain="my.ops") for _ in range(100)]
    opsets = [h.make_opsetid("", 17), h.make_opsetid("my.ops", 1)]
    called = [h.make_node(op, ["a"], ["b"], domain="my.ops") for op in ("Within", "Calls")]
    called[1].input[0], called[1].output[0] = "b", "c"
    function = h.make_function("my.ops", "Calls", ["a"], ["c"], called, opsets)
    g.nodes.append(h.make_node("Calls", [x], ["y"], domain="my.ops", name="call"))
    inner = [
        h.make_node("Identity", ["c"], ["d"]),
        h.make_node("InLoop", [x], ["u"], domain="my.ops"),
    ]
    infos = [
        h.make_tensor_value_info(n, t, [])
        for n, t in (("i", TensorProto.INT64), ("c", TensorProto.BOOL))
    ]
    outs = [h.make_tensor_value_info("d", TensorProto.BOOL, []), onnx.ValueInfoProto(name="u")]
    body = h.make_graph(inner, "body", infos, outs)
    trips = g.weight(np.int64(2))
    g.nodes.append(h.make_node("Loop", [trips, "", x], ["z"], name="around", body=body))
    model = g.model({"x": (2, 3, 3)}, {names[0]: None, "y": None, "z": None})
    model.functions.append(function)
    with pytest.raises(NetworkError) as e:
        from_onnx(model)
    told = str(e.value)
    for part in ("First (node '/First_0')", "Within (node 'call')", "InLoop (node 'around')"):
        assert f"my.ops.{part}" in told
    listed = re.search(r"my\.ops\.Many \(nodes ([^)]*)\)", told)
    assert listed is not None and len(listed[1]) < 220 and listed[1].endswith("more")
    assert listed[1].count("'") // 2 + int(listed[1].split()[-2]) == 100


TOKENS = {"ids": ("batch", "s25"), "mask": ("batch", "past + s25")}


def tokens(more: dict[str, tuple[int | str, ...]]) -> onnx.ModelProto:
    infos = [
        helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in (TOKENS | more).items()
    ]
    outs = [onnx.ValueInfoProto(name=f"{n}_out") for n in TOKENS | more]
    nodes = [helper.make_node("Identity", [i.name], [f"{i.name}_out"]) for i in infos]
    graph = helper.make_graph(nodes, "tokens", infos, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_symbols_are_told_in_a_line_that_can_be_pasted() -> None:
    model = tokens({"cache": (2, 4, "past", 8), "x y": ("n", 3, "height", "an odd one")})
    with pytest.raises(NetworkError) as e:
        from_onnx(model)
    told = str(e.value)
    for part in ("'ids' [batch, s25]", "'mask' [batch, past + s25]", "'x y' [n, 3, height, "):
        assert part in told
    command = told.partition("for example ")[2].partition(", in Python")[0]
    assert command == (
        "--shape batch=1 --shape s25=16 --shape past=16 --shape n=1 --shape height=224 "
        "--shape 'an odd one=16'"
    )
    texts = [word for word in shlex.split(command) if word != "--shape"]
    given = {t.rpartition("=")[0]: (int(t.rpartition("=")[2]),) for t in texts}
    found = from_onnx(model, given).inputs
    assert found["ids"].shape == (1, 16) and found["mask"].shape == (1, 32)
    assert given == ast.literal_eval(told.partition("in Python shapes=")[2])


def test_a_symbol_that_is_also_an_input_is_told_as_a_shape() -> None:
    model = tokens({"past": (2, 4, "past", 8)})
    with pytest.raises(NetworkError, match=r"--shape past=2,4,16,8, in Python"):
        from_onnx(model)
    found = from_onnx(model, {"past": (2, 4, 0, 8), "s25": (3,)}).inputs
    assert found["mask"].shape == (1, 3) and found["past"].shape == (2, 4, 0, 8)


def test_extents_without_names_are_told_as_shapes() -> None:
    g = GraphMaker()
    g.node("Relu", "x", output="y")
    with pytest.raises(NetworkError, match="--shape x=1,3,224,224, in Python"):
        from_onnx(g.model({"x": (None, None, None, None)}, {"y": None}))  # type: ignore[dict-item]


def test_an_extent_of_zero_that_is_declared() -> None:
    """Behind the first it is one, unless the exporter writes that for extents that are free."""
    g = GraphMaker()
    g.node("Relu", "x", output="y")
    assert from_onnx(g.model({"x": (1, 4, 0)}, {"y": None})).inputs["x"].shape == (1, 4, 0)
    with pytest.raises(NetworkError, match="--shape x=1,4,16"):
        from_onnx(g.model({"x": (0, 4, 0)}, {"y": None}))
