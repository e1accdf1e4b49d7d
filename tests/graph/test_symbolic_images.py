"""Convolutions, pooling and resizing of images whose batch and height a run brings, at points.

Each graph has an input ``x`` [n, 3, m, 6].
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.microsoft_models import run_runtime
from tests.graph.run_symbolic import check, feeds_at, point_of, reference, run_at
from tests.graph.symbolic_graphs import Graph, file_of
from tests.graph.symbolic_models import Maker
from tilework.errors import NetworkError
from tilework.graph import from_onnx, plan

IMAGES = ("n", 3, "m", 6)


def _resized(mode: str, coordinates: str, *scales: float, nearest: str = "floor") -> Graph:
    def graph(g: Maker) -> str:
        given = g.weight(np.array(scales, np.float32))
        attrs = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
        return g.node("Resize", "x", "", given, mode=mode, **attrs)

    return graph


def _to_twice(g: Maker) -> str:
    size = g.node("Mul", g.dim("x", 2), g.ints(2))
    sizes = g.node("Concat", g.dim("x", 0), g.ints(3), size, g.ints(9), axis=0)
    return g.node("Resize", "x", "", "", sizes, mode="linear")


def _to_size(mode: str, coordinates: str, nearest: str = "floor", **rules: int) -> Graph:
    """To sizes that are no multiples, one of them of a known one."""

    def graph(g: Maker) -> str:
        longer = g.node("Add", g.node("Div", g.dim("x", 2), g.ints(3)), g.ints(2))
        sizes = g.node("Concat", g.dim("x", 0), g.ints(3), longer, g.dim("x", 2), axis=0)
        attrs = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
        return g.node("Resize", "x", "", "", sizes, mode=mode, **attrs, **rules)

    return graph


def _convolved(g: Maker) -> str:
    y = g.relu(g.batch_norm(g.conv("x", 3, 8, 3, 2), 8))
    y = g.node("MaxPool", y, kernel_shape=[2, 1], strides=[1, 1])
    z = g.conv(y, 8, 8, 3)
    y = g.relu(g.node("Add", y, z))
    y = g.node("AveragePool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    return g.node("Mul", y, g.node("GlobalAveragePool", y))


def _transposed(g: Maker) -> str:
    w = g.weight(g.rng.standard_normal((3, 4, 4, 3), dtype=np.float32))
    attrs = {"strides": [2, 3], "pads": [1, 0, 1, 1], "output_padding": [0, 1]}
    return g.node("ConvTranspose", "x", w, kernel_shape=[4, 3], **attrs)


def _padded_by_itself(g: Maker) -> str:
    """Windows whose padding follows from the size, of one more or less at the end."""
    y = g.node("MaxPool", "x", kernel_shape=[2, 3], strides=[2, 1], auto_pad="SAME_UPPER")
    z = g.node("MaxPool", "x", kernel_shape=[3, 1], strides=[2, 1], ceil_mode=1)
    w = g.weight(g.rng.standard_normal((4, 3, 5, 3), dtype=np.float32))
    c = g.node("Conv", "x", w, auto_pad="SAME_LOWER")
    for count in (0, 1):
        attrs = {"pads": [1, 0, 1, 0], "ceil_mode": 1, "count_include_pad": count}
        c = g.node("AveragePool", c, kernel_shape=[4, 2], strides=[3, 1], **attrs)
    both = {"auto_pad": "SAME_LOWER", "ceil_mode": 1}
    v = g.node("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 1], **both)
    means = (g.node("GlobalAveragePool", g.relu(p)) for p in (y, z, v))
    return g.node("Concat", *means, g.node("GlobalAveragePool", c), axis=1)


def _deformed(g: Maker) -> str:
    w = g.weight(g.rng.standard_normal((4, 3, 3, 2), dtype=np.float32))
    attrs = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    offsets = g.conv("x", 3, 12, 3)
    offsets = g.node("MaxPool", offsets, kernel_shape=[1, 1], strides=[2, 1])
    return g.node("DeformConv", "x", w, offsets, **attrs)


def _regions(g: Maker) -> str:
    """As many regions as images: of each the middle half."""
    places = g.node("Range", g.whole(0), g.scalar_dim("x", 0), g.whole(1))
    ones = g.node("Expand", g.weight(np.float32([[0.5, 1, 4, 3.5]])),
                  g.node("Concat", g.dim("x", 0), g.ints(4), axis=0))  # fmt: skip
    attrs = {"output_height": 3, "output_width": 2, "sampling_ratio": 2}
    return g.node("RoiAlign", "x", ones, places, **attrs)


IMAGE_GRAPHS = {
    "padded by itself": _padded_by_itself,
    "nearest twice": _resized("nearest", "asymmetric", 1, 1, 2, 2),
    "nearest thrice": _resized("nearest", "half_pixel", 1, 1, 3, 1, nearest="round_prefer_floor"),
    "nearest half more": _resized("nearest", "asymmetric", 1, 1, 1.5, 1),
    "nearest half": _resized("nearest", "asymmetric", 1, 1, 0.5, 1),
    "linear twice": _resized("linear", "half_pixel", 1, 1, 2, 2),
    "linear half more": _resized("linear", "half_pixel", 1, 1, 1.5, 2),
    "linear half": _resized("linear", "asymmetric", 1, 1, 0.5, 1),
    "cubic twice": _resized("cubic", "half_pixel", 1, 1, 2, 1),
    "linear twice between ends": _resized("linear", "align_corners", 1, 1, 2, 2),
    "to twice": _to_twice,
    "nearest to a size": _to_size("nearest", "asymmetric"),
    "nearest middles to a size": _to_size("nearest", "half_pixel", "round_prefer_ceil"),
    "linear to a size": _to_size("linear", "pytorch_half_pixel"),
    "linear between ends to a size": _to_size("linear", "align_corners"),
    "cubic to a size": _to_size("cubic", "half_pixel"),
    "widened linear to a size": _to_size("linear", "half_pixel", antialias=1),
    "cubic of what is inside to a size": _to_size("cubic", "half_pixel", exclude_outside=1),
    "widened cubic to a size": _to_size(
        "cubic", "pytorch_half_pixel", antialias=1, exclude_outside=1
    ),
    "convolved": _convolved,
    "transposed": _transposed,
    "deformed": _deformed,
    "regions": _regions,
}


@pytest.mark.parametrize("name", IMAGE_GRAPHS)
def test_images_at_points(name: str, tmp_path: Path) -> None:
    ranges = {"n": "1..3", "m": "4..70:8,16"}
    points = [{"n": n, "m": m} for n, m in ((1, 4), (2, 5), (1, 31), (3, 70))]
    check(file_of(IMAGE_GRAPHS[name], tmp_path, IMAGES, 19), ranges, points)


@pytest.mark.parametrize("name", ["linear twice", "cubic twice", "nearest half more"])
def test_a_point_is_written_as_onnx(name: str, tmp_path: Path) -> None:
    """Tables of a resize are computed there; some of their positions lie beyond an end."""
    path = file_of(IMAGE_GRAPHS[name], tmp_path, IMAGES)
    net = from_onnx(path, {"n": "1..3", "m": "4..70:8,16"})
    at = point_of(net, {"n": 2, "m": 9})
    feeds = feeds_at(net, at)
    written = tmp_path / "written.onnx"
    net.at(at).to_onnx(written)
    for found, wanted in zip(
        reference(written, net, feeds), reference(path, net, feeds), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_padding_before_the_first_window_that_hangs_on_the_size_is_refused(tmp_path: Path) -> None:
    def graph(g: Maker) -> str:
        return g.node("MaxPool", "x", kernel_shape=[3, 1], strides=[2, 1], auto_pad="SAME_UPPER")

    path = file_of(graph, tmp_path, IMAGES)
    with pytest.raises(NetworkError, match="the extent m has to be known"):
        from_onnx(path, {"n": (1,), "m": "4..70"})
    even = {"n": (1,), "x": (1, 3, "2*half", 6), "half": "2..35:8"}
    check(path, even, [{"half": 2}, {"half": 35}])


def test_resizing_that_hangs_on_the_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="'align_corners' of a dimension m"):
        graph = _resized("linear", "align_corners", 1, 1, 1.5, 1)
        from_onnx(file_of(graph, tmp_path, IMAGES), {"n": "1..3", "m": "4..70"})
    with pytest.raises(NetworkError, match=r"'antialias' of a dimension m .* more than 128"):
        graph = _to_size("linear", "half_pixel", antialias=1)
        from_onnx(file_of(graph, tmp_path, IMAGES), {"n": "1..3", "m": "4..700"})
    with pytest.raises(NetworkError, match="not known exactly"):
        graph = _resized("linear", "half_pixel", 1, 1, 0.7, 1)
        from_onnx(file_of(graph, tmp_path, IMAGES), {"n": "1..3", "m": "4..70"})


@pytest.mark.parametrize("groups, channels, point", [(1, 5, 3), (4, 8, 0)])
def test_bytes_of_any_size_keep_their_zero_point_around(
    groups: int, channels: int, point: int
) -> None:
    """`ConvInteger` of data that are quantised in the run: its pads are the zero point."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-128, 128, (8, channels // groups, 3, 3)).astype(np.int8),
        "point": np.array(point, np.int8),
    }
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node(
            "ConvInteger", ["q", "w", "z", "point"], ["y"], pads=[1, 1, 1, 1], group=groups
        ),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, "h", "v"])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    net = from_onnx(model, {"n": "1..2", "h": "1..9", "v": "1..20"})
    for n, h, v in ((1, 9, 20), (2, 1, 1), (1, 4, 7)):
        given = rng.standard_normal((n, channels, h, v)).astype(np.float32) + 1
        (got,) = run_at(plan(net), point_of(net, {"n": n, "h": h, "v": v}), given)
        np.testing.assert_array_equal(got, *run_runtime(model, {"x": given}))
