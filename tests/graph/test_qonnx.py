"""Operators of QONNX, by what its package computes for them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilework as tw
from tests.graph.test_onnx_errors import refused
from tilework.graph import from_onnx
from tilework.graph.passes import optimize

DOMAIN = "qonnx.custom_op.general"
F32 = np.float32


def quant(x, scale, zero, bits, signed=1, narrow=0, rounding_mode="ROUND"):
    """`qonnx.custom_op.general.intquant.int_quant`, rounding by one of NumPy's functions."""
    by = {"ROUND": np.round, "CEIL": np.ceil, "FLOOR": np.floor}[rounding_mode]
    y = x / scale + zero
    if signed and bits == 1:
        return ((np.where(y >= 0, 1, -1) - zero) * scale).astype(F32)
    low = -(2 ** (bits - 1)) + narrow if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1 - narrow
    return ((by(np.clip(y, low, high)) - zero) * scale).astype(F32)


class File:
    """A model that grows node by node."""

    def __init__(self, shape):
        self.shape, self.nodes, self.tensors = shape, [], []

    def const(self, array):
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array, F32), name))
        return name

    def add(self, op, *inputs, domain="", **attrs):
        name = f"n{len(self.nodes)}"
        node = helper.make_node(op, inputs, [name], name=name, domain=domain, **attrs)
        self.nodes.append(node)
        return name

    def quant(self, x, scale, zero, bits, **attrs):
        return self.add("Quant", x, *map(self.const, (scale, zero, bits)), domain=DOMAIN, **attrs)

    def model(self, y):
        ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        out = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "q", ends, out, self.tensors)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def network(self, y, path):
        onnx.save(self.model(y), path / "q.onnx")
        return from_onnx(path / "q.onnx")


def computed(net, x):
    got = tw.compile(net, target="llvm -num-cores=1").run(x)
    return got[0] if isinstance(got, tuple | list) else got


CASES = [
    (0.3, 0, 8, {}),
    (0.3, 0, 8, {"narrow": 1}),
    (0.3, 0, 8, {"signed": 0}),
    (0.3, 0, 8, {"signed": 0, "narrow": 1}),
    ([[0.5], [0.25], [0.125], [1.0]], 0, 4, {}),
    (0.5, 0, 1, {"signed": 0}),
    (0.5, 0, 1, {}),
    (0.5, 3, 4, {"signed": 0}),
    (0.25, 0, 3, {"rounding_mode": "FLOOR"}),
    (0.25, 0, 3, {"rounding_mode": "CEIL"}),
    (0.01, 0, 12, {}),
]


@pytest.mark.parametrize(("scale", "zero", "bits", "attrs"), CASES)
def test_numbers_of_any_bits(scale, zero, bits, attrs, tmp_path):
    x = np.linspace(-6, 6, 4 * 25, dtype=F32).reshape(4, 25)
    f = File(x.shape)
    y = f.quant("x", scale, zero, bits, **attrs)
    want = quant(x, np.asarray(scale, F32), F32(zero), bits, **attrs)
    np.testing.assert_array_equal(computed(f.network(y, tmp_path), x), want)


def test_products_are_products_of_bytes_and_a_bias_stays_float(tmp_path):
    """Of 2 bits, rounding it to the scale of the sums would be seen."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 24)).astype(F32), rng.standard_normal((16, 24)).astype(F32)
    bias, own = rng.standard_normal(16).astype(F32), np.full((16, 1), 0.7, F32)
    f = File(x.shape)
    data = f.quant("x", 0.8, 0, 2)
    weights = f.quant(f.const(w), own, 0, 2, narrow=1)
    product = f.add("Gemm", data, weights, f.const(bias), transB=1)
    y = f.quant(f.add("Relu", product), 0.9, 0, 4, signed=0)
    net = f.network(y, tmp_path)
    assert [n.attrs["sums"] for n in optimize(net).nodes if n.op == "dense"] == ["int32"]
    sums = quant(x, F32(0.8), 0, 2) @ quant(w, own, 0, 2, narrow=1).T + bias
    want = quant(np.maximum(sums, 0), F32(0.9), 0, 4, signed=0)
    np.testing.assert_allclose(computed(net, x), want, rtol=1e-6)


def test_two_values(tmp_path):
    x = np.array([[-2, -0.0, 0, 3]], F32)
    f = File(x.shape)
    y = f.add("BipolarQuant", "x", f.const(0.5), domain=DOMAIN)
    np.testing.assert_array_equal(
        computed(f.network(y, tmp_path), x), np.array([[-0.5, 0.5, 0.5, 0.5]], F32)
    )


BAD = {
    "bits": ((0.5, 0, 2.5), {}, "numbers of [2.5] bits are not supported"),
    "rounding": ((0.5, 0, 4), {"rounding_mode": "HALF_UP"}, "rounding_mode 'HALF_UP'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_taken_is_refused_with_one_line(case, tmp_path):
    parts, attrs, why = BAD[case]
    f = File((2, 3))
    assert why in refused(f.model(f.quant("x", *parts, **attrs)), tmp_path)


def test_other_operators_are_refused_with_one_line(tmp_path):
    f = File((2, 3))
    y = f.add("Trunc", "x", *(f.const(n) for n in (0.5, 0, 8, 4)), domain=DOMAIN)
    assert f"unsupported: {DOMAIN}.Trunc" in refused(f.model(y), tmp_path)
