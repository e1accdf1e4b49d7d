"""Every imported operator over random shapes, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.graph.onnx_models import GraphMaker, save
from tests.graph.run_plan import relative_error, run_onnxruntime, run_plan
from tilework.graph import from_onnx

RNG = np.random.default_rng(0)


def check(
    tmp_path: Path, g: GraphMaker, shapes: dict[str, tuple[int, ...]], opset: int = 17
) -> None:
    """Import the model whose last node's output is the result, and compare."""
    out = g.nodes[-1].output[0]
    model = g.model(shapes, {out: None}, opset=opset)
    path = save(model, tmp_path / "op.onnx")
    inputs = [RNG.uniform(0.1, 2.0, s).astype(np.float32) * _signs(s) for s in shapes.values()]
    (want,) = run_onnxruntime(path, *inputs)
    (got,) = run_plan(from_onnx(path), *inputs)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert relative_error(np.nan_to_num(got), np.nan_to_num(want)) < 1e-5


def check_export(tmp_path: Path, x: np.ndarray) -> None:
    """What `check` imported last means the same as an ONNX file written again."""
    net = from_onnx(tmp_path / "op.onnx")
    net.to_onnx(tmp_path / "again.onnx")
    (want,) = run_onnxruntime(tmp_path / "op.onnx", x)
    (got,) = run_onnxruntime(tmp_path / "again.onnx", x)
    assert relative_error(got, want) < 1e-6


def _signs(shape: tuple[int, ...]) -> np.ndarray:
    return RNG.choice(np.array([-1, 1], np.float32), shape)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("trial", range(12))
def test_conv(trial: int, tmp_path: Path) -> None:
    r = np.random.default_rng(trial)
    n, ci, co = (int(v) for v in r.integers(1, 6, 3))
    kernel, stride, dilation = (r.integers(1, 4, 2).tolist() for _ in range(3))
    pads = r.integers(0, 3, 4).tolist()
    size = tuple(int(v) for v in r.integers(9, 14, 2))
    attrs: dict[str, object] = {"kernel_shape": kernel, "strides": stride, "dilations": dilation}
    auto = [None, "SAME_UPPER", "SAME_LOWER", "VALID"][trial % 4]
    if auto:
        attrs |= {"auto_pad": auto, "dilations": [1, 1]}
    else:
        attrs["pads"] = pads
    g = GraphMaker()
    inputs = [g.weight(f32(co, ci, *kernel))] + [g.weight(f32(co))] * (trial % 2)
    g.node("Conv", "x", *inputs, **attrs)
    check(tmp_path, g, {"x": (n, ci, *size)})


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["plain", "depthwise", "multiplier", "grouped"])
@pytest.mark.parametrize("trial", range(3))
def test_conv_of_any_rank_and_groups(rank: int, kind: str, trial: int, tmp_path: Path) -> None:
    r = np.random.default_rng([rank, trial])
    groups = {"plain": 1, "depthwise": 7, "multiplier": 5, "grouped": 3}[kind]
    ci, co = {"plain": (3, 5), "depthwise": (1, 1), "multiplier": (1, 2), "grouped": (2, 4)}[kind]
    kernel, stride, dilation = (r.integers(1, 4, rank).tolist() for _ in range(3))
    attrs: dict[str, object] = {"kernel_shape": kernel, "strides": stride, "group": groups}
    if trial == 2:
        attrs["auto_pad"] = "SAME_LOWER"
    else:
        attrs |= {"dilations": dilation, "pads": r.integers(0, 3, 2 * rank).tolist()}
    g = GraphMaker()
    weight, bias = (g.weight(f32(groups * co, *s)) for s in ((ci, *kernel), ()))
    y = g.node("Conv", g.batch_norm("x", groups * ci), weight, bias, **attrs)
    g.node("Relu", g.batch_norm(y, groups * co))
    shape = (2, groups * ci, *(int(v) for v in r.integers(7, 12, rank)))
    check(tmp_path, g, {"x": shape})
    check_export(tmp_path, f32(*shape))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("trial", range(3))
def test_pool_of_any_rank(op: str, rank: int, trial: int, tmp_path: Path) -> None:
    r = np.random.default_rng([rank, trial])
    attrs: dict[str, object] = {}
    if not op.startswith("Global"):
        kernel = r.integers(2, 4, rank).tolist()
        attrs = {
            "kernel_shape": kernel,
            "strides": r.integers(1, 4, rank).tolist(),
            "pads": [int(r.integers(0, k)) for k in (*kernel, *kernel)],
            "ceil_mode": trial % 2,
        }
    g = GraphMaker()
    g.node(op, g.node("Mul", "x", g.weight(f32(3, *(1 for _ in range(rank))))), **attrs)
    shape = (2, 3, *(int(v) for v in r.integers(7, 10, rank)))
    check(tmp_path, g, {"x": shape})
    check_export(tmp_path, f32(*shape))


