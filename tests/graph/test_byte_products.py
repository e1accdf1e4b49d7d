"""Products of two quantised values: integers, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.run_plan import run_plan
from tests.graph.run_symbolic import feeds_at, point_of, run_at
from tests.hosts import x86
from tilework.graph import Builder, Network, plan
from tilework.graph.byte_products import byte_products
from tilework.graph.operators import Shape
from tilework.graph.passes import optimize
from tilework.index.symbols import symbol
from tilework.target import Target

RNG = np.random.default_rng(0)
SCALES = np.float32(0.02), np.float32(0.03), np.float32(1.7)


def product(equation: str, shapes: tuple[Shape, ...], zeros: tuple[np.generic, ...]) -> Network:
    """A product of two inputs of bytes; a third zero point: of the bytes that it returns."""
    b = Builder("product")
    parts = [
        (b.constant(np.asarray(s)), b.constant(np.asarray(z)))
        for s, z in zip(SCALES, zeros, strict=False)
    ]
    read = [
        b.op("dequantize", b.input(f"x{i}", s, str(zeros[i].dtype)), *parts[i])
        for i, s in enumerate(shapes)
    ]
    y = b.op("einsum", *read, equation=equation)
    return b.finish([y if len(zeros) < 3 else b.op("quantize", y, *parts[2])])


def whole(equation: str, zeros: tuple[np.generic, ...], *x: np.ndarray) -> np.ndarray:
    """What the product is to return, in integers."""
    wide = (v.astype(np.int64) - int(z) for v, z in zip(x, zeros, strict=False))
    sums = np.einsum(equation, *wide).astype(np.float32)
    scale = SCALES[0] * SCALES[1]
    if len(zeros) < 3:
        return sums * scale
    low, high = np.iinfo(zeros[2].dtype).min, np.iinfo(zeros[2].dtype).max
    rounded = np.rint(sums * (scale / SCALES[2])) + np.float32(zeros[2])
    return np.clip(rounded, low, high).astype(zeros[2].dtype)


def drawn(net: Network) -> list[np.ndarray]:
    """Bytes for the inputs, the extremes among them."""
    out = []
    for t in net.inputs.values():
        ends = np.iinfo(t.dtype)
        x = RNG.integers(ends.min, ends.max + 1, t.shape).astype(t.dtype)
        x.reshape(-1)[: x.size // 3] = RNG.choice([ends.min, ends.max], x.size // 3)
        out.append(x)
    return out


U8, S8 = np.uint8, np.int8


@settings(max_examples=12)
@given(
    rows=st.integers(32, 50),
    heads=st.integers(1, 3),
    columns=st.integers(1, 40),
    k=st.integers(1, 36),
    values=st.booleans(),
    zeros=st.tuples(st.integers(0, 255), st.integers(0, 255)),
    types=st.tuples(*[st.sampled_from((U8, S8))] * 3),
    quantised=st.booleans(),
)
def test_sums_are_exact(rows, heads, columns, k, values, zeros, types, quantised):
    if values:
        equation, shapes = "bhij,bjhd->bhid", ((1, heads, rows, k), (1, k, heads, columns))
    else:
        equation, shapes = "ihd,jhd->hij", ((rows, heads, k), (columns, heads, k))
    own = tuple(np.uint8(z).astype(t) for z, t in zip((*zeros, 3), types, strict=True))
    own = own if quantised else own[:2]
    net = product(equation, shapes, own)
    target = Target(x86("znver4", 1))
    x = drawn(net)
    (got,) = run_plan(net, *x, target=target)
    np.testing.assert_array_equal(got, whole(equation, own, *x))


def test_terms_are_in_fours_where_instructions_take_them():
    net = product("ihd,jhd->hij", ((40, 2, 8), (5, 2, 8)), (U8(7), U8(0), S8(3)))
    products = [n for n in byte_products(optimize(net)).nodes if n.op == "einsum"]
    assert [n.attrs.get("sums") for n in products] == ["int32"]
    with_fours = plan(net, "f32", Target(x86("znver4", 1))).calls
    without = plan(net, "f32", Target(x86("haswell", 1))).calls
    types = [{t.dtype for c in calls for t in c.dag.tensors} for calls in (with_fours, without)]
    assert ["int32" in t for t in types] == [True, False]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ik,kj->ij", ((8, 4), (4, 9))),  # few rows
        ("ik,kj->ij", ((40, 16384), (16384, 2))),  # sums of more than 32 bits
    ],
)
def test_others_stay(equation, shapes):
    net = optimize(product(equation, shapes, (U8(1), U8(2), U8(3))))
    assert all("sums" not in n.attrs for n in byte_products(net).nodes)


@pytest.mark.parametrize(
    ("between", "point", "fits"),
    [("int32", 9, True), ("float32", 9, True), ("float32", 9.5, False)],
)
def test_differences_of_bytes(between, point, fits):
    b = Builder("differences")
    x = [b.input("x", (2, 33, 8), "uint8"), b.input("w", (2, 8, 5), "int8")]
    zeros = [point, -3]
    read = [
        b.op("subtract", b.op("cast", v, to=between), b.constant(np.asarray(z, between)))
        for v, z in zip(x, zeros, strict=True)
    ]
    net = b.finish([b.op("einsum", *read, equation="hik,hkj->hij")])
    data = drawn(net)
    (got,) = run_plan(net, *data, target=Target(x86("znver4", 1)))
    wide = [v.astype(np.float64) - z for v, z in zip(data, zeros, strict=True)]
    np.testing.assert_array_equal(got, (wide[0] @ wide[1]).astype(between))
    sums = [n.attrs.get("sums") for n in byte_products(net).nodes if n.op == "einsum"]
    assert (sums == ["int32"]) is fits


@pytest.mark.parametrize(
    ("equation", "lengths", "whole_sums"),
    [
        ("ihd,jhd->hij", [("s", 2, 8)] * 2, True),
        ("hij,jhd->hid", [(2, "s", "s"), ("s", 2, 5)], True),
        ("hij,jhd->hid", [(2, "s", "s"), ("s", 2, 5)], False),
    ],
)
def test_lengths_that_a_run_brings(equation, lengths, whole_sums):
    # longer ones are made block by block, in floats
    s, zeros = symbol("s", 1, 64 if whole_sums else 2**10), (U8(3), U8(200), S8(-1))
    shapes = tuple(tuple(s if n == "s" else n for n in shape) for shape in lengths)
    net = product(equation, shapes, zeros)
    p = plan(net, "f32", Target(x86("znver4", 1)))
    assert any(t.dtype == "int32" for c in p.calls for t in c.dag.tensors) is whole_sums
    for n in (1, 2, 3, 4, 5, 63, 64) if whole_sums else ():
        at = point_of(net, {"s": n})
        x = feeds_at(net, at, 256)
        np.testing.assert_array_equal(run_at(p, at, *x)[0], whole(equation, zeros, *x))


def test_values_that_others_read_stay():
    b = Builder("shared")
    x = b.op("dequantize", b.input("x", (40, 8), "uint8"), *scalar(b))
    y = b.op("einsum", x, x, equation="ik,jk->ij")
    q = b.op("quantize", y, *scalar(b))
    net = b.finish([q, b.op("relu", y), b.op("relu", x)])
    (data,) = drawn(net)
    got = run_plan(net, data, target=Target(x86("znver4", 1)))
    wide = data.astype(np.int64) - 9
    sums = (wide @ wide.T).astype(np.float32) * (SCALES[0] * SCALES[0])
    np.testing.assert_array_equal(got[1], np.maximum(sums, 0))
    rounded = np.rint(sums / SCALES[0]) + np.float32(9)
    np.testing.assert_array_equal(got[0], np.clip(rounded, 0, 255).astype(np.uint8))


def scalar(b: Builder) -> tuple[str, str]:
    """Scale and zero point."""
    return b.constant(np.asarray(SCALES[0])), b.constant(np.asarray(np.uint8(9)))
