"""Tensors without elements anywhere: inputs, between nodes, outputs; beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tilework as tw
from tests.graph.operator_cases import Cases, run
from tests.graph.run_plan import run_plan
from tilework.errors import NetworkError
from tilework.graph import Builder, from_onnx

TARGET = "llvm -mcpu=native -num-cores=1"


def f(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def check(c: Cases, tmp_path: Path, opset: int = 20) -> None:
    """Each output beside ONNX Runtime's, by the plan and by the compiled network."""
    c.opset = opset
    path = tmp_path / "empty.onnx"
    onnx.save(c.model(), path)
    want = run(path, c.inputs)
    net = from_onnx(path, {n: a.shape for n, a in c.inputs.items()})
    assert list(net.inputs) == list(c.inputs)
    module = tw.compile(net, TARGET)
    for got in (run_plan(net, *c.inputs.values()), module.run(c.inputs)):
        for name, g, w in zip(c.outputs, got, want, strict=True):
            assert (g.shape, g.dtype) == (w.shape, w.dtype), name
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6, err_msg=name)


def test_moving(tmp_path: Path) -> None:
    c = Cases()
    x, past, none = c.input(f(2, 3, 4)), c.input(f(2, 0, 4)), c.constant(np.empty((2, 0, 4)))
    ints = lambda *n: c.constant(n, "int64")  # noqa: E731
    for empty in (past, none):
        c.node("Concat", empty, x, axis=1)
        c.node("Concat", x, empty, x, axis=1)
        c.node("Concat", empty, empty, axis=1)
        c.node("Concat", empty, axis=0)
        c.node("Shape", empty)
        c.node("Size", empty)
        c.node("Transpose", empty, perm=[1, 2, 0])
        c.node("Reshape", empty, ints(0, 0, 2, 2))
        c.node("Reshape", empty, ints(8, -1))
        c.node("Reshape", empty, ints(0, 5), allowzero=1)
        c.node("Flatten", empty, axis=1)
        c.node("Unsqueeze", empty, ints(0))
        c.node("Slice", empty, ints(0), ints(1), ints(0))
        c.node("Expand", c.node("Slice", empty, ints(0), ints(1), ints(0)), ints(3, 2, 0, 4))
        c.node("Tile", empty, ints(2, 3, 1))
        c.node("Pad", empty, ints(0, 1, 0, 0, 2, 0))
        c.node("Gather", empty, ints(1, 0), axis=2)
        c.node("Split", empty, ints(1, 3), outputs=2, axis=2)
        c.node("CumSum", empty, c.constant(1, "int64"))
        c.node("Identity", empty)
        c.node("Trilu", empty)
    c.node("Slice", x, ints(2), ints(2), ints(1))
    c.node("Slice", x, ints(5), ints(9), ints(1))
    c.node("Split", x, ints(0, 3, 0), outputs=3, axis=1)
    c.node("Gather", x, c.constant(np.empty((0,)), "int64"), axis=1)
    c.node("Gather", x, c.input(np.empty((2, 0), np.int64)), axis=1)
    c.node("GatherElements", x, c.constant(np.empty((2, 0, 4)), "int64"), axis=1)
    c.node("GatherND", x, c.constant(np.empty((0, 2)), "int64"))
    c.node("Expand", c.node("Slice", x, ints(0), ints(1), ints(1)), ints(2, 0, 4))
    c.node("Tile", x, ints(1, 0, 1))
    c.node("TopK", x, ints(0), outputs=2)
    c.node("ScatterND", x, c.constant(np.empty((0, 1)), "int64"), c.input(f(0, 3, 4)))
    c.node("ScatterND", x, c.input(np.empty((0, 1), np.int64)), c.constant(f(0, 3, 4)))
    c.node("ScatterElements", x, c.constant(np.empty((2, 0, 4)), "int64"), past, axis=1)
    c.node("OneHot", c.input(np.empty(0, np.int64)), ints(3), c.constant([0, 1]))
    check(c, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ((0, 16, 24), (0, 16, -1, 8), (0, 16, 3, 8)),
        ((0, 64), (0, -1), (0, 64)),
        ((1, 0), (-1, 0), (1, 0)),
        ((2, 0, 0, 6), (0, 0, -1), (2, 0, 0)),
    ],
)
def test_the_rest_of_a_shape_beside_a_0_of_both(old, new, want):
    """It is what it is for any other number there; ONNX Runtime refuses it if it looks."""
    c = Cases(20)
    c.node("Reshape", c.input(f(*old)), c.constant(new, "int64"))
    net = from_onnx(c.model(), {n: a.shape for n, a in c.inputs.items()})
    assert net.types[net.outputs[0]].shape == want


