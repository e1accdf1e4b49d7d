"""Interpolation at places that data say, and pooling of regions, against ONNX Runtime."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import tilework as tw
from tests.graph.operator_cases import TARGET, Cases
from tests.graph.run_plan import run_plan
from tests.graph.run_symbolic import check
from tests.graph.symbolic_graphs import file_of
from tests.graph.symbolic_models import Maker
from tests.graph.test_onnx_errors import refused
from tilework.graph import from_onnx

PADDING = ("zeros", "border", "reflection")


def floats(r: np.random.Generator, *shape: int) -> np.ndarray:
    return r.standard_normal(shape).astype(np.float32)


def places(r: np.random.Generator, *shape: int) -> np.ndarray:
    """Around a feature map, and a few far away."""
    return (r.uniform(-1.4, 1.4, shape) * r.choice([1, 1, 1, 9], shape)).astype(np.float32)


@pytest.mark.parametrize("align", [0, 1])
def test_grid_sample(align: int, tmp_path: Path) -> None:
    r = np.random.default_rng(align)
    c = Cases(16)
    x, grid = c.input(floats(r, 2, 3, 4, 5)), c.input(places(r, 2, 3, 4, 2))
    for mode, padding in product(("nearest", "bilinear", "bicubic"), PADDING):
        c.node("GridSample", x, grid, mode=mode, padding_mode=padding, align_corners=align)
    c.check(tmp_path, reference=False, export=align == 0)


@pytest.mark.parametrize("align", [0, 1])
def test_volumes(align: int, tmp_path: Path) -> None:
    r = np.random.default_rng(align)
    c = Cases(20)
    x = c.input(floats(r, 1, 2, 3, 1, 4))
    y, grid = c.input(floats(r, 1, 2, 3, 2, 4)), c.input(places(r, 1, 2, 3, 2, 3))
    for mode, padding in product(("nearest", "linear"), PADDING):
        whole = x if padding != "reflection" else y  # divides by the extent less one
        c.node("GridSample", whole, grid, mode=mode, padding_mode=padding, align_corners=align)
    c.check(tmp_path, reference=False, export=False)


@pytest.mark.parametrize(
    ("mode", "padding", "align"),
    [("linear", "zeros", 0), ("linear", "border", 1), ("nearest", "reflection", 0),
     ("cubic", "reflection", 1), ("cubic", "zeros", 0)],
)  # fmt: skip
def test_maps_of_any_size(mode: str, padding: str, align: int, tmp_path: Path) -> None:
    def graph(g: Maker) -> str:
        flat = g.node("Transpose", "x", perm=[0, 2, 3, 1])
        grid = g.node("Slice", flat, g.ints(1), g.ints(3), g.ints(3))
        attrs = {"mode": mode, "padding_mode": padding, "align_corners": align}
        old = {"linear": "bilinear", "cubic": "bicubic"}
        return g.node("GridSample", "x", grid, **{**attrs, "mode": old.get(mode, mode)})

    path = file_of(graph, tmp_path, ("n", 3, "m", 6))
    check(
        path,
        {"n": "1..3", "m": "2..40:16"},
        [{"n": n, "m": m} for n, m in ((1, 2), (3, 7), (2, 40))],
    )


def evaluated(c: Cases, tmp_path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Results of the plan, and of the standard's evaluator, for what ONNX Runtime lacks."""
    onnx.save(c.model(), tmp_path / "cases.onnx")
    net = from_onnx(tmp_path / "cases.onnx")
    got = run_plan(net, *(c.inputs[n] for n in net.inputs))
    with np.errstate(all="ignore"):
        return got, ReferenceEvaluator(c.model()).run(None, c.inputs)


