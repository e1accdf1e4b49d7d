"""Ranges for symbols of which nothing is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.graph import onnx_models, symbolic_models
from tests.graph.onnx_models import save
from tests.graph.run_symbolic import check
from tests.graph.symbolic_models import Maker
from tests.graph.test_grouped_of_any_length import model_of as grouped_model
from tests.graph.test_microsoft_attention import SIZE
from tilework.errors import NetworkError
from tilework.graph import from_onnx
from tilework.graph.onnx.usual import narrowed, usual_ranges


def file_of(model: onnx.ModelProto, folder: Path) -> Path:
    return save(model, folder / "model.onnx")


def test_a_table_of_positions_ends_the_length(tmp_path: Path) -> None:
    path = file_of(symbolic_models.encoder(), tmp_path)
    assert usual_ranges(path) == {"batch": "1..16:1", "seq": "1..64:16"}
    assert from_onnx(path, usual_ranges(path)).symbols


def test_nothing_ends_a_length_that_is_computed_with(tmp_path: Path) -> None:
    path = file_of(symbolic_models.decoder(), tmp_path)
    assert usual_ranges(path) == {"batch": "1..16:1", "seq": "1..1024:16,128,384"}


def test_what_the_file_says_as_a_sum_follows(tmp_path: Path) -> None:
    found = usual_ranges(file_of(symbolic_models.decoder(past=True), tmp_path))
    assert list(found) == ["batch", "seq", "past"]


def test_a_mask_of_another_name_is_what_it_masks(tmp_path: Path) -> None:
    model = symbolic_models.decoder(past=True)
    (mask,) = (i for i in model.graph.input if i.name == "mask")
    mask.type.tensor_type.shape.dim[1].dim_param = "kept"
    path = file_of(model, tmp_path)
    found = usual_ranges(path)
    assert found["kept"] == "past + seq"
    net = from_onnx(path, found)
    assert [s.name for s in net.symbols] == ["batch", "past", "seq"]


def test_images(tmp_path: Path) -> None:
    model = onnx_models.resnet(18, image=64, width=8, batch="N")
    shape = model.graph.input[0].type.tensor_type.shape
    shape.dim[2].dim_param, shape.dim[3].dim_param = "height", "width"
    found = usual_ranges(file_of(model, tmp_path))
    assert found["height"] == found["width"] == "32..1024:224,512"


def test_images_that_are_halved_and_doubled_are_multiples(tmp_path: Path) -> None:
    g = Maker()
    half = g.node("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    scales = g.weight(np.array([1, 1, 2, 2], np.float32))
    g.node("Add", "x", g.node("Resize", half, "", scales, mode="nearest"), output="y")
    shape = ["N", 3, "height", "width"]
    infos = [helper.make_tensor_value_info(n, 1, shape) for n in ("x", "y")]
    graph = helper.make_graph(g.nodes, "one", infos[:1], infos[1:], g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path = file_of(model, tmp_path)
    found = usual_ranges(path)
    assert found["height"] == "32*height_by_32" and found["width_by_32"] == "1..32:7,16"
    assert from_onnx(path, found).symbols


def test_places_say_what_names_do_not(tmp_path: Path) -> None:
    g = Maker()
    g.node("Concat", g.node("Flatten", "x"), g.node("Flatten", "y"), axis=1, output="z")
    shapes = {"x": ["s6", 3, "s37", "s46"], "y": ["s6", "s9", 2], "z": [None, None]}
    infos = [helper.make_tensor_value_info(n, 1, shape) for n, shape in shapes.items()]
    graph = helper.make_graph(g.nodes, "one", infos[:2], infos[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    size, length = "32..1024:224,512", "1..1024:16,128,384"
    assert usual_ranges(file_of(model, tmp_path)) == {
        "s6": "1..16:1", "s37": size, "s46": size, "s9": length,
    }  # fmt: skip


def model_of(g: Maker, shape: list[object]) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", shape), ("y", None))]
    graph = helper.make_graph(g.nodes, "one", infos[:1], infos[1:], g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_lower_ends_rise_where_a_node_needs_it(tmp_path: Path) -> None:
    """The best ten of as many places as an image has, in parts of 32 x 32."""
    g = Maker()
    y = g.node("MaxPool", "x", kernel_shape=[32, 32], strides=[32, 32])
    g.nodes.append(helper.make_node("TopK", [g.node("Flatten", y), g.ints(10)], ["y", ""]))
    path = file_of(model_of(g, [1, 1, "h", "w"]), tmp_path)
    found = usual_ranges(path)
    assert found == {"h": "128..1024:224,512", "w": "128..1024:224,512"}
    assert from_onnx(path, found).symbols


def test_sound_is_long_enough_for_a_frame(tmp_path: Path) -> None:
    g = Maker()
    g.node("MaxPool", "x", kernel_shape=[2000], strides=[320], output="y")
    path = file_of(model_of(g, ["s6", 1, "s7"]), tmp_path)
    assert usual_ranges(path) == {"s6": "1..16:1", "s7": "2000..524288:16000,160000"}


def test_a_number_where_a_node_leaves_only_one(tmp_path: Path) -> None:
    g = Maker()
    g.node("Add", "x", g.table(8, 6), output="y")
    infos = [helper.make_tensor_value_info(n, 1, ["n", 6]) for n in ("x", "y")]
    graph = helper.make_graph(g.nodes, "one", infos[:1], infos[1:], g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    assert usual_ranges(file_of(model, tmp_path)) == {"n": (8,)}


def frames() -> onnx.ModelProto:
    """Asks whether frames are one, by a rate that a value chooses, as speech detectors do."""
    g = Maker()
    same = g.node("Equal", g.node("Div", g.dim("x", 0), "rate"), g.ints(1))
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], [name])], name, [],
            [helper.make_tensor_value_info(name, 1, None)],
        )
        for name, op in (("then", "Neg"), ("else", "Relu"))
    }  # fmt: skip
    g.nodes.append(helper.make_node("If", [same], ["y"], **branches))
    infos = [helper.make_tensor_value_info(n, 1, ["n", 6]) for n in ("x", "y")]
    rate = helper.make_tensor_value_info("rate", 7, [1])
    graph = helper.make_graph(g.nodes, "one", [infos[0], rate], infos[1:], g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_what_holds_at_the_typical_value_holds_in_all_of_the_range() -> None:
    values = {"rate": np.array([8])}
    assert narrowed(frames(), {"n": "1..64:12"}, values) == {"n": "8..15:12"}
    with pytest.raises(NetworkError, match=r"\(n//8\) == 1"):
        narrowed(frames(), {"n": "1..64:30"}, values)


def test_a_cache_as_onnxruntime_genai_writes_it(tmp_path: Path) -> None:
    """A mask as long as past and new tokens; the heads' size has a symbol, too."""
    model = grouped_model(rotated=True)
    for i in model.graph.input:
        if i.name.startswith("past"):
            i.type.tensor_type.shape.dim[3].dim_param = "size"
    found = usual_ranges(file_of(model, tmp_path))
    assert (found["t"], found["size"]) == ("p + s", (SIZE,))
    assert from_onnx(model, found).symbols


