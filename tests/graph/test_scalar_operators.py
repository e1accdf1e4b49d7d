"""Elementwise operators: arithmetic, comparisons, logic, casts, activations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.graph.operator_cases import Cases
from tilework.errors import NetworkError
from tilework.graph.ir import Builder

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5], "float32")


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32) * 2


def test_functions_of_floats(tmp_path: Path) -> None:
    c = Cases()
    x = c.input(f32(3, 37))
    unit = c.input(RNG.uniform(-0.99, 0.99, (41,)).astype(np.float32))
    positive = c.input(RNG.uniform(1.0, 9.0, (5, 7)).astype(np.float32))
    for op in ("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Exp", "Sin", "Cos", "Tan", "Atan",
               "Sinh", "Cosh", "Asinh", "Erf", "Tanh", "Sigmoid", "IsNaN", "IsInf"):  # fmt: skip
        c.node(op, x)
    for op in ("Asin", "Acos", "Atanh"):
        c.node(op, unit)
    for op in ("Acosh", "Log", "Sqrt", "Reciprocal"):
        c.node(op, positive)
    c.check(tmp_path)


def test_infinities_and_nan(tmp_path: Path) -> None:
    c = Cases(opset=20)
    x = c.input(SPECIAL)
    for op in ("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Exp", "Sqrt", "Log", "Tanh",
               "Sigmoid", "Erf", "IsNaN", "Relu"):  # fmt: skip
        c.node(op, x)
    for signs in ((1, 1), (1, 0), (0, 1), (0, 0)):
        c.node("IsInf", x, detect_positive=signs[0], detect_negative=signs[1])
    other = c.input(SPECIAL[::-1].copy())
    for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Add", "Mul", "Div"):
        c.node(op, x, other)
    c.check(tmp_path)


def test_activations(tmp_path: Path) -> None:
    c = Cases(opset=22)
    x = c.input(f32(4, 50) * 2)
    for op, attrs in (
        ("Relu", {}),
        ("LeakyRelu", {}),
        ("LeakyRelu", {"alpha": 0.3}),
        ("LeakyRelu", {"alpha": -0.3}),
        ("LeakyRelu", {"alpha": 1.7}),
        ("ThresholdedRelu", {}),
        ("ThresholdedRelu", {"alpha": -0.4}),
        ("Elu", {}),
        ("Elu", {"alpha": 0.7}),
        ("Selu", {}),
        ("Selu", {"alpha": 1.1, "gamma": 2.0}),
        ("Celu", {}),
        ("Celu", {"alpha": 2.5}),
        ("Sigmoid", {}),
        ("HardSigmoid", {}),
        ("HardSigmoid", {"alpha": 0.4, "beta": 0.1}),
        ("HardSwish", {}),
        ("Tanh", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Gelu", {}),
        ("Gelu", {"approximate": "tanh"}),
        ("Mish", {}),
        ("Shrink", {}),
        ("Shrink", {"lambd": 1.0, "bias": 0.5}),
    ):
        c.node(op, x, **attrs)
    slopes = [c.input(f32(*s)) for s in ((50,), (4, 1), (1,), (4, 50))]
    for s in slopes:
        c.node("PRelu", x, s)
    c.check(tmp_path)


@pytest.mark.parametrize("seed", range(2))
def test_binary_and_broadcasts(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    c = Cases()
    full = tuple(int(n) for n in r.integers(1, 9, 3))

    def some(dtype: str = "float32") -> str:
        shape = [n if r.random() < 0.7 else 1 for n in full][int(r.integers(0, 3)) :]
        values = r.uniform(0.3, 4.0, shape) * r.choice([-1, 1], shape)
        return c.input(values.astype(dtype))

    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "GreaterOrEqual", "Equal"):
        c.node(op, some(), some())
    for op in ("Sum", "Mean", "Max", "Min"):
        c.node(op, some(), some(), some())
        c.node(op, some())
    c.node("Pow", c.node("Abs", some()), some())
    c.node("Mod", some(), some(), fmod=1)
    c.node("Where", c.node("Greater", some(), some()), some(), some())
    for exponent in (2.0, 0.5, -1.5, 3.0):
        c.node("Pow", c.node("Abs", some()), c.constant(exponent))
    c.check(tmp_path)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int8", "float64", "float16"])
def test_other_element_types(dtype: str, tmp_path: Path) -> None:
    c = Cases(opset=18)
    floating = dtype.startswith("float")
    low = 0 if dtype.startswith("u") else -7
    x, y = (c.input(RNG.integers(low, 8, (3, 17)).astype(dtype)) for _ in range(2))
    nonzero = c.input((RNG.integers(1, 5, (17,)) * RNG.choice([1, low or 1], 17)).astype(dtype))
    both = not dtype.startswith(("uint", "int8", "float16"))
    for op in ("Add", "Sub", "Mul", "Max", "Min"):
        if both or op in ("Max", "Min"):
            c.node(op, x, y)
    if both:
        c.node("Div", x, nonzero)
        for op in ("Less", "Greater", "Equal"):
            c.node(op, x, y)
        c.node("Relu", x) if dtype != "int64" else None
        c.node("Pow", x, c.constant(2, dtype))
    c.node("Abs", x)
    c.node("Sign", x)
    if not dtype.startswith("u"):
        c.node("Neg", x)
    if not floating:
        c.node("Mod", x, nonzero)
        c.node("Mod", x, nonzero, fmod=1)
        c.node("BitwiseAnd", x, y)
        c.node("BitwiseOr", x, y)
        c.node("BitwiseXor", x, y)
        c.node("BitwiseNot", x)
    c.node("Clip", x, c.constant(low // 2, dtype), c.constant(3, dtype))
    c.check(tmp_path, export=floating)  # the written operator set has no bitwise operators


def test_logic_selection_and_shifts(tmp_path: Path) -> None:
    c = Cases()
    a, b = (c.input(RNG.random((3, 9)) < 0.5) for _ in range(2))
    row = c.input(RNG.random(9) < 0.5)
    for op in ("And", "Or", "Xor", "Equal"):
        c.node(op, a, b)
        c.node(op, a, row)
    c.node("Not", a)
    c.node("Where", a, c.input(f32(3, 9)), c.input(f32(3, 1)))
    c.node("Where", row, c.input(np.arange(27).reshape(3, 9)), c.constant(5, "int64"))
    bits = c.input(RNG.integers(0, 255, 12).astype(np.uint8))
    by = c.input(RNG.integers(0, 8, 12).astype(np.uint8))
    c.node("BitShift", bits, by, direction="LEFT")
    c.node("BitShift", bits, by, direction="RIGHT")
    c.check(tmp_path)


def test_clip_with_limits_of_every_kind(tmp_path: Path) -> None:
    c = Cases()
    x = c.input(f32(5, 6))
    low, high = c.input(np.float32(-0.5)), c.input(np.float32(0.7))
    c.node("Clip", x, low, high)
    c.node("Clip", x, "", high)
    c.node("Clip", x, low)
    c.node("Clip", x)
    c.node("Clip", x, c.constant(-1.0), high)
    c.node("Clip", x, "", c.constant(1.0))
    c.check(tmp_path)


def test_casts_between_all_types(tmp_path: Path) -> None:
    from onnx import helper

    c = Cases(opset=19)
    types = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
             "uint32", "uint64", "bool")  # fmt: skip
    values = np.array([0, 1, 2.75, 3.25, 100, 0.5, 7, 9], "float32")
    for dtype in types:
        x = c.input(values.astype(dtype))
        for to in types:
            c.node("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    c.check(tmp_path)


def test_activations_join_the_convolution_before_them(tmp_path: Path) -> None:
    from tests.graph.onnx_models import GraphMaker, save
    from tilework.graph import from_onnx, plan

    for op in ("LeakyRelu", "Elu", "HardSwish", "Mish", "ThresholdedRelu", "Softplus"):
        g = GraphMaker()
        y = g.node(op, g.conv("x", 3, 8, 3))
        g.node("Mul", y, g.weight(f32(8, 1, 1)), output="out")
        path = save(g.model({"x": (1, 3, 8, 8)}, {"out": None}), tmp_path / "conv.onnx")
        heavy = [call for call in plan(from_onnx(path)).calls if "conv2d" in call.name]
        assert len(heavy) == 1
        assert heavy[0].name.endswith("_multiply"), op


def test_bad_operands() -> None:
    b = Builder("bad")
    x, i = b.input("x", (2, 3)), b.input("i", (2, 3), "int32")
    p = b.input("p", (2, 3), "bool")
    for op, operands, attrs, message in (
        ("add", (x, i), {}, "different types: float32, int32"),
        ("add", (p, p), {}, "not defined for bool"),
        ("exp", (i,), {}, "not defined for int32"),
        ("where", (x, x, x), {}, "the condition is float32, expected bool"),
        ("logical_and", (x, x), {}, "not defined for float32"),
        ("cast", (x,), {"to": "float31"}, "unknown element type 'float31'"),
        ("prelu", (x, b.input("s", (4, 2, 3))), {}, r"slopes \[4, 2, 3\] do not broadcast"),
    ):
        with pytest.raises(NetworkError, match=message):
            b.op(op, *operands, **attrs)
