"""``MatMulNBits`` at level 4: data of 8 bits, by the rule in NumPy and as ONNX Runtime has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import tilework as tw
from tests.graph.packed_models import Problem, by_runtime
from tests.graph.test_packed import Array, network, run
from tests.hosts import x86
from tilework.graph import from_onnx
from tilework.graph.passes import optimize
from tilework.graph.plan import plan

CLOSE = {"float32": 1e-6, "float16": 1e-3}
"""Errors, as parts of the sum of magnitudes in which zero points count by themselves. Small sums
may be added term by term; those of a block at once are an order more exact."""
BLOCKS = ["block_peaks", "block_bytes", "block_scales", "block_totals", "byte_dense"]


def rounded(p: Problem) -> tuple[Array, Array]:
    """Bytes [rows, blocks, block] and their scales."""
    x = p.arrays()["x"].astype(np.float32)
    x = np.pad(x, [(0, 0), (0, p.blocks * p.block - p.k)]).reshape(p.rows, p.blocks, p.block)
    peaks = np.abs(x).max(-1)
    factors = np.divide(np.float32(127), peaks, out=np.zeros_like(peaks), where=peaks > 4e-37)
    return np.rint(x * factors[..., None]), peaks / np.float32(127)


def by_rule(p: Problem) -> Array:
    """The product of the rounded data, exact."""
    a, (q, scales) = p.arrays(), rounded(p)
    zeros = 2.0 ** (p.bits - 1) if a["zeros"] is None else a["zeros"][:, :, None]
    sums = np.einsum("mgb,ngb->mng", q.astype(np.float64), a["whole"].astype(np.float64) - zeros)
    y = np.einsum("mng,mg,ng->mn", sums, scales.astype(np.float64), a["scales"].astype(float))
    return y if a["bias"] is None else y + a["bias"]


def size(p: Problem) -> float:
    """The largest sum of magnitudes: zero points are taken from finished sums."""
    a, (q, scales) = p.arrays(), rounded(p)
    zeros = 2.0 ** (p.bits - 1) if a["zeros"] is None else np.abs(a["zeros"][:, :, None])
    x, w = np.abs(q) * scales[..., None], (a["whole"] + zeros) * np.abs(a["scales"])[..., None]
    y = np.einsum("mgb,ngb->mn", x, w.astype(np.float64))
    return float(np.max(y if a["bias"] is None else y + np.abs(a["bias"])))


def assert_close(got: Array, want: Array, p: Problem) -> None:
    assert got.shape == want.shape
    apart = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    assert apart <= CLOSE[p.dtype] * size(p)


problems = st.builds(
    Problem,
    rows=st.integers(1, 40),
    k=st.integers(1, 300),
    n=st.integers(1, 70),
    bits=st.sampled_from([4, 8]),
    block=st.sampled_from([16, 32, 64, 128]),
    zeros=st.sampled_from(["none", "packed", "float"]),
    bias=st.booleans(),
    level=st.just(4),
    seed=st.integers(0, 1000),
)


@given(p=problems)
@settings(max_examples=12)
def test_products_are_those_of_the_rule(p, tmp_path_factory):
    net = network(p.model(), tmp_path_factory.mktemp("packed"))
    assert {n.op for n in optimize(net).nodes} >= set(BLOCKS)
    assert_close(run(net, p.arrays()["x"]), by_rule(p), p)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize(
    ("bits", "block", "zeros"),
    [(4, 16, "none"), (4, 32, "packed"), (4, 128, "none"), (8, 32, "none"), (8, 64, "packed")],
)
def test_products_are_those_of_onnx_runtime(bits, block, zeros, rows, tmp_path):
    p = Problem(rows, 256, 48, bits, block, zeros, bias=True, level=4)
    x, model = p.arrays()["x"], p.model()
    runtime = by_runtime(model, x)
    if np.abs(runtime - p.expected()).max() <= CLOSE["float32"] * p.size():
        pytest.skip("ONNX Runtime does not round data to bytes on this CPU")  # its level 1
    assert_close(run(network(model, tmp_path), x), runtime, p)


@pytest.mark.parametrize("target", ["reference", x86("haswell", 1), x86("x86-64", 2)])
@pytest.mark.parametrize("bits", [4, 8])
def test_other_machines(target, bits, tmp_path):
    p = Problem(5, 100, 37, bits, zeros="packed", bias=True, level=4)
    assert_close(run(network(p.model(), tmp_path), p.arrays()["x"], target), by_rule(p), p)


@pytest.mark.parametrize("zeros", ["none", "packed"])
def test_float16(zeros, tmp_path):
    p = Problem(3, 96, 40, zeros=zeros, dtype="float16", bias=True, level=4)
    got = run(network(p.model(), tmp_path), p.arrays()["x"])
    assert got.dtype == np.float16
    assert_close(got, by_rule(p), p)


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "reference"])
def test_unusual_numbers(target, tmp_path):
    """Zeros, the largest and the least numbers; a row with NaN or an infinity is NaN."""
    p = Problem(8, 128, 33, level=4)
    x = p.arrays()["x"]
    top, least = np.finfo(np.float32).max / 1e3, np.finfo(np.float32).smallest_subnormal
    x[0] = 0
    x[1, 32:64] = 0
    x[2] = np.sign(x[2]) * top
    x[3, :40] = least * np.arange(-20, 20)
    x[4, 5], x[5, 77], x[6, 0] = np.nan, np.inf, -np.inf
    q = replace(p, given={"x": x})
    got = run(network(q.model(), tmp_path), x, target)
    assert np.isnan(got[4:7]).all()
    for row in (0, 1, 2, 3, 7):
        one = replace(p, rows=1, given={"x": x[row : row + 1], **kept(p)})
        assert_close(got[row : row + 1], by_rule(one), one)
    assert (got[0] == 0).all()


def kept(p: Problem) -> dict[str, Array]:
    """The weights that go with other data."""
    a = p.arrays()
    return {name: a[name] for name in ("whole", "scales", "zeros", "bias")}


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("sign", [-1, 1])
def test_extremes(bits, sign, tmp_path):
    """Sums of the largest products."""
    p = Problem(20, 512, 33, bits, 256, "packed", level=4)
    a, top = p.arrays(), (1 << bits) - 1
    whole = np.full_like(a["whole"], top if sign > 0 else 0)
    zeros = np.full_like(a["zeros"], 0 if sign > 0 else top)
    extreme = replace(p, given={"x": np.ones_like(a["x"]), "whole": whole, "zeros": zeros})
    got = run(network(extreme.model(), tmp_path), extreme.arrays()["x"])
    assert_close(got, by_rule(extreme), extreme)


def test_rows_that_a_run_brings(tmp_path):
    p = Problem(40, 100, 48, zeros="packed", bias=True, level=4)
    net = network(p.model(rows="rows"), tmp_path, shapes={"rows": "1..40:4"})
    module = tw.compile(net, target="llvm -num-cores=1")
    x, want = p.arrays()["x"], by_rule(p)
    for rows in (1, 2, 7, 16, 40):
        assert_close(module.run(x[:rows])[0], want[:rows], p)


def test_other_precisions_leave_what_becomes_bytes(tmp_path):
    net = network(Problem(3, 96, 40, level=4).model(), tmp_path)
    for precision in ("bf16", "f16"):
        types = {t.dtype for t in plan(net, precision).values.values()}
        assert types == {"float32", "int8", "int32"}


def test_data_are_rounded_once_for_all_their_products(tmp_path):
    p = Problem(2, 64, 24, level=4)
    model = p.model()
    (first,) = model.graph.node
    second = onnx.NodeProto()
    second.CopyFrom(first)
    second.output[0] = "z"
    both = helper.make_node("Add", ["y", "z"], ["sum"])
    model.graph.node.extend([second, both])
    model.graph.output[0].name = "sum"
    scales = next(t for t in model.graph.initializer if t.name == "scales")
    other = onnx.TensorProto()
    other.CopyFrom(scales)
    other.name = "others"
    other.raw_data = (2 * np.frombuffer(scales.raw_data, np.float32)).tobytes()
    model.graph.initializer.append(other)
    model.graph.node[1].input[2] = "others"
    net = network(model, tmp_path)
    ops = [n.op for n in optimize(net).nodes]
    assert [ops.count(op) for op in BLOCKS] == [1, 1, 1, 1, 2]
    assert_close(run(net, p.arrays()["x"]) / 3, by_rule(p), p)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed"])
def test_networks_are_written(bits, zeros, tmp_path):
    p = Problem(3, 100, 24, bits, zeros=zeros, level=4)
    net = optimize(network(p.model(), tmp_path))
    net.to_onnx(tmp_path / "written.onnx")
    got = by_runtime(onnx.load(tmp_path / "written.onnx"), p.arrays()["x"])
    assert_close(got, by_rule(p), replace(p, dtype="float32"))
    from_onnx(tmp_path / "written.onnx")