def inputs_of(g: Maker, shapes: dict[str, list[object]]) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(n, 1, s) for n, s in (*shapes.items(), ("y", None))]
    graph = helper.make_graph(g.nodes, "one", infos[:-1], infos[-1:], g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_a_table_is_cut_around_its_middle(tmp_path: Path) -> None:
    """Places of an image, as of Stable Diffusion 3: longer ones would be cut from the end."""
    g = Maker()
    high = g.dim("x", 2)
    first = g.node("Div", g.node("Sub", g.ints(48), high), g.ints(2))
    last = g.node("Add", first, high)
    g.node("Add", "x", g.node("Slice", g.table(48, 5), first, last, g.ints(0)), output="y")
    path = file_of(inputs_of(g, {"x": ["s6", 3, "height", 5]}), tmp_path)
    found = usual_ranges(path)
    assert found == {"s6": "1..16:1", "height": "32..48:48"}
    check(path, found, [{"s6": 2, "height": n} for n in (32, 39, 48)])


def test_what_is_too_large_at_typical_sizes_has_smaller_ones(tmp_path: Path) -> None:
    """Attention between all pixels of an image; a time for each of a batch."""
    g = Maker()
    rows = g.node("Reshape", g.node("Mul", "x", g.node("Unsqueeze", "t", g.ints(1, 2, 3))),
                  g.ints(0, 4, -1))  # fmt: skip
    scores = g.node("MatMul", g.node("Transpose", rows, perm=[0, 2, 1]), rows)
    g.node("ReduceMax", scores, g.ints(2), output="y")
    found = usual_ranges(file_of(inputs_of(g, {"x": ["b", 4, "h", "w"], "t": ["b"]}), tmp_path))
    batch, high, wide = (int(str(found[n]).split("..")[1].split(":")[0]) for n in "bhw")
    assert 2**26 < batch * (high * wide) ** 2 <= 2**30


def test_a_reshape_says_which_extents_are_equal(tmp_path: Path) -> None:
    """Six numbers for each image, as of SDXL: as many rows as the images' batch."""
    g = Maker()
    table = g.node("Reshape", g.node("Reshape", "ids", g.ints(-1)),
                   g.node("Concat", g.dim("x", 0), g.ints(-1), axis=0))  # fmt: skip
    g.node("Concat", "x", table, axis=1, output="y")
    model = inputs_of(g, {"x": ["s30", 5], "ids": ["s18", 6]})
    found = usual_ranges(file_of(model, tmp_path))
    assert found == {"s30": "1..1024:16,128,384", "s18": "s30"}
    check(save(model, tmp_path / "equal.onnx"), found, [{"s30": 3}])


def test_what_is_given_stays(tmp_path: Path) -> None:
    """Which of four extents are equal, as of FLUX, sums cannot say."""
    g = Maker()
    rows = g.node("Concat", "a", "b", axis=0)
    scaled = g.node("Mul", rows, g.node("Concat", "c", "d", axis=0))
    g.node("MatMul", scaled, g.node("Transpose", rows, perm=[1, 0]), output="y")
    path = file_of(inputs_of(g, {n: [f"n{n}", 4] for n in "abcd"}), tmp_path)
    with pytest.raises(NetworkError, match=r"na \+ nb == nc \+ nd|nc \+ nd == na \+ nb"):
        usual_ranges(path)
    given = {"nc": "na", "nd": "nb"}
    found = usual_ranges(path, given=given)
    assert found == {**given, "na": found["na"], "nb": found["nb"]}
    check(path, found, [{"na": 3, "nb": 8}])


def squeezed(g: Maker) -> None:
    """What has one element only at a batch of one."""
    g.node("Squeeze", g.node("ReduceSum", "x", g.ints(1)), output="y")


def rolled(g: Maker) -> None:
    """The rows from the second last on, as of a roll."""
    last = g.node("Mod", g.ints(-2), g.dim("x", 0))
    g.node("Slice", "x", last, g.dim("x", 0), g.ints(0), output="y")


def folded(g: Maker) -> None:
    """As many positions of windows as there are in both dimensions."""
    ends = [g.node("Sub", g.scalar_dim("x", d), g.whole(3)) for d in (0, 1)]
    places = [g.node("Range", g.whole(0), end, g.whole(1)) for end in ends]
    shapes = [g.node("Unsqueeze", p, g.ints(d)) for p, d in zip(places, (1, 0), strict=True)]
    rows = g.node("Reshape", g.node("Add", *shapes), g.ints(-1))
    g.node("Cast", rows, to=1, output="y")


@pytest.mark.parametrize("graph, least", [(squeezed, 2), (rolled, 2), (folded, 4)])
def test_the_least_sizes_at_which_a_network_is_one(
    graph: Callable[[Maker], None], least: int, tmp_path: Path
) -> None:
    g = Maker()
    graph(g)
    path = file_of(inputs_of(g, {"x": ["n", "m"]}), tmp_path)
    seen = {"n": "1..40:1,6", "m": "1..40:9"}
    found = narrowed(path, seen)
    assert found["n"] == f"{least}..40:6"
    assert (found["m"] == seen["m"]) == (graph is not folded)
    check(path, found, [{"n": n, "m": 9} for n in (least, 6, 40)])
