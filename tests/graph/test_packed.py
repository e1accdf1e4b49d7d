"""Weights of 4 and 8 bits: against NumPy in float64 and against ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import tilework as tw
from tests.graph.packed_models import Problem, by_runtime, dequantised, model_of
from tests.graph.test_onnx_errors import refused
from tests.hosts import x86
from tilework.graph import Network, from_onnx
from tilework.graph.passes import optimize

Array = np.ndarray
CLOSE = {"float32": 1e-6, "float16": 2e-3}
"""Errors, as parts of the sum of magnitudes; ONNX Runtime sums float16 in float16."""


def network(model: onnx.ModelProto, path: Path, **kwargs: Any) -> Network:
    onnx.save(model, path / "packed.onnx")
    return from_onnx(path / "packed.onnx", **kwargs)


def packed_products(net: Network) -> list[str]:
    return [n.name for n in optimize(net).nodes if n.op == "packed_dense"]


def run(net: Network, x: Array, target: str = "llvm -num-cores=1") -> Array:
    got = tw.compile(net, target=target).run(x)
    return got[0] if isinstance(got, tuple | list) else got


def assert_close(got: Array, want: Array, p: Problem) -> None:
    assert got.shape == want.shape
    apart = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    assert apart <= CLOSE[p.dtype] * p.size()


problems = st.builds(
    Problem,
    rows=st.integers(1, 9),
    k=st.integers(1, 150),
    n=st.integers(1, 70),
    bits=st.sampled_from([2, 4, 8]),
    block=st.sampled_from([16, 32, 64, 128, 256]),
    zeros=st.sampled_from(["none", "packed", "float"]),
    bias=st.booleans(),
    seed=st.integers(0, 1000),
)


@given(p=problems)
@settings(max_examples=15)
def test_products_are_those_of_numpy(p, tmp_path_factory):
    net = network(p.model(), tmp_path_factory.mktemp("packed"))
    assert packed_products(net)
    assert_close(run(net, p.arrays()["x"]), p.expected(), p)


TAKEN = [
    *((4, block, zeros) for block in (16, 32, 128) for zeros in ("none", "packed", "float")),
    *((8, block, zeros) for block in (32, 64) for zeros in ("none", "packed")),
    *((2, block, zeros) for block in (32, 64) for zeros in ("none", "packed")),
]
"""Bits, block and zero points that ONNX Runtime computes with on a CPU."""


@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize(("bits", "block", "zeros"), TAKEN)
def test_products_are_those_of_onnx_runtime(bits, block, zeros, rows, tmp_path):
    p = Problem(rows, 256, 48, bits, block, zeros, bias=True)
    x, model = p.arrays()["x"], p.model()
    assert_close(run(network(model, tmp_path), x), by_runtime(model, x), p)


@pytest.mark.parametrize("rows", [1, 5])
def test_levels_of_accuracy_below_4_are_computed_in_float32(rows, tmp_path):
    for level in range(4):
        p = Problem(rows, 128, 32, level=level)
        assert_close(run(network(p.model(), tmp_path), p.arrays()["x"]), p.expected(), p)


@pytest.mark.parametrize("zeros", ["none", "packed"])
def test_float16(zeros, tmp_path):
    p = Problem(3, 96, 40, zeros=zeros, dtype="float16", bias=True)
    x, model = p.arrays()["x"], p.model()
    got = run(network(model, tmp_path), x)
    assert got.dtype == np.float16
    assert_close(got, p.expected(), p)
    assert_close(got, by_runtime(model, x), p)


@pytest.mark.parametrize("target", ["reference", x86("haswell", 1), x86("x86-64", 2)])
@pytest.mark.parametrize("bits", [4, 8])
def test_other_machines(target, bits, tmp_path):
    p = Problem(5, 100, 37, bits, zeros="packed", bias=True)
    assert_close(run(network(p.model(), tmp_path), p.arrays()["x"], target), p.expected(), p)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed"])
def test_extremes(bits, zeros, tmp_path):
    """The least and the greatest of each, in all places of a word."""
    p = Problem(4, 64, 33, bits, zeros=zeros)
    a, top = p.arrays(), (1 << bits) - 1
    whole = np.where(np.arange(a["whole"].size) % 3 == 0, 0, top).astype(np.uint8)
    points = None if a["zeros"] is None else np.where(a["zeros"] % 2, 0, top).astype(np.uint8)
    extreme = replace(p, given={"whole": whole.reshape(a["whole"].shape), "zeros": points})
    assert_close(run(network(extreme.model(), tmp_path), a["x"]), extreme.expected(), p)


def test_rows_that_a_run_brings(tmp_path):
    p = Problem(9, 100, 48, zeros="packed", bias=True)
    net = network(p.model(rows="rows"), tmp_path, shapes={"rows": "1..9:4"})
    module = tw.compile(net, target="llvm -num-cores=1")
    x, want = p.arrays()["x"], p.expected()
    for rows in (1, 2, 4, 7, 9):
        assert_close(module.run(x[:rows])[0], want[:rows], p)


# -- DequantizeLinear ---------------------------------------------------------------------------


@st.composite
def matrices(draw):
    """A dequantised matrix [K, N] of blocks along K: its model, the matrix, and rows of data."""
    kind = draw(st.sampled_from(["int4", "uint4", "int8", "uint8"]))
    block = draw(st.sampled_from([8, 16, 32, 64]))
    least = 1 if kind.endswith("4") else 2  # bytes of one block are dequantised as ever
    k, n = draw(st.integers(least, 4)) * block, draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    low, high = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128), "uint8": (0, 256)}[kind]
    whole = rng.integers(low, high, (k, n))
    scales = rng.uniform(0.01, 0.2, (k // block, n)).astype(np.float32)
    zeros = rng.integers(low, high, scales.shape) if draw(st.booleans()) else None
    wide = [np.repeat(a, block, 0) for a in (scales, scales * 0 if zeros is None else zeros)]
    dense = (whole - wide[1]) * wide[0].astype(np.float64)
    axis, product = 0, draw(st.sampled_from(["MatMul", "Gemm"]))
    if product == "Gemm":
        axis, whole, scales = 1, whole.T, scales.T
        zeros = None if zeros is None else zeros.T
    rows = draw(st.integers(1, 6))
    model = dequantised(whole, scales, zeros, kind, rows, axis=axis, block=block, product=product)
    return model, dense, rng.standard_normal((rows, k)).astype(np.float32)


@given(case=matrices())
@settings(max_examples=20)
def test_dequantised_matrices(case, tmp_path_factory):
    model, dense, x = case
    net = network(model, tmp_path_factory.mktemp("packed"))
    assert packed_products(net)
    got, limit = run(net, x), CLOSE["float32"] * (np.abs(x) @ np.abs(dense)).max()
    assert np.abs(got - x @ dense).max() <= limit
    assert np.abs(got - by_runtime(model, x)).max() <= limit


@pytest.mark.parametrize("kind", ["int4", "uint4"])
@pytest.mark.parametrize("by", ["one", "column"])
def test_matrices_of_4_bits_without_blocks(kind, by, tmp_path):
    rng = np.random.default_rng(1)
    low = -8 if kind == "int4" else 0
    whole, x = rng.integers(low, low + 16, (44, 20)), rng.standard_normal((3, 44))
    scales = rng.uniform(0.01, 0.2, 20 if by == "column" else ()).astype(np.float32)
    zeros = rng.integers(low, low + 16, scales.shape)
    model = dequantised(whole, scales, zeros, kind, 3, axis=1, block=0)
    net = network(model, tmp_path)
    assert packed_products(net)
    want = x.astype(np.float32) @ ((whole - zeros) * scales)
    assert np.abs(run(net, x.astype(np.float32)) - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("kind", ["int2", "uint2"])
def test_matrices_of_2_bits(kind, tmp_path):
    """In words of 4 bits."""
    rng, low = np.random.default_rng(1), -2 if kind == "int2" else 0
    whole, x = rng.integers(low, low + 4, (48, 20)), rng.standard_normal((3, 48))
    scales = rng.uniform(0.01, 0.2, (3, 20)).astype(np.float32)
    zeros = rng.integers(low, low + 4, scales.shape)
    model = dequantised(whole, scales, zeros, kind, 3, axis=0, block=16)
    net = network(model, tmp_path)
    assert packed_products(net)
    wide = [np.repeat(a, 16, 0) for a in (zeros, scales)]
    want = x.astype(np.float32) @ ((whole - wide[0]) * wide[1])
    assert np.abs(run(net, x.astype(np.float32)) - want).max() < 1e-5 * np.abs(want).max()


def whole_products(net: Network) -> list[str]:
    """Element types of weights that are whole numbers, multiplied by data in float."""
    net = optimize(net)
    dense = [n for n in net.nodes if n.op == "dense" and n.attrs.get("sums") == "float32"]
    return [net.types[n.inputs[1]].dtype for n in dense]


@pytest.mark.parametrize("rows", [2, "rows", 64])
@pytest.mark.parametrize(
    ("kind", "zeros", "stored"),
    [
        ("int8", (0, 1), "int8"),
        ("uint8", (128, 129), "int8"),
        ("uint8", (0, 256), "int16"),
        ("int8", (-128, 128), "int16"),
    ],
)
@pytest.mark.parametrize("by", ["one", "column"])
def test_large_matrices_of_8_bits_stay_whole_numbers(by, kind, zeros, stored, rows, tmp_path):
    """Of two bytes where differences from zero points do not fit one."""
    rng, low = np.random.default_rng(1), -128 if kind == "int8" else 0
    whole = rng.integers(low, low + 256, (514, 520))
    whole[0, :2] = low, low + 255
    scales = rng.uniform(0.01, 0.2, 520 if by == "column" else ()).astype(np.float32)
    points = (
        np.full(scales.shape, 3) if zeros[1] - zeros[0] > 1 else np.full(scales.shape, zeros[0])
    )
    if by == "column":
        points = rng.integers(*zeros, scales.shape)
    model = dequantised(whole, scales, points, kind, rows, axis=1, block=0)
    shapes = {"rows": "1..64"} if rows == "rows" else None
    net = network(model, tmp_path, shapes=shapes)
    assert whole_products(net) == [stored]
    x = rng.standard_normal((rows if isinstance(rows, int) else 3, 514)).astype(np.float32)
    want = x @ ((whole - points) * scales.astype(np.float64))
    assert np.abs(run(net, x) - want).max() < 1e-5 * np.abs(want).max()
    if isinstance(rows, int):
        optimize(net).to_onnx(tmp_path / "written.onnx")
        written = by_runtime(onnx.load(tmp_path / "written.onnx"), x)
        assert np.abs(written - want).max() < 1e-5 * np.abs(want).max()


def test_large_bytes_that_are_converted_in_front_of_a_product_stay_bytes(tmp_path):
    """As exports of weights alone have them; scales are a product behind."""
    rng = np.random.default_rng(1)
    whole = rng.integers(-128, 128, (514, 520)).astype(np.int8)
    x = rng.standard_normal((2, 514)).astype(np.float32)
    cast = helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT)
    nodes = [cast, helper.make_node("MatMul", ["x", "wide"], ["y"])]
    net = network(model_of(nodes, {"w": whole}, "float32", x.shape), tmp_path)
    assert [n.op for n in optimize(net).nodes] == ["dense"] and whole_products(net) == ["int8"]
    want = x @ whole.astype(np.float64)
    assert np.abs(run(net, x) - want).max() < 1e-5 * np.abs(want).max()


def test_both_forms_make_one_network(tmp_path):
    p = Problem(3, 128, 24, zeros="packed")
    a = p.arrays()
    whole, scales, zeros = a["whole"].reshape(p.n, p.k).T, a["scales"].T, a["zeros"].T
    other = dequantised(whole, scales, zeros, "uint4", 3, axis=0, block=p.block)
    one, two = (optimize(network(m, tmp_path)) for m in (p.model(), other))
    (x,), (y,) = one.nodes, two.nodes
    assert (x.op, x.attrs) == (y.op, y.attrs)
    for u, v in zip(x.inputs[1:], y.inputs[1:], strict=True):
        np.testing.assert_array_equal(one.constants[u], two.constants[v])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed"])
def test_networks_are_written(bits, zeros, tmp_path):
    """Both before products read packed weights and after."""
    p = Problem(3, 100, 24, bits, zeros=zeros)
    x, net = p.arrays()["x"], network(p.model(), tmp_path)
    for written in (net, optimize(net)):
        written.to_onnx(tmp_path / "written.onnx")
        assert_close(by_runtime(onnx.load(tmp_path / "written.onnx"), x), p.expected(), p)


def test_what_no_product_reads_along_its_blocks_is_dequantised(tmp_path):
    """The factor on the left, for one."""
    rng = np.random.default_rng(0)
    whole, scales = rng.integers(-8, 8, (32, 16)), rng.uniform(0.1, 1, (32, 1))
    model = dequantised(whole, scales.astype(np.float32), None, "int4", 32, axis=1, block=16)
    net = network(model, tmp_path)
    assert not packed_products(net)
    assert not any(n.op == "unpack" for n in optimize(net).nodes)
    x = rng.standard_normal((32, 32)).astype(np.float32)
    want = x @ (whole * scales)
    assert np.abs(run(net, x) - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("table", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers_of_4_bits_from_a_table(table, dtype, tmp_path):
    """As bitsandbytes has them; blocks go on from row to row."""
    rng, (k, n, block) = np.random.default_rng(table), (40, 6, 16)
    x = rng.standard_normal((3, k)).astype(dtype)
    tensors = {"B": rng.integers(0, 256, k * n // 2).astype(np.uint8)}
    tensors["absmax"] = rng.random(k * n // block).astype(dtype)
    about = {"K": k, "N": n, "block_size": block, "quant_type": table}
    given = ["x", "B", "absmax"]
    node = helper.make_node("MatMulBnb4", given, ["y"], domain="com.microsoft", **about)
    model = model_of([node], tensors, dtype, x.shape)
    got = run(network(model, tmp_path), x)
    if dtype == "float32":  # ONNX Runtime has no other on a CPU
        want = by_runtime(model, x)
        assert np.abs(got - want).max() <= 1e-6 * np.abs(want).max()
    wide = {**tensors, "absmax": tensors["absmax"].astype(np.float32)}
    want = run(network(model_of([node], wide, "float32", x.shape), tmp_path), x.astype(np.float32))
    assert np.abs(got - want).max() <= CLOSE[dtype] * np.abs(want).max()


# -- what is kept, and what is refused ------------------------------------------------------------


@pytest.mark.parametrize("zeros", ["none", "packed"])
def test_weights_stay_packed(zeros, tmp_path):
    p = Problem(1, 512, 256, zeros=zeros)
    module = tw.compile(network(p.model(), tmp_path), target=x86("znver4", 1))
    in_file = p.k * p.n // 2 + 4 * p.blocks * p.n
    assert module.image.constants.nbytes <= 1.15 * in_file


BAD = {
    "3 bits": ({"bits": 3}, {}, "weights of 3 bits are not supported"),
    "block of 24": ({"block_size": 24}, {}, "blocks of 24 numbers"),
    "block of 8": ({"block_size": 8}, {}, "blocks of 8 numbers"),
    "no K": ({"K": 0}, {}, "a matrix of 32 x 0 numbers"),
    "other K": ({"K": 96}, {}, "do not fit K = 96"),
    "other N": ({"N": 31}, {}, "the weights 'B' are 2048 elements, and should be 1984"),
    "prepacked": ({"weight_prepacked": 1}, {}, "in the order of one machine"),
    "weights of floats": ({}, {"B": np.zeros((32, 4, 16), np.float32)}, "are float32, not uint8"),
    "few scales": ({}, {"scales": np.ones(31, np.float32)}, "are 31 elements, and should be 128"),
    "scales of float16": ({}, {"scales": np.ones(128, np.float16)}, "are float16, not float32"),
    "NaN": ({}, {"scales": np.full(128, np.nan, np.float32)}, "numbers that are not finite"),
    "few zeros": ({}, {"zeros": np.zeros(63, np.uint8)}, "are 63 elements, and should be 64"),
    "zeros of int8": ({}, {"zeros": np.zeros(64, np.int8)}, "are int8, not uint8 or float32"),
    "order": ({}, {"order": np.arange(128, dtype=np.int32) % 4}, "groups in another order"),
    "bias": ({}, {"bias": np.ones(31, np.float32)}, "do not broadcast"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_with_one_line(case, tmp_path):
    attrs, tensors, why = BAD[case]
    assert why in refused(Problem(3, 128, 32).model(others=tensors, **attrs), tmp_path)


def test_an_order_of_groups_that_says_nothing_is_taken(tmp_path):
    p, order = Problem(3, 128, 32), np.arange(128, dtype=np.int32) // 32
    model = p.model(others={"order": order})
    assert_close(run(network(model, tmp_path), p.arrays()["x"]), p.expected(), p)


@pytest.mark.parametrize("scales", [5, 3])
def test_blocks_that_do_not_fit_are_refused(scales, tmp_path):
    given = np.ones((scales, 8), np.float32)
    model = dequantised(np.zeros((64, 8)), given, None, "int4", 3, axis=0, block=16)
    assert "does not fit [64, 8] along axis 0" in refused(model, tmp_path)