def test_arithmetic(tmp_path: Path) -> None:
    c = Cases()
    one, empty = c.input(f(2, 1, 4)), c.input(f(2, 0, 4))
    c.node("Add", empty, one)
    c.node("Mul", c.input(f()), empty)
    c.node("Relu", empty)
    c.node("Cast", empty, to=onnx.TensorProto.INT32)
    c.node("Where", c.node("Less", empty, one), empty, one)
    c.node("Max", empty, one, c.constant(1.0))
    c.node("Clip", empty, c.constant(0.0), c.constant(1.0))
    c.node("Softmax", empty, axis=1)
    c.node("Softmax", empty, axis=2)
    c.node("LogSoftmax", empty, axis=0)
    c.node("LayerNormalization", empty, c.constant(f(4)), c.constant(f(4)))
    c.node("BatchNormalization", c.input(f(0, 4, 2)), *[c.constant(f(4) ** 2) for _ in "gbmv"])
    c.node("PRelu", empty, c.constant(f(4)))
    c.node("Pow", empty, c.constant(2.0))
    c.node("Sum", empty, one, one)
    c.node("Gelu", empty)
    check(c, tmp_path)


REDUCTIONS = ["Sum", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]


@pytest.mark.parametrize("known", [False, True], ids=["input", "constant"])
def test_reductions(known: bool, tmp_path: Path) -> None:
    c = Cases()
    for dtype in ("float32", "float64", "int32"):
        array = np.empty((2, 0, 3), dtype)
        x = c.constant(array, dtype) if known else c.input(array)
        for kind in REDUCTIONS:
            if dtype == "int32" and kind in ("L2", "LogSum", "LogSumExp"):
                continue
            axes = c.constant([1], "int64")
            c.node(f"Reduce{kind}", x, axes)
            c.node(f"Reduce{kind}", x, axes, keepdims=0)
            c.node(f"Reduce{kind}", x, c.constant([0], "int64"), keepdims=0)
            c.node(f"Reduce{kind}", x, keepdims=0)
    check(c, tmp_path)


def test_the_mean_of_nothing_is_no_number(tmp_path: Path) -> None:
    """ONNX Runtime says 0; NumPy and PyTorch say this."""
    c = Cases(opset=18)
    c.node("ReduceMean", c.input(f(2, 0)), c.constant([1], "int64"), keepdims=0)
    (y,) = run_plan(from_onnx(c.model(), {"x0": (2, 0)}), f(2, 0))
    np.testing.assert_array_equal(y, [np.nan, np.nan])


def test_products(tmp_path: Path) -> None:
    c = Cases()
    x, y, b = c.input(f(2, 0)), c.input(f(0, 3)), c.input(f(3))
    c.node("Gemm", x, y, b)
    c.node("Gemm", x, c.constant(f(0, 3)), b, alpha=2.0)
    c.node("Gemm", c.input(f(0, 2)), c.constant(f(2, 3)), b)
    for other in (y, c.constant(f(0, 3))):
        c.node("MatMul", x, other)
        c.node("MatMul", x, c.node("Identity", other))
    c.node("MatMul", c.input(f(2, 4, 0)), c.input(f(2, 0, 3)))
    c.node("MatMul", c.input(f(0, 4, 5)), c.input(f(0, 5, 3)))
    c.node("MatMul", c.input(f(0, 4, 5)), c.constant(f(5, 3)))
    c.node("MatMul", c.input(f(2, 4, 5)), c.input(f(2, 5, 0)))
    c.node("Einsum", x, y, equation="ij,jk->ik")
    c.node("Einsum", c.input(f(2, 0, 3, 4)), c.input(f(2, 5, 3, 4)), equation="bshd,bthd->bhst")
    c.node("Conv", c.input(f(0, 3, 5, 5)), c.constant(f(2, 3, 3, 3)), c.constant(f(2)))
    c.node("MaxPool", c.input(f(0, 3, 5, 5)), kernel_shape=[2, 2])
    c.node("AveragePool", c.input(f(0, 3, 5, 5)), kernel_shape=[2, 2])
    check(c, tmp_path)


def test_no_output_has_elements(tmp_path: Path) -> None:
    c = Cases()
    c.node("Relu", c.input(f(0, 3)))
    check(c, tmp_path)


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    b = Builder("net")
    empty, x = b.input("empty", (2, 0)), b.input("x", (2,))
    net = b.finish([empty, b.op("relu", x), empty])
    module = tw.compile(net, TARGET)
    first, y, second = module.run({"empty": f(2, 0), "x": np.float32([-1, 1])})
    assert first.shape == second.shape == (2, 0)
    np.testing.assert_array_equal(y, [0, 1])


@pytest.mark.parametrize(
    ("op", "shape", "more", "attrs"),
    [
        ("ArgMax", (2, 0), (), {"axis": 1}),
        ("GlobalMaxPool", (1, 2, 0, 3), (), {}),
        ("Gather", (0, 2), (np.int64([0]),), {}),
        ("Conv", (1, 3, 2, 2), (f(2, 3, 3, 3),), {}),
        ("Pad", (0, 2), (np.int64([1, 0, 0, 0]),), {"mode": "edge"}),
    ],
)
def test_what_has_no_result(
    op: str, shape: tuple[int, ...], more: Sequence[np.ndarray], attrs: dict[str, Any]
) -> None:
    c = Cases()
    c.node(op, c.input(f(*shape)), *(c.constant(x, str(x.dtype)) for x in more), **attrs)
    with pytest.raises(NetworkError, match=op):
        from_onnx(c.model(), {"x0": shape})