def test_cubic_volumes(tmp_path: Path) -> None:
    """Not "border", where the evaluator brings the place in and ONNX Runtime, in 2-D, each tap."""
    r = np.random.default_rng(0)
    c = Cases(22)
    x, grid = c.input(floats(r, 1, 2, 3, 2, 4)), c.input(places(r, 1, 2, 1, 2, 3))
    for padding in ("zeros", "reflection"):
        c.node("GridSample", x, grid, mode="cubic", padding_mode=padding)
    c.node("GridSample", c.input(floats(r, 1, 2, 5)), c.input(places(r, 1, 3, 1)))
    for g, w in zip(*evaluated(c, tmp_path), strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=3e-6)


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_places_that_are_no_numbers(mode: str, padding: str, tmp_path: Path) -> None:
    """They read zeros, or an element; infinite elements elsewhere do not come in."""
    c = Cases(20)
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
    nan, inf, large = np.nan, np.inf, np.finfo(np.float32).max
    grid = [(nan, 0), (0, nan), (nan, nan), (inf, 0), (-inf, inf), (large, 0), (1e9, -large)]
    grid = np.array(grid, np.float32).reshape(1, 1, -1, 2)
    c.node("GridSample", c.input(x), c.input(grid), mode=mode, padding_mode=padding)
    onnx.save(c.model(), tmp_path / "cases.onnx")
    net = from_onnx(tmp_path / "cases.onnx")
    (want,) = run_plan(net, x, grid)
    assert np.isfinite(want).all() and (not want.any()) == (padding == "zeros")
    if padding == "zeros":
        np.testing.assert_array_equal(run_plan(net, np.full_like(x, inf), grid)[0], want)
    (got,) = tw.compile(net, TARGET).run(c.inputs)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_types_of_samples(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases(22)
    grid = c.input(places(r, 1, 3, 3, 2))
    c.node("GridSample", c.input(r.integers(0, 99, (1, 2, 4, 4))), grid, mode="nearest")
    c.node("GridSample", c.input(r.random((1, 2, 4, 4)) > 0.5), grid, mode="nearest")
    wide = c.input(places(r, 1, 3, 3, 2).astype(np.float64))
    c.node("GridSample", c.input(r.random((1, 2, 4, 4)).astype(np.float16)), wide)
    c.node("GridSample", c.input(r.random((1, 2, 4, 4))), wide)
    for g, w in zip(*evaluated(c, tmp_path), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-6 if g.dtype != np.float16 else 1e-3)


@pytest.mark.parametrize("seed", range(2))
def test_deformed_convolutions(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    c = Cases(19)
    for groups, parts, mask in ((1, 1, False), (2, 4, True)) if seed else ((1, 2, True),):
        kernel, stride, dilation = (r.integers(1, 4, 2).tolist() for _ in range(3))
        pads = r.integers(0, 3, 4).tolist()
        size = r.integers(7, 9, 2)
        room = size + pads[:2] + pads[2:] - np.multiply(dilation, np.subtract(kernel, 1)) - 1
        out = (room // stride + 1).tolist()
        w = floats(r, 6, 4 // groups, *kernel)
        taps = parts * kernel[0] * kernel[1]
        x, offset = floats(r, 2, 4, *size), 2 * floats(r, 2, 2 * taps, *out)
        names = [c.input(x), c.constant(w) if seed else c.input(w), c.input(offset)]
        names += ["", c.input(r.random((2, taps, *out)).astype(np.float32))] if mask else []
        names += [c.constant(floats(r, 6))] if not mask and groups == 1 else []
        c.node(
            "DeformConv", *names, kernel_shape=kernel, strides=stride, pads=pads,
            dilations=dilation, group=groups, offset_group=parts,
        )  # fmt: skip
    c.check(tmp_path, reference=False, export=seed == 0)


def regions(r: np.random.Generator, count: int) -> np.ndarray:
    """Corners within, across and outside a map of 6; of no extent, and turned round."""
    first = r.uniform(-4, 8, (count, 2))
    extent = r.uniform(0, 7, (count, 2))
    extent[0], extent[1] = 0, -2
    return np.concatenate([first, first + extent], 1).astype(np.float32)


@pytest.mark.parametrize("opset", [10, 16])
def test_roi_align(opset: int, tmp_path: Path) -> None:
    r = np.random.default_rng(opset)
    c = Cases(opset)
    x, batch = c.input(floats(r, 2, 3, 6, 5)), c.input(r.integers(0, 2, 5))
    for mode, ratio in (("avg", 0), ("max", 0), ("avg", 3), ("max", 1)):
        corners = regions(r, 5)
        a = {"output_height": int(r.integers(1, 4)), "output_width": int(r.integers(1, 4))}
        if opset > 10 and ratio == 1:
            a["coordinate_transformation_mode"] = "output_half_pixel"
        c.node(
            "RoiAlign", x, c.input(corners) if ratio else c.constant(corners), batch,
            mode=mode, sampling_ratio=ratio, spatial_scale=0.8, **a,
        )  # fmt: skip
    c.check(tmp_path, reference=False, export=opset == 16)


def test_max_roi_pool(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases()
    x = c.input(floats(r, 2, 3, 6, 5))
    for bins, scale in (((2, 3), 1.0), ((4, 1), 0.5)):
        corners = (2 * regions(r, 6)).round() / 2  # also halves, which are rounded
        rois = np.concatenate([r.integers(0, 2, (6, 1)), corners], 1).astype(np.float32)
        c.node("MaxRoiPool", x, c.input(rois), pooled_shape=bins, spatial_scale=scale)
    c.check(tmp_path)


def test_regions_of_any_numbers_read_within_the_maps(tmp_path: Path) -> None:
    """Places and numbers of maps that are out of range, infinite or no numbers."""
    nan, inf, large = np.nan, np.inf, 1e30
    corners = np.array([[nan] * 4, [-inf, inf, inf, -inf], [large, -large, 1, nan]], np.float32)
    batch = np.array([9, -(2**40), 1])
    rois = np.concatenate([np.array([[nan], [inf], [-7]], np.float32), corners], 1)
    c = Cases(16)
    x = c.input(np.ones((2, 3, 4, 5), np.float32))
    c.node("RoiAlign", x, c.input(corners), c.input(batch), sampling_ratio=2, output_width=2)
    c.node("MaxRoiPool", x, c.input(rois), pooled_shape=[2, 2])
    offset = np.resize(np.array([nan, inf, -inf, large, -large], np.float32), (2, 18, 2, 3))
    w = np.ones((1, 3, 3, 3), np.float32)
    c.node("DeformConv", x, c.input(w), c.input(offset))
    c.opset = 19
    onnx.save(c.model(), tmp_path / "cases.onnx")
    net = from_onnx(tmp_path / "cases.onnx")
    run_plan(net, *(c.inputs[n] for n in net.inputs))  # raises where a read leaves its tensor
    tw.compile(net, TARGET).run(c.inputs)


@pytest.mark.parametrize(
    ("op", "attrs", "why"),
    [
        ("GridSample", {"mode": "spline"}, "unknown mode 'spline'"),
        ("GridSample", {"padding_mode": "wrap"}, "unknown mode 'wrap'"),
        ("RoiAlign", {"mode": "sum", "sampling_ratio": 1}, "unknown mode 'sum'"),
        ("RoiAlign", {}, "sampling_ratio of 0, its list of regions must be a constant"),
        ("MaxRoiPool", {"pooled_shape": [2, 0]}, "pooled_shape of two numbers"),
        ("DeformConv", {"strides": [1]}, "do not fit 2 spatial axes"),
    ],
)
def test_what_is_refused(op: str, attrs: dict[str, object], why: str, tmp_path: Path) -> None:
    c = Cases(20)
    shapes = {
        "GridSample": ((1, 2, 3, 3), (1, 2, 2, 2)),
        "RoiAlign": ((1, 2, 3, 3), (4, 4)),
        "MaxRoiPool": ((1, 2, 3, 3), (4, 5)),
        "DeformConv": ((1, 2, 3, 3), (1, 2, 2, 2), (1, 8, 2, 2)),
    }[op]
    names = [c.input(np.zeros(s, np.float32)) for s in shapes]
    if op == "RoiAlign":
        names.append(c.input(np.zeros(4, np.int64)))
    c.node(op, *names, **attrs)
    assert why in refused(c.model(), tmp_path)
