"""Functions of a byte as tables."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.run_plan import run_nodes, run_plan
from tests.hosts import x86
from tilework.graph import Builder, Network, plan
from tilework.target import Target

LOOKS_UP, LACKS = Target(x86("icelake-server", 1)), Target(x86("skylake-avx512", 1))
BYTES = np.arange(256).reshape(2, 128)


def quantised(dtype: str, *ops: str, also: bool = False) -> Network:
    """Bytes through operators in a row, around each of which they are quantised.

    Args:
        dtype: of the bytes.
        ops: the operators; ``also`` whether what is before the last one is read elsewhere.
    """
    b = Builder("net")
    zero = 120 if dtype == "uint8" else -8

    def parts(scale: float) -> list[str]:
        numbers = np.full((1, 1), scale, np.float32), np.full((1, 1), zero, dtype)
        return [b.constant(n) for n in numbers]

    x, scale, inner = b.input("x", BYTES.shape, dtype), 0.03, ""
    for op in ops:
        inner, more = b.op("dequantize", x, *parts(scale)), []
        if op == "multiply":
            more = [inner]
        scale *= 0.7
        x = b.op("quantize", b.op(op, inner, *more), *parts(scale))
    return b.finish([b.op("exp", inner), x] if also else [x])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("ops", [("erf",), ("sigmoid", "multiply", "tanh")])
def test_operators_of_one_byte_are_a_look_up(dtype, ops):
    net, x = quantised(dtype, *ops), BYTES.astype(np.uint8).view(dtype)
    assert [c.name for c in plan(net, target=LOOKS_UP).calls] == ["lookup"]
    assert "lookup" not in "".join(c.name for c in plan(net, target=LACKS).calls)
    (got,), (want,) = run_plan(net, x, target=LOOKS_UP), run_nodes(net, x)
    np.testing.assert_array_equal(got, want)


def test_a_few_plain_operators_are_computed():
    net = quantised("uint8", "relu")
    assert [c.name for c in plan(net, target=LOOKS_UP).calls] == ["dequantize_relu_quantize"]


def test_what_others_read_is_computed_for_them():
    net, x = quantised("uint8", "tanh", "erf", also=True), BYTES.astype(np.uint8)
    names = [c.name for c in plan(net, target=LOOKS_UP).calls]
    assert names.count("lookup") == 1
    for got, want in zip(run_plan(net, x, target=LOOKS_UP), run_nodes(net, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_bytes_that_another_operator_reads_as_floats_are_a_look_up():
    b = Builder("net")
    parts = [b.constant(np.full((1, 1, 1, 1), v)) for v in (np.float32(0.03), np.uint8(120))]
    x = b.op("dequantize", b.input("x", (1, 4, 4, 16), "uint8"), *parts)
    gate = b.op("quantize", b.op("hard_sigmoid", x, alpha=0.2, beta=0.5), *parts)
    y = b.op("quantize", b.op("multiply", x, b.op("dequantize", gate, *parts)), *parts)
    floats = b.op("dequantize", y, *parts)
    net = b.finish([b.op("global_avg_pool", floats, layout="NHWC"), b.op("exp", floats)])
    array = np.arange(256, dtype=np.uint8).reshape(1, 4, 4, 16)
    names = [c.name for c in plan(net, target=LOOKS_UP).calls]
    assert sorted(names) == ["dequantize_exp", "dequantize_global_avg_pool", "lookup"]
    for got, want in zip(
        run_plan(net, array, target=LOOKS_UP), run_nodes(net, array), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)