def test_mean_over_time(tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("ReduceMean", "x", axes=[2], keepdims=0)
    check(tmp_path, g, {"x": (2, 5, 7)}, 13)


def test_residual_behind_groups(tmp_path: Path) -> None:
    """Elementwise operators of one and of two values behind a grouped convolution."""
    g = GraphMaker()
    w = g.weight(f32(6, 2, 3, 3))
    y = g.node("Conv", "x", w, group=3, pads=[1, 1, 1, 1])
    y = g.node("Clip", g.node("Mul", y, g.weight(f32(1))), g.weight(np.float32(-1)))
    g.node("Relu", g.node("Add", g.node("Add", y, g.weight(f32(5, 6))), "x"))
    check(tmp_path, g, {"x": (2, 6, 5, 6)})


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("trial", range(8))
def test_pool(op: str, trial: int, tmp_path: Path) -> None:
    r = np.random.default_rng(trial)
    kernel = r.integers(2, 5, 2).tolist()
    attrs: dict[str, object] = {
        "kernel_shape": kernel,
        "strides": r.integers(1, 4, 2).tolist(),
        "pads": [int(r.integers(0, k)) for k in (*kernel, *kernel)],
        "ceil_mode": trial % 2,
    }
    if op == "AveragePool" and trial % 4 == 2:
        attrs["count_include_pad"] = 1
    g = GraphMaker()
    g.node(op, "x", **attrs)
    check(tmp_path, g, {"x": (2, 3, *(int(v) for v in r.integers(8, 13, 2)))})


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pool(op: str, tmp_path: Path) -> None:
    g = GraphMaker()
    g.node(op, "x")
    check(tmp_path, g, {"x": (2, 5, 7, 3)})


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("opset", [13, 18])
def test_spatial_mean(keepdims: int, opset: int, tmp_path: Path) -> None:
    g = GraphMaker()
    if opset == 13:
        g.node("ReduceMean", "x", axes=[-1, 2], keepdims=keepdims)
    else:
        g.node("ReduceMean", "x", g.weight(np.array([2, 3])), keepdims=keepdims)
    check(tmp_path, g, {"x": (2, 5, 4, 3)}, opset)


@pytest.mark.parametrize(
    "op", ["Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Log", "Abs", "Erf", "Floor", "Ceil", "Neg",
           "Reciprocal", "Identity", "Dropout"],
)  # fmt: skip
def test_unary(op: str, tmp_path: Path) -> None:
    g = GraphMaker()
    g.node(op, "x")
    check(tmp_path, g, {"x": (3, 4, 5)})


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("kind", ["same", "channel", "scalar", "row", "two inputs", "left"])
def test_binary(op: str, kind: str, tmp_path: Path) -> None:
    g = GraphMaker()
    constants = {"same": (2, 3, 4, 5), "channel": (3, 1, 1), "scalar": (), "row": (5,)}
    if kind == "two inputs":
        g.node(op, "x", "y")
        check(tmp_path, g, {"x": (2, 3, 4, 5), "y": (2, 3, 1, 1)})
        return
    c = g.weight(f32(*constants.get(kind, (3, 1, 1))))
    g.node(op, *((c, "x") if kind == "left" else ("x", c)))
    check(tmp_path, g, {"x": (2, 3, 4, 5)})


def test_sum_of_three(tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("Sum", "x", "y", "z")
    check(tmp_path, g, {"x": (2, 3), "y": (1, 3), "z": (2, 1)})


@pytest.mark.parametrize("opset", [9, 11, 17])
def test_clip(opset: int, tmp_path: Path) -> None:
    for low, high in ((0.0, 6.0), (-0.5, None), (None, 0.5)):
        g = GraphMaker()
        if opset == 9:
            ends = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
            g.node("Clip", "x", **ends)
        else:
            names = ["" if v is None else g.weight(np.asarray(v, np.float32)) for v in (low, high)]
            g.node("Clip", "x", *names)
        check(tmp_path, g, {"x": (3, 7)}, opset)


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("constant", [True, False])
def test_gemm(trans_a: int, trans_b: int, constant: bool, tmp_path: Path) -> None:
    g = GraphMaker()
    a, b = ((6, 4), (4, 6))[trans_a], ((6, 5), (5, 6))[trans_b]
    attrs = {"transA": 1 - trans_a, "transB": trans_b, "alpha": 0.5, "beta": 2.0}
    if constant:
        g.node("Gemm", "x", g.weight(f32(*b)), g.weight(f32(5)), **attrs)
        check(tmp_path, g, {"x": a})
    else:
        g.node("Gemm", "x", "y", "z", **attrs)
        check(tmp_path, g, {"x": a, "y": b, "z": (4, 5)})


@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8), (2, 1, 3, 8)])
def test_matmul_by_a_matrix(shape: tuple[int, ...], tmp_path: Path) -> None:
    g = GraphMaker()
    y = g.node("MatMul", "x", g.weight(f32(8, 5)))
    g.node("Add", g.weight(f32(5)), y)
    check(tmp_path, g, {"x": shape})


