"""Products of any rank as ONNX files spell them, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.graph.onnx_models import GraphMaker, save
from tests.graph.run_plan import run_plan
from tests.graph.test_onnx_operators import RNG, check, check_export, f32
from tilework.graph import from_onnx

SHAPES = [
    ((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)), ((4, 5), (5, 3)), ((2, 4, 5), (5,)),
    ((5,), (2, 5, 3)), ((2, 4, 5), (5, 3)), ((4, 5), (2, 5, 3)), ((2, 4, 5), (2, 5, 3)),
    ((1, 4, 5), (3, 5, 2)), ((3, 4, 5), (1, 5, 2)), ((2, 1, 4, 5), (3, 5, 6)),
    ((2, 3, 4, 5), (2, 3, 5, 6)), ((3, 1, 1, 5), (2, 5, 1)), ((2, 1, 3, 1, 5), (4, 1, 5, 7)),
]  # fmt: skip


@pytest.mark.parametrize("constant", [None, 0, 1])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_matmul(
    a: tuple[int, ...], b: tuple[int, ...], constant: int | None, tmp_path: Path
) -> None:
    g = GraphMaker()
    shapes = {"x": a, "y": b}
    names = list(shapes)
    if constant is not None:
        del shapes[names[constant]]
        names[constant] = g.weight(f32(*(a, b)[constant]))
    g.node("MatMul", *names)
    check(tmp_path, g, shapes)


@pytest.mark.parametrize("bias", [None, (), (1,), (6,), (1, 6), (4, 1), (4, 6)])
@pytest.mark.parametrize("trial", range(4))
def test_gemm(bias: tuple[int, ...] | None, trial: int, tmp_path: Path) -> None:
    trans_a, trans_b = trial % 2, trial // 2
    g = GraphMaker()
    shapes = {"x": (5, 4) if trans_a else (4, 5)}
    weight = (6, 5) if trans_b else (5, 6)
    if trial in (0, 3):
        shapes["w"] = weight
    inputs = ["w" if "w" in shapes else g.weight(f32(*weight))]
    if bias is not None:
        if trial == 2:
            shapes["c"] = bias or (1,)
        inputs.append("c" if trial == 2 else g.weight(f32(*bias)))
    g.node("Gemm", "x", *inputs, transA=trans_a, transB=trans_b, alpha=0.5, beta=-1.5)
    check(tmp_path, g, shapes, opset=11)


@pytest.mark.parametrize("points", ["none", "scalars", "rows and columns"])
@pytest.mark.parametrize("shapes", [((4, 5), (5, 6)), ((2, 4, 5), (2, 5, 6))], ids=["2", "3"])
def test_matmul_integer(shapes: tuple[tuple[int, ...], ...], points: str, tmp_path: Path) -> None:
    g = GraphMaker()
    a, b = (RNG.integers(0, 256, s).astype(np.uint8) for s in shapes)
    zeros = [np.uint8(3), np.uint8(200)]
    if points == "rows and columns":
        zeros = [RNG.integers(0, 256, n).astype(np.uint8) for n in (4, 6)]
    inputs = [g.weight(b), *(g.weight(z) for z in zeros if points != "none")]
    y = g.node("MatMulInteger", "x", *inputs)
    out = helper.make_tensor_value_info(y, TensorProto.INT32, None)
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, shapes[0])
    graph = helper.make_graph(g.nodes, "net", [x], [out], g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = save(model, tmp_path / "op.onnx")
    rows, columns = (z.astype(np.int32) * (points != "none") for z in zeros)
    want = (a - rows.reshape(-1, 1)) @ (b - columns)
    (got,) = run_plan(from_onnx(path), a)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("size", "between"), [(64, "float32"), (258, "float32"), (259, "int32")])
def test_integers_are_multiplied_as_floats_where_that_is_exact(size: int, between: str) -> None:
    """Both factors are computed; all numbers are as far from their zero points as they may be."""
    node = helper.make_node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])
    given = [("x", TensorProto.UINT8, [3, size]), ("w", TensorProto.INT8, [size, 4])]
    zeros = {"zx": np.uint8(0), "zw": np.int8(-128)}
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info(*v) for v in given],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.asarray(z), n) for n, z in zeros.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net = from_onnx(model)
    (product,) = [n for n in net.nodes if n.op == "matmul"]
    assert net.types[product.inputs[0]].dtype == between
    x, w = np.full((3, size), 255, np.uint8), np.full((size, 4), 127, np.int8)
    x[:, 1::5], w[::7] = 254, 126
    (got,) = run_plan(net, x, w)
    want = x.astype(np.int64) @ (w.astype(np.int64) + 128)
    np.testing.assert_array_equal(got, want)


EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bshd,bthd->bhst", (2, 5, 3, 4), (2, 6, 3, 4)),
    ("bhst,bthd->bshd", (2, 3, 5, 6), (2, 6, 3, 4)),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("i,j->ij", (3,), (4,)),
    ("i,i->i", (4,), (4,)), ("ij,kj->ki", (3, 4), (5, 4)), ("ij,ij->", (3, 4), (3, 4)),
    ("ij,k->jk", (3, 4), (5,)), ("ij->ji", (3, 4)), ("ij->i", (3, 4)), ("ij->", (3, 4)),
    ("...ii->...i", (2, 3, 3)), ("iij,jk->ik", (3, 3, 4), (4, 5)), ("Ab,bA->A", (3, 4), (4, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)), (" i j , j -> i ", (3, 4), (4,)),
    ("bxi,bi,xy->by", (2, 3, 4), (2, 4), (3, 5)),
]  # fmt: skip


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum(case: tuple, constant: bool, tmp_path: Path) -> None:
    equation, *operands = case
    g = GraphMaker()
    shapes = {f"x{i}": s for i, s in enumerate(operands)}
    names = list(shapes)
    if constant and len(names) > 1:
        names[0] = g.weight(f32(*shapes.pop("x0")))
    g.node("Einsum", *names, equation=equation)
    check(tmp_path, g, shapes)
    if len(shapes) == 1:
        check_export(tmp_path, np.asarray(f32(*next(iter(shapes.values())))))
