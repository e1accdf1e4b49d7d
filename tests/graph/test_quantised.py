"""Quantised numbers, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.operator_cases import Cases
from tests.graph.test_onnx_errors import refused
from tests.hosts import x86
from tilework.graph import Builder, from_onnx, plan
from tilework.target import Target

TYPES = ("int8", "uint8", "int16", "uint16")


def floats(r: np.random.Generator, *shape: int) -> np.ndarray:
    return r.standard_normal(shape).astype(np.float32)


def whole(r: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Integers of the whole range of a type."""
    info = np.iinfo(dtype)
    return r.integers(info.min, info.max + 1, shape).astype(dtype)


def test_rounding_and_saturation(tmp_path: Path) -> None:
    """Ties go to even, what does not fit is limited, NaN is the least number."""
    c = Cases(21)
    ties = np.arange(-300, 300) / 2
    x = c.input(np.array([*ties, 1e9, -1e9, np.inf, -np.inf], np.float32))
    for dtype, zero in zip(TYPES, (-3, 128, 5, 40000), strict=True):
        y = c.node("QuantizeLinear", x, c.constant(0.5), c.constant(zero, dtype))
        c.node("DequantizeLinear", y, c.constant(0.5), c.constant(zero, dtype))
    tenths = c.input((np.arange(-200, 200) / 2 * np.float32(0.1)).astype(np.float32))
    c.node("QuantizeLinear", tenths, c.constant(0.1))  # a quotient, and no product
    c.node("QuantizeLinear", x, c.constant([0.5]))
    c.node("QuantizeLinear", x, c.constant(1.0), output_dtype=TensorProto.INT8)
    c.check(tmp_path)


def test_scales_of_axes_and_blocks(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases(21)
    x = c.input(9 * floats(r, 2, 3, 5))
    for axis, extent in ((0, 2), (1, 3), (-1, 5)):
        scale, zero = c.input(r.random(extent, np.float32)), c.input(whole(r, "int8", extent))
        y = c.node("QuantizeLinear", x, scale, zero, axis=axis)
        c.node("DequantizeLinear", y, scale, zero, axis=axis)
    scale, zero = c.input(r.random((2, 3, 3), np.float32)), c.input(whole(r, "uint8", 2, 3, 3))
    y = c.node("QuantizeLinear", x, scale, zero, axis=2, block_size=2)
    c.node("DequantizeLinear", y, scale, zero, axis=2, block_size=2)
    c.node("DequantizeLinear", c.input(whole(r, "int32", 7)), c.constant(1e-3))
    half = c.input(np.array(0.25, np.float16))
    c.node("DequantizeLinear", c.input(whole(r, "uint8", 7)), half)
    c.check(tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "int4", "uint4", "float8_e4m3fn"])
def test_constants_are_dequantised_at_import(dtype: str, tmp_path: Path) -> None:
    """Whatever their type, in blocks of 3; the product then has plain weights."""
    r = np.random.default_rng(0)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    low, high = (0, 8) if dtype.startswith("u") else (-8, 8)
    q, zero = r.integers(low, high, (8, 5)).astype(kind), r.integers(0, 7, (3, 5)).astype(kind)
    scale = r.random((3, 5), np.float32)
    zero = zero * kind.type(0) if "float" in dtype else zero
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0, block_size=3),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", (2, 8)), ("y", (2, 5)))
    ]
    arrays = {"q": q, "s": scale, "z": zero}
    tensors = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    path = tmp_path / "q.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    net = from_onnx(path)
    (node,) = net.nodes
    assert node.op == "dense"
    wide, spread = q.astype(np.float32), np.arange(8) // 3
    want = (wide - zero.astype(np.float32)[spread]) * scale[spread]
    np.testing.assert_array_equal(net.constants[node.inputs[1]], want.T)


