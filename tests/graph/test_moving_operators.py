"""Operators that move data, many to a module, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import tilework as tw
from tests.graph.operator_cases import TARGET, Cases, run
from tilework.graph import from_onnx

Rng = np.random.Generator
Fill = Callable[[Cases, Rng], None]


def floats(r: Rng, *shape: int) -> np.ndarray:
    return r.standard_normal(shape).astype(np.float32)


def shape_of(r: Rng, rank: int, low: int = 2, high: int = 7) -> tuple[int, ...]:
    return tuple(int(n) for n in r.integers(low, high, rank))


def slices(c: Cases, r: Rng) -> None:
    for dtype in ("float32", "int64", "float32"):
        shape = shape_of(r, int(r.integers(1, 5)))
        x = c.input((9 * floats(r, *shape)).astype(dtype))
        axes = r.permutation(len(shape))[: r.integers(1, len(shape) + 1)]
        steps = r.choice([-2, -1, 1, 2, 3], len(axes))
        starts = [int(r.integers(-shape[d], shape[d])) for d in axes]
        ends = [2**62 if s > 0 else -(2**62) for s in steps]
        given = (starts, ends, [int(d) - len(shape) * int(r.integers(2)) for d in axes], steps)
        c.node("Slice", x, *(c.constant(v, "int64") for v in given))


def splits(c: Cases, r: Rng) -> None:
    shape = (3, 6, 5)
    x = c.input(floats(r, *shape))
    y = c.node("Relu", x)
    c.node("Split", y, outputs=3, axis=-2)
    c.node("Split", x, c.constant([1, 4], "int64"), outputs=2, axis=2)
    c.node("Split", x, outputs=3)


def views(c: Cases, r: Rng) -> None:
    x = c.input(floats(r, 2, 1, 3, 4))
    c.node("Flatten", x, axis=-2)
    c.node("Squeeze", x)
    c.node("Unsqueeze", x, c.constant([0, -1], "int64"))
    c.node("Reshape", x, c.constant([0, -1, 2], "int64"))
    y = c.node("Transpose", x, perm=[3, 1, 0, 2])
    y = c.node("Reshape", y, c.constant([4, 6], "int64"))
    y = c.node("Transpose", y)
    c.node("Slice", y, *(c.constant([v], "int64") for v in (1, 5, 0, 2)))


def joins(c: Cases, r: Rng) -> None:
    for axis in (0, 1, -1):
        shape = list(shape_of(r, 3))
        parts = []
        for _ in range(3):
            shape[axis] = int(r.integers(1, 9))
            parts.append(c.input(floats(r, *shape)))
        c.node("Relu", c.node("Concat", *parts, axis=axis))


def pads(c: Cases, r: Rng) -> None:
    for mode in ("constant", "reflect", "edge", "constant", "constant"):
        shape = shape_of(r, 3, 4, 7)
        amounts = r.integers(-1 if mode == "constant" else 0, 3, 6)
        values = [c.constant(amounts, "int64")]
        if mode == "constant":
            values.append(c.constant(1.5))
        c.node("Pad", c.input(floats(r, *shape)), *values, mode=mode)
    c.node("Pad", c.input(np.arange(6)), c.constant([2, 1], "int64"), c.constant(7, "int64"))


def repeats(c: Cases, r: Rng) -> None:
    for rank in (1, 3, 4):
        x = c.input(floats(r, *shape_of(r, rank, 1, 5)))
        c.node("Tile", x, c.constant(r.integers(1, 4, rank), "int64"))
    c.node("Expand", c.input(floats(r, 3, 1, 4)), c.constant([2, 1, 5, 1], "int64"))
    c.node("Expand", c.input(np.array([[True], [False]])), c.constant([2, 7], "int64"))
    y = c.node("Exp", c.node("Expand", c.input(floats(r, 1, 40)), c.constant([3, 40], "int64")))
    c.node("Transpose", y)


def gathers(c: Cases, r: Rng) -> None:
    x = c.input(floats(r, 5, 6, 20))
    for axis, shape in ((0, (3,)), (1, (2, 4)), (-1, ()), (2, (9,))):
        indices = r.integers(-5, 5, shape)
        c.node("Gather", x, c.input(indices), axis=axis)
        c.node("Gather", x, c.constant(indices, "int64"), axis=axis)
        c.node("Gather", x, c.input(indices.astype(np.int32)), axis=axis)
    c.node("Gather", x, c.constant([4, 2, 0], "int64"), axis=1)
    c.node("Gather", c.constant(floats(r, 30, 16)), c.input(r.integers(0, 30, (2, 7))))
    table = c.node("Gather", c.constant(floats(r, 30, 16)), c.input(r.integers(0, 30, (2, 7))))
    c.node("Add", table, c.constant(floats(r, 7, 16)))


def gathers_of_elements(c: Cases, r: Rng) -> None:
    x = c.input(floats(r, 4, 5, 6))
    for axis in (0, 1, -1):
        shape = [4, 5, 6]
        shape[axis] = 8
        extent = (4, 5, 6)[axis]
        c.node("GatherElements", x, c.input(r.integers(-extent, extent, shape)), axis=axis)
    at = np.stack([r.integers(-4, 4, (3, 2)), r.integers(-5, 5, (3, 2))], -1)
    c.node("GatherND", x, c.input(at))
    c.node("GatherND", x, c.constant(at, "int64"))
    c.node("GatherND", x, c.input(r.integers(-5, 5, (4, 3, 1))), batch_dims=1)


def scatters(c: Cases, r: Rng) -> None:
    x = c.input(floats(r, 4, 5, 6))
    for axis, reduction in ((0, "none"), (1, "add"), (-1, "mul")):
        shape = [3, 4, 5]
        extent = (4, 5, 6)[axis]
        where = np.argsort(r.random((*shape, extent)), -1)[..., 0]  # may repeat
        if reduction == "none":
            where = np.moveaxis(np.argsort(r.random((4, 5, extent)), -1)[..., :3], -1, axis)
        new = c.input(floats(r, *where.shape))
        attrs = {} if reduction == "none" else {"reduction": reduction}
        c.node("ScatterElements", x, c.input(where), new, axis=axis, **attrs)
    at = np.array([[1, -2], [3, 0], [0, 4]])
    for form in (c.input(at), c.constant(at, "int64")):
        c.node("ScatterND", x, form, c.input(floats(r, 3, 6)))
    twice = c.input(np.array([[[1], [3]], [[1], [-1]]]))
    for reduction in ("add", "mul"):
        c.node("ScatterND", x, twice, c.input(floats(r, 2, 2, 5, 6)), reduction=reduction)


def triangles(c: Cases, r: Rng) -> None:
    x = c.input(floats(r, 2, 5, 7))
    for k in (-9, -2, 0, 3, 40):
        for upper in (0, 1):
            c.node("Trilu", x, c.constant(k, "int64"), upper=upper)
    c.node("Trilu", c.input(r.integers(-9, 9, (4, 4))))
    like = c.input(floats(r, 3, 4))
    c.node("EyeLike", like, k=1)
    c.node("EyeLike", like, dtype=7)
    c.node("Add", c.node("EyeLike", like), like)


def one_hots(c: Cases, r: Rng) -> None:
    for axis in (-1, 0, 1):
        indices = c.input(r.integers(-7, 9, (3, 4)))
        values = c.input(floats(r, 2))
        c.node("OneHot", indices, c.constant(7, "int64"), values, axis=axis)


def orders(c: Cases, r: Rng) -> None:
    x = c.input(r.integers(0, 9, (3, 11, 5)).astype(np.float32))
    for axis in (0, 1, -1):
        c.node("TopK", x, c.constant([3], "int64"), outputs=2, axis=axis, largest=axis % 2)
    c.node("TopK", c.input(floats(r, 2, 150)), c.constant([5], "int64"), outputs=2)
    c.node("TopK", c.input(r.integers(-4, 4, (30,))), c.constant([30], "int64"), outputs=2)


def prefixes(c: Cases, r: Rng) -> None:
    x = c.input(floats(r, 3, 9, 130))
    for flags in range(4):
        for axis in (1, -1):
            a = {"exclusive": flags & 1, "reverse": flags >> 1}
            c.node("CumSum", x, c.constant(axis, "int64"), **a)
    c.node("CumSum", c.input(r.integers(-9, 9, (4, 5))), c.constant(0, "int64"))
    lengths = c.constant([1, 9, 4], "int64")
    c.node("ReverseSequence", x, lengths, batch_axis=0, time_axis=1)
    c.node("ReverseSequence", x, c.input(np.array([2, 9, 1])), batch_axis=0, time_axis=1)


def blocks(c: Cases, r: Rng) -> None:
    x = c.input(floats(r, 2, 12, 4, 6))
    for mode in ("DCR", "CRD"):
        c.node("Relu", c.node("DepthToSpace", x, blocksize=2, mode=mode))
    c.node("SpaceToDepth", x, blocksize=2)
    c.node("SpaceToDepth", x, blocksize=1)


FAMILIES: tuple[Fill, ...] = (
    slices, splits, views, joins, pads, repeats, gathers, gathers_of_elements, scatters,
    triangles, one_hots, orders, prefixes, blocks,
)  # fmt: skip


@pytest.mark.parametrize("fill", FAMILIES, ids=lambda f: f.__name__)
def test_against_onnxruntime(fill: Fill, tmp_path: Path) -> None:
    r = np.random.default_rng(len(fill.__name__))
    c = Cases()
    fill(c, r)
    c.check(tmp_path)


# which coordinate modes and rounding rules ONNX Runtime has for which interpolation
_RESIZES = [
    ("nearest", mode, rule)
    for mode in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    for rule in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
]
_RESIZES += [
    (kind, mode, "")
    for kind in ("linear", "cubic")
    for mode in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_resize(rank: int, tmp_path: Path) -> None:
    r = np.random.default_rng(rank)
    c = Cases()
    x = c.input(floats(r, 2, 3, *shape_of(r, rank, 3, 8)))
    shape = c.inputs[x].shape
    for i, (kind, mode, rule) in enumerate(_RESIZES):
        if (kind == "cubic" and rank != 2) or (kind == "linear" and rank == 3 and i % 2):
            continue
        a = {"mode": kind, "coordinate_transformation_mode": mode}
        if rule:
            a["nearest_mode"] = rule
        sizes = [*shape[:2], *(int(n) for n in r.integers(2, 12, rank))]
        if i % 3 or mode == "align_corners":  # they differ on what a fraction of a pixel is
            c.node("Resize", x, "", "", c.constant(sizes, "int64"), **a)
        else:
            scales = [1, 1, *r.choice([0.5, 1.5, 2, 3], rank)]
            c.node("Resize", x, "", c.constant(scales), **a)
    c.check(tmp_path, rtol=2e-5)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_resize_of_narrow_floats(kind: str, dtype: type, tmp_path: Path) -> None:
    """Weights and sums are float32; ONNX Runtime resizes no such values."""
    c = Cases()
    x = c.input(floats(np.random.default_rng(0), 1, 2, 5, 6).astype(dtype))
    extents = [1, 2, 7, 9]
    c.node("Resize", x, "", "", c.constant(extents, "int64"), mode=kind)
    path = tmp_path / "narrow.onnx"
    onnx.save(c.model(), path)
    net = from_onnx(path)
    assert net.types[net.outputs[0]].dtype == np.dtype(dtype).name
    (got,) = tw.compile(net, "llvm", None).run(c.inputs)
    wide = Cases()
    x = wide.input(c.inputs[x].astype(np.float32))
    wide.node("Resize", x, "", "", wide.constant(extents, "int64"), mode=kind)
    onnx.save(wide.model(), path)
    (want,) = run(path, wide.inputs)
    # rounded once for each dimension
    step = 2 * float(ml_dtypes.finfo(dtype).eps) * np.abs(want).max()
    assert got.dtype == dtype and np.abs(got.astype(np.float32) - want).max() < step
    net.to_onnx(tmp_path / "again.onnx")
    again = from_onnx(tmp_path / "again.onnx")
    (got,) = tw.compile(again, "llvm", None).run(c.inputs)
    assert got.dtype == dtype and np.abs(got.astype(np.float32) - want).max() < step


def test_resize_of_crops(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases()
    x = c.input(floats(r, 1, 2, 6, 7))
    sizes = c.constant([1, 2, 5, 9], "int64")
    for kind in ("nearest", "linear"):
        for roi in ([0, 0, 0.2, 0.3, 1, 1, 0.8, 0.9], [0, 0, -0.2, 0.4, 1, 1, 1.3, 0.9]):
            a = {"mode": kind, "coordinate_transformation_mode": "tf_crop_and_resize"}
            c.node("Resize", x, c.constant(roi), "", sizes, extrapolation_value=2.5, **a)
    c.check(tmp_path)


@pytest.mark.parametrize("opset", [9, 10])
def test_old_resizes(opset: int, tmp_path: Path) -> None:
    r = np.random.default_rng(opset)
    c = Cases(opset)
    x = c.input(floats(r, 1, 2, 6, 7))
    op = "Upsample" if opset == 9 else "Resize"
    scale = (2, 3, 1.5) if opset == 9 else (2, 0.5, 1.5)
    for mode in ("nearest", "linear"):
        for s in scale:
            c.node(op, x, c.constant([1, 1, s, 2]), mode=mode)
    if opset == 9:
        c.node("Slice", x, starts=[1, -3], ends=[2**40, -1], axes=[1, 3])
        c.node("Pad", x, pads=[0, 1, 2, 0, 0, 0, -1, 3], mode="constant", value=2.0)
        c.node("TopK", x, k=2, outputs=2)
        c.node("Split", x, outputs=2, axis=2, split=[2, 4])
        c.node(
            "Scatter", x, c.input(np.array([[[[1, 0]]]])), c.input(floats(r, 1, 1, 1, 2)), axis=3
        )
        c.node("OneHot", c.input(np.array([1, 2])), c.constant(4, "int64"), c.input(floats(r, 2)))
        c.node("Squeeze", x, axes=[0])
        c.node("Unsqueeze", x, axes=[1])
    c.check(tmp_path)


def test_shapes_that_only_depend_on_constants(tmp_path: Path) -> None:
    c = Cases()
    x = c.input(np.arange(6, dtype=np.float32).reshape(2, 3))
    where = c.node("NonZero", c.constant([0, 1, 1]))
    kept = c.node("Compress", c.constant([4, 5, 6]), c.constant([1, 0, 1], "bool"))
    c.outputs.clear()
    c.node("Gather", x, where, axis=1)
    c.node("Mul", c.node("Slice", x, *(c.constant([v], "int64") for v in (0, 2, 1))), kept)
    c.check(tmp_path, export=False)


def test_caches_are_written_from_a_place_on(tmp_path: Path) -> None:
    """Each sample from its own; what would stand outside is left out."""
    r = np.random.default_rng(0)
    c = Cases(24)
    past, update = c.input(floats(r, 4, 3, 6, 2)), c.input(floats(r, 4, 3, 2, 2))
    start = np.array([0, 4, 5, -1])
    c.node("TensorScatter", past, update, c.input(start))
    c.node("TensorScatter", past, update, c.input(start), mode="circular")
    c.node("TensorScatter", past, update)
    onnx.save(c.model(), tmp_path / "m.onnx")
    found = tw.compile(from_onnx(tmp_path / "m.onnx"), TARGET).run(c.inputs)
    for got, circular, places in zip(found, (0, 1, 0), (start, start, 0 * start), strict=True):
        want = c.inputs[past].copy()
        for n, first in enumerate(places):
            for k in range(2):
                at = (first + k) % 6 if circular else first + k
                if 0 <= at < 6:
                    want[n, :, at] = c.inputs[update][n, :, k]
        np.testing.assert_array_equal(got, want)


def test_what_undoes_a_max_pool(tmp_path: Path) -> None:
    """At any places; and at those of windows that tile the map, or leave a border of it."""
    r = np.random.default_rng(0)
    c = Cases(11)
    overlapping = {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 0, 1]}
    tiles = {"kernel_shape": [2, 3], "strides": [2, 3]}
    for size, given, a in (
        ((6, 7), True, overlapping), ((5, 7), True, tiles), ((4, 6), False, tiles),
    ):  # fmt: skip
        y = c.node("MaxPool", c.input(floats(r, 2, 2, *size)), outputs=2, **a)
        shape = [c.constant([2, 2, *size], "int64")] if given else []
        c.node("MaxUnpool", y, c.outputs[-1], *shape, **a)
    c.check(tmp_path, export=False, reference=False)


def test_bits_of_integers_and_of_constants(tmp_path: Path) -> None:
    c = Cases(26)
    x = np.array([0, 1, 127, 128, 255], np.uint8)
    c.node("BitCast", c.input(x), to=onnx.TensorProto.INT8)
    bits = c.node("BitCast", c.constant([1.5, -0.0, np.nan]), to=onnx.TensorProto.INT32)
    c.node("Add", bits, c.input(np.zeros(3, np.int32)))
    onnx.save(c.model(), tmp_path / "m.onnx")
    net = from_onnx(tmp_path / "m.onnx")
    first, _, last = tw.compile(net, TARGET).run(c.inputs)
    np.testing.assert_array_equal(first, x.view(np.int8))
    np.testing.assert_array_equal(last, np.array([1.5, -0.0, np.nan], np.float32).view(np.int32))
