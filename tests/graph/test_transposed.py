"""Transposed convolutions against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilework as tw
from tests.graph.onnx_models import GraphMaker, save
from tests.graph.operator_cases import Cases
from tests.graph.run_plan import relative_error, run_onnxruntime
from tests.lower.check import check_dag
from tilework import te
from tilework.errors import NetworkError
from tilework.graph import from_onnx, plan
from tilework.graph.ir import Builder
from tilework.ops import phase_weights
from tilework.ops.transposed import KINDS, phase_weights_of


@pytest.mark.parametrize("seed", range(5))
def test_all_attributes(seed: int, tmp_path: Path) -> None:
    r = np.random.default_rng(seed)
    c = Cases()
    for rank in (1, 2, 3):
        groups, ci, co = ((1, 3, 4), (2, 2, 3), (5, 1, 1))[(seed + rank) % 3]
        kernel, strides = r.integers(1, 5, rank).tolist(), r.integers(1, 4, rank).tolist()
        dilation = r.integers(1, 3, rank).tolist()
        size = r.integers(3, 7, rank).tolist()
        attrs = {"strides": strides, "dilations": dilation, "group": groups}
        reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
        whole = [(n - 1) * s + e for n, s, e in zip(size, strides, reach, strict=True)]
        if seed == 0:
            attrs["pads"] = [int(r.integers(0, e)) for e in (*reach, *reach)]
            more = [int(r.integers(0, max(s, d))) for s, d in zip(strides, dilation, strict=True)]
            attrs["output_padding"] = more
        elif seed == 1:
            attrs["auto_pad"] = ("SAME_UPPER", "SAME_LOWER", "VALID")[rank - 1]
        elif seed == 2:
            attrs["output_shape"] = [
                n - int(r.integers(0, e)) for n, e in zip(whole, reach, strict=True)
            ]
        else:
            attrs["pads"] = [int(r.integers(0, (e + 1) // 2)) for e in (*reach, *reach)]
        x = c.input(r.standard_normal((2, groups * ci, *size)).astype(np.float32))
        weight = r.standard_normal((groups * ci, co, *kernel)).astype(np.float32)
        w = c.input(weight) if seed == 3 else c.constant(weight)
        bias = [c.constant(r.standard_normal(groups * co))] * (rank % 2)
        c.node("ConvTranspose", x, w, *bias, **attrs)
    c.check(tmp_path)


@pytest.mark.parametrize("groups", [1, 6])
@pytest.mark.parametrize("extra", [0, 1])
def test_scales_fold_and_epilogues_fuse(groups: int, extra: int, tmp_path: Path) -> None:
    g = GraphMaker()
    r = np.random.default_rng(0)
    w = g.weight(r.standard_normal((6, 6 // groups, 3, 3)).astype(np.float32))
    y = g.batch_norm("x", 6)
    y = g.node("ConvTranspose", y, w, strides=[2, 2], pads=[1] * 4, output_padding=[extra] * 2,
               group=groups)  # fmt: skip
    g.relu(g.batch_norm(y, 6))
    model = g.model({"x": (1, 6, 5, 7)}, {g.nodes[-1].output[0]: None})
    path = save(model, tmp_path / "net.onnx")
    names = [call.name for call in plan(from_onnx(path)).calls]
    if extra:  # the extents are multiples of the strides
        assert "phase_conv2d_add_relu" in names
    assert not any("multiply" in name for name in names[1:])
    x = r.standard_normal((1, 6, 5, 7)).astype(np.float32)
    (want,) = run_onnxruntime(path, x)
    (got,) = tw.compile(from_onnx(path), "llvm -mcpu=native").run(x)
    assert relative_error(got, want) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_weights_by_phase_as_array_and_as_expression(kind: str) -> None:
    r = np.random.default_rng(1)
    groups = {"plain": 1, "grouped": 2, "depthwise": 4}[kind]
    weight = r.standard_normal((4, 3, 1 if kind == "depthwise" else 3, 4)).astype(np.float32)
    args = ((2, 3), (1, 2), (1, 2), groups, kind)
    w = te.placeholder(weight.shape, "w")
    (want,) = te.evaluate(te.ComputeDAG([w, phase_weights(w, *args)]), [weight])
    np.testing.assert_array_equal(phase_weights_of(weight, *args), want)


def test_every_sketch_of_a_phase_convolution(tmp_path: Path) -> None:
    g = GraphMaker()
    r = np.random.default_rng(2)
    w = g.weight(r.standard_normal((5, 16, 5, 5)).astype(np.float32))
    g.node("ConvTranspose", "x", w, strides=[2, 2], pads=[2] * 4, output_padding=[1, 1])
    path = save(g.model({"x": (1, 5, 6, 6)}, {g.nodes[-1].output[0]: None}), tmp_path / "c.onnx")
    (call,) = [c for c in plan(from_onnx(path)).calls if "phase_conv2d" in c.name]
    check_dag(call.dag, 3, sketches=4, rows=1)


def test_bad_weights() -> None:
    b = Builder("bad")
    x, w = b.input("x", (1, 4, 5, 5)), b.input("w", (3, 2, 3, 3))
    attrs = {"strides": (2, 2), "pads": (0,) * 4, "dilation": (1, 1), "output_padding": (0, 0)}
    with pytest.raises(NetworkError, match="the data has 4 channels but the weights expect 3"):
        b.op("conv_transpose2d", x, w, layout="NCHW", **attrs)
    v = b.input("v", (4, 2, 3, 3))
    with pytest.raises(NetworkError, match="3 groups do not divide 4 input channels"):
        b.op("conv_transpose2d", x, v, layout="NCHW", groups=3, **attrs)
    with pytest.raises(NetworkError, match=r"the result would have shape"):
        b.op("conv_transpose2d", x, v, layout="NCHW", **{**attrs, "pads": (9,) * 4})