def test_products_of_integers(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases(13)
    a, b = c.input(whole(r, "uint8", 2, 4, 6)), c.input(whole(r, "int8", 6, 5) // 4)
    c.node("MatMulInteger", a, b, c.constant(12, "uint8"), c.constant(-3, "int8"))
    scales = [c.constant(0.02), c.constant(0.05), c.constant(0.3)]
    c.node(
        "QLinearMatMul", a, scales[0], c.constant(130, "uint8"), b, scales[1],
        c.constant(0, "int8"), scales[2], c.constant(7, "uint8"),
    )  # fmt: skip
    c.check(tmp_path, export=False)


@pytest.mark.parametrize("groups", [1, 3])
def test_convolutions_of_integers(groups: int, tmp_path: Path) -> None:
    """Borders are the zero point; sums are exact.

    Weights beyond 63 only where both are unsigned: ONNX Runtime adds pairs of other products in
    16 bits, where the CPU has no instruction that adds them in 32.
    """
    r = np.random.default_rng(groups)
    c = Cases(13)
    a = {"group": groups, "pads": [1, 0, 2, 1], "strides": [1, 1] if groups > 1 else [2, 1]}
    x, zero = c.input(whole(r, "uint8", 2, 6, 9, 8)), c.constant(131, "uint8")
    w = whole(r, "int8", 3, 6 // groups, 3, 3) // 4
    c.node("ConvInteger", x, c.constant(w, "int8"), zero, c.constant(0, "int8"), **a)
    c.node("ConvInteger", x, c.input(whole(r, "uint8", *w.shape)), **a)
    scale = [c.constant(0.02), c.constant(r.random(3) / 50), c.constant(0.3)]
    bias = c.constant(r.integers(-5000, 5000, 3), "int32")
    each = c.constant([0, 0, 0], "int8")
    c.node(
        "QLinearConv", x, scale[0], zero, c.constant(w, "int8"), scale[1], each, scale[2],
        c.constant(7, "uint8"), bias, **a,
    )  # fmt: skip
    w = c.constant(whole(r, "uint8", *w.shape), "uint8")
    for strides in ([1, 1], [1, 2]):  # a zero point that is taken times the sum of each window
        c.node(
            "QLinearConv", x, scale[0], zero, w, c.constant(0.01), c.constant(121, "uint8"),
            c.constant(0.9), c.constant(90, "uint8"), bias, **a | {"strides": strides},
        )  # fmt: skip
    c.check(tmp_path, export=False)


def test_dynamic_scales(tmp_path: Path) -> None:
    r = np.random.default_rng(0)
    c = Cases(13)
    zeros = np.zeros(5, np.float32)  # whose scale is 1
    for x in (zeros, floats(r, 4, 9), np.abs(floats(r, 5)) + 1, -np.abs(floats(r, 5)) - 1):
        y = c.node("DynamicQuantizeLinear", c.input(x), outputs=3)
    number = y.removesuffix("_DynamicQuantizeLinear")[1:]
    scale, zero = (f"y{int(number) + i}_DynamicQuantizeLinear" for i in (1, 2))
    c.node("DequantizeLinear", y, scale, zero)
    c.check(tmp_path, export=False)


@pytest.mark.parametrize(
    ("op", "attrs", "scale", "why"),
    [
        ("QuantizeLinear", {"output_dtype": TensorProto.INT32}, 1.0, "quantised to int32"),
        ("QuantizeLinear", {"axis": 2}, [1.0, 2.0], "axis 2 does not exist"),
        ("QuantizeLinear", {}, [1.0, 2.0], "a scale of shape [2] does not fit [3, 5]"),
        ("QuantizeLinear", {"block_size": 2}, [[1.0], [2.0]], "does not fit [3, 5] along axis 1"),
        ("DequantizeLinear", {}, 1.0, "quantised numbers of float32"),
    ],
)
def test_what_is_refused(
    op: str, attrs: dict[str, int], scale: object, why: str, tmp_path: Path
) -> None:
    c = Cases(21)
    c.node(op, c.input(np.zeros((3, 5), np.float32)), c.constant(scale), **attrs)
    assert why in refused(c.model(), tmp_path)


def test_a_block_longer_than_its_dimension(tmp_path: Path) -> None:
    c = Cases(21)
    q, x = c.constant([[1, 2], [3, 4]], "int8"), c.input(np.zeros((2, 2), np.float32))
    scale = c.constant([[2.0, 3.0]])
    w = c.node("DequantizeLinear", q, scale, axis=0, block_size=2**40)
    c.node("Add", x, w)
    onnx.save(c.model(), tmp_path / "q.onnx")
    (y, again) = from_onnx(tmp_path / "q.onnx").outputs
    net = from_onnx(tmp_path / "q.onnx")
    np.testing.assert_array_equal(net.constants[y], [[2, 6], [6, 12]])
    assert again in net.types


@pytest.mark.filterwarnings("error")
def test_a_masks_lowest_number_overflows_in_silence() -> None:
    c = Cases(21)
    scale = c.constant(5.2e33)
    mask = c.node(
        "DequantizeLinear", c.constant([0, 65535], "uint16"), scale, c.constant(65535, "uint16")
    )
    c.node("Add", c.input(np.zeros(2, np.float32)), mask)
    net = from_onnx(c.model())
    assert any(np.array_equal(a, [-np.inf, 0]) for a in net.constants.values())


@pytest.mark.parametrize(
    ("cpu", "largest", "declared"),
    [("haswell", 64, True), ("haswell", 65, False), ("znver4", 64, False)],
)
def test_weights_of_7_bits_are_declared_where_an_instruction_needs_it(
    cpu: str, largest: int, declared: bool
) -> None:
    b = Builder("bytes")
    w = b.constant(np.full((16, 32), -largest, np.int8), "w")
    net = b.finish([b.op("dense", b.input("x", (3, 32), "uint8"), w, sums="int32")])
    (call,) = plan(net, target=Target(x86(cpu, 1))).calls
    assert ("max(min(" in str(call.dag)) == declared