def test_matmul_of_two_inputs(tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("MatMul", "x", "y")
    check(tmp_path, g, {"x": (3, 8), "y": (8, 2)})


@pytest.mark.parametrize("opset", [9, 11, 13, 17])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
def test_softmax(opset: int, axis: int | None, tmp_path: Path) -> None:
    if opset < 11 and axis == -1:
        pytest.skip("negative axes came with opset 11")
    g = GraphMaker()
    g.node("Softmax", "x", **({} if axis is None else {"axis": axis}))
    check(tmp_path, g, {"x": (3, 4, 5)}, opset)


def test_softmax_of_a_vector(tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("Softmax", "x", axis=0)
    check(tmp_path, g, {"x": (9,)})


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_batch_norm(rank: int, tmp_path: Path) -> None:
    g = GraphMaker()
    g.batch_norm("x", 6)
    check(tmp_path, g, {"x": (2, 6, 3, 5)[:rank]})


@pytest.mark.parametrize(
    ("shape", "target"), [((2, 3, 4, 5), (0, -1)), ((2, 3, 4, 5), (4, 0, 10)), ((12,), (3, 4))]
)
def test_reshape(shape: tuple[int, ...], target: tuple[int, ...], tmp_path: Path) -> None:
    g = GraphMaker()
    y = g.node("Reshape", "x", g.weight(np.asarray(target, np.int64)))
    g.node("Relu", y)
    check(tmp_path, g, {"x": shape})


@pytest.mark.parametrize("axis", [0, 1, 2, 4, -1])
def test_flatten(axis: int, tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("Relu", g.node("Flatten", "x", axis=axis))
    check(tmp_path, g, {"x": (2, 3, 4, 5)})


@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (3, 1, 0, 2), (0, 1, 2, 3)])
def test_transpose(perm: tuple[int, ...], tmp_path: Path) -> None:
    g = GraphMaker()
    g.node("Transpose", g.node("Relu", "x"), perm=list(perm))
    check(tmp_path, g, {"x": (2, 3, 4, 5)})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int, tmp_path: Path) -> None:
    shapes = {}
    for name, extent in (("x", 3), ("y", 1), ("z", 2)):
        shape = [2, 3, 4]
        shape[axis] = extent
        shapes[name] = tuple(shape)
    g = GraphMaker()
    g.node("Concat", "x", "y", "z", axis=axis)
    check(tmp_path, g, shapes)


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_pad(value: float, tmp_path: Path) -> None:
    g = GraphMaker()
    pads, v = g.weight(np.array([0, 0, 1, 2, 0, 0, 3, 0])), g.weight(np.float32(value))
    y = g.node("Pad", "x", pads, v)
    g.conv(y, 3, 4, 3)
    check(tmp_path, g, {"x": (1, 3, 6, 7)})


def test_squeeze_and_unsqueeze(tmp_path: Path) -> None:
    g = GraphMaker()
    y = g.node("Squeeze", "x", g.weight(np.array([1, -1])))
    y = g.node("Unsqueeze", y, g.weight(np.array([0, 3])))
    g.node("Relu", y)
    check(tmp_path, g, {"x": (3, 1, 4, 1)})


def test_shape_arithmetic(tmp_path: Path) -> None:
    """The flatten that older exporters write."""
    g = GraphMaker()
    x = g.conv("x", 3, 4, 3)
    batch = g.node("Gather", g.node("Shape", x), g.weight(np.array(0)), axis=0)
    batch = g.node("Unsqueeze", batch, g.weight(np.array([0])))
    shape = g.node("Concat", batch, g.weight(np.array([-1])), axis=0)
    g.gemm(g.node("Reshape", x, shape), 4 * 25, 6)
    check(tmp_path, g, {"x": (2, 3, 5, 5)})


def test_constant_nodes(tmp_path: Path) -> None:
    g = GraphMaker()
    tensor = helper.make_tensor("t", TensorProto.FLOAT, [2], [1.0, 2.0])
    a, b = g.node("Constant", value=tensor), g.node("Constant", value_float=3.0)
    y = g.node("Mul", g.node("Add", "x", a), b)
    g.node("Add", y, g.node("Transpose", g.node("Exp", g.weight(f32(2, 2)))))
    check(tmp_path, g, {"x": (2, 2)})


def test_mixed_layouts(tmp_path: Path) -> None:
    """Operators around convolutions that follow them to NHWC, or cannot."""
    g = GraphMaker()
    x = g.conv(g.node("Mul", "x", g.weight(f32(1, 3, 1, 1))), 3, 4, 3, bias=True)
    y = g.node("Concat", x, g.node("Tanh", x), axis=1)
    y = g.node("Softmax", y, axis=1)
    z = g.node("Transpose", y, perm=[0, 1, 3, 2])
    y = g.node("Add", g.node("AveragePool", y, kernel_shape=[2, 2]), g.weight(f32(8, 1, 1)))
    y = g.node("Mul", y, g.node("Sigmoid", g.node("GlobalAveragePool", y)))
    z = g.node("MaxPool", z, kernel_shape=[2, 2])
    g.node("Flatten", g.node("Sub", y, z))
    check(tmp_path, g, {"x": (2, 3, 6, 6)})
