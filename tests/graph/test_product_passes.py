"""Passes around matrix products: reshapes and transposes give way to what can fuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.graph.test_passes import Maker, ops, same_meaning
from tilework.graph import Network, from_onnx, plan
from tilework.graph.fuse import fuse
from tilework.graph.passes import (
    fold_repeats,
    fold_transposes,
    merge_equal,
    pull_factors,
    sink_reshapes,
    slice_weights,
)
from tilework.graph.passes.fold_transposes import split_parts
from tilework.graph.passes.slice_weights import before_reshape

MODELS = Path(__file__).parents[1] / "data" / "models"


def attention(batch: int = 2, seq: int = 5, heads: int = 3, size: int = 4) -> Network:
    """An attention block with its dense layers, as exporters write it."""
    m = Maker("attention")
    width = heads * size
    x = m.input("x", (batch, seq, width))
    mask = m.input("mask", (batch, 1, 1, seq))

    def linear(value: str, shape: tuple[int, ...]) -> str:
        flat = m.op("reshape", value, shape=(batch * seq, width))
        y = m.op("dense", flat, m.c(width, width, low=-1))
        y = m.op("reshape", y, shape=(batch, seq, width))
        return m.op("reshape", m.op("add", y, m.c(width, low=-1)), shape=shape)

    split = (batch, seq, heads, size)
    q = m.op("transpose", linear(x, split), perm=(0, 2, 1, 3))
    k = m.op("transpose", linear(x, split), perm=(0, 2, 3, 1))
    v = m.op("transpose", linear(x, split), perm=(0, 2, 1, 3))
    scores = m.op("einsum", q, k, equation="bhsd,bhdt->bhst")
    scores = m.op("add", m.op("multiply", scores, m.c(1)), mask)
    y = m.op("softmax", scores, axis=-1)
    y = m.op("einsum", y, v, equation="bhst,bhtd->bhsd")
    y = m.op("transpose", y, perm=(0, 2, 1, 3))
    y = linear(y, (batch, seq, width))
    return m.finish([m.op("add", y, x)])


def test_attention_moves_no_data() -> None:
    net = attention()
    new = sink_reshapes(fold_transposes(net))
    same_meaning(net, new)
    assert "transpose" not in ops(new)
    assert [c.name for c in plan(net).calls if "softmax" not in c.name] == [
        "dense_add", "dense_add", "einsum_multiply_add", "dense_add", "einsum", "dense_add_add",
    ]  # fmt: skip


def grouped(keys: str, through: tuple[int, ...] = ()) -> Network:
    """Four heads of queries for two of keys, each of which is repeated for its two."""
    m = Maker("grouped")
    q, k = m.input("q", (3, 4, 5, 8)), m.input("k", (3, 2, 7, 8))
    wide = m.op("expand", m.op("reshape", k, shape=(3, 2, 1, 7, 8)), shape=(3, 2, 2, 7, 8))
    wide = m.op("reshape", wide, shape=through) if through else wide
    wide = m.op("reshape", wide, shape=(3, 4, 7, 8))
    if keys == "bhdt":
        wide = m.op("transpose", wide, perm=(0, 1, 3, 2))
    scores = m.op("einsum", q, wide, equation=f"bhsd,{keys}->bhst")
    return m.finish([m.op("relu", scores)])


@pytest.mark.parametrize(
    "keys, through", [("bhtd", ()), ("bhdt", ()), ("bhtd", (12, 7, 8)), ("bhdt", (12, 7, 8))]
)
def test_keys_of_several_heads_are_not_repeated(keys: str, through: tuple[int, ...]) -> None:
    net = grouped(keys, through)
    new = sink_reshapes(fold_repeats(fold_transposes(net)))
    same_meaning(net, new)
    assert "expand" not in ops(new)
    assert [c.name for c in plan(net).calls] == ["einsum_relu"]


def test_what_is_repeated_otherwise_stays() -> None:
    """Whole blocks in turns are no neighbours; what is merged elsewhere has no groups."""
    m = Maker("tiled")
    q, k = m.input("q", (3, 4, 5, 8)), m.input("k", (3, 2, 7, 8))
    wide = m.op("expand", m.op("reshape", k, shape=(3, 1, 2, 7, 8)), shape=(3, 2, 2, 7, 8))
    wide = m.op("reshape", wide, shape=(3, 4, 7, 8))
    net = m.finish([m.op("einsum", q, wide, equation="bhsd,bhtd->bhst")])
    new = fold_repeats(net)
    same_meaning(net, new)
    m = Maker("rows")
    q, k = m.input("q", (3, 2, 5, 8)), m.input("k", (3, 2, 7, 8))
    wide = m.op("expand", m.op("reshape", k, shape=(3, 2, 7, 1, 8)), shape=(3, 2, 7, 4, 8))
    wide = m.op("reshape", wide, shape=(3, 2, 28, 8))
    net = m.finish([m.op("einsum", q, wide, equation="bhsd,bhtd->bhst")])
    new = fold_repeats(net)
    same_meaning(net, new)


LAYER = ["dense_add"] * 2 + ["einsum_multiply_where", "softmax", "dense_add", "einsum",
         "dense_add_add", "normalize_multiply_add", "dense_add_gelu", "dense_add_add",
         "normalize_multiply_add"]  # fmt: skip


@pytest.mark.parametrize("exporter", ["opset12", "opset23"])
def test_exported_transformer_becomes_few_kernels(exporter: str) -> None:
    """Eleven kernels a layer, whatever the exporter wrote; none of them only moves data."""
    net = from_onnx(MODELS / f"transformer_{exporter}.onnx")
    names = [c.name for c in plan(net).calls if c.complex]
    assert names == ["normalize_multiply_add", *LAYER, *LAYER, "dense_add_tanh"]
    assert "transpose" not in {n for c in plan(net).calls for n in c.name.split("_")}


def test_factors_of_operands_scale_the_product() -> None:
    m = Maker("net")
    a, b = m.input("a", (2, 3, 4)), m.input("b", (2, 4, 5))
    wide = m.op("multiply", a, m.c(4))
    operands = m.op("multiply", a, m.c()), m.op("multiply", b, m.c(1))
    y = m.op("einsum", *operands, equation="bij,bjk->bik")
    z = m.op("einsum", wide, m.op("multiply", b, m.c(1)), equation="bij,bjk->bik")
    net = m.finish([m.op("relu", y), z])
    new = pull_factors(net)
    same_meaning(net, new)
    assert ops(new) == {"einsum": 2, "multiply": 3, "relu": 1}
    assert ops(pull_factors(new)) == ops(new)


@pytest.mark.parametrize("form", ["last dimension", "first dimension"])
def test_queries_keys_and_values_of_one_layer(form: str) -> None:
    """One dense layer for all three, split behind it: GPT-2's form, and that of vision models."""
    m = Maker("net")
    x = m.input("x", (5, 12))
    y = m.op("add", m.op("dense", x, m.c(36, 12, low=-1)), m.c(36))
    parts = []
    for i in range(3):
        if form == "last dimension":
            z = m.op("reshape", y, shape=(1, 5, 36))
            z = m.op("slice", z, begin=(0, 0, 12 * i), size=(1, 5, 12), stride=(1, 1, 1))
            z = m.op("reshape", z, shape=(1, 5, 3, 4))
            parts.append(m.op("transpose", z, perm=(0, 2, 1, 3)))
            continue
        if i == 0:
            wide = m.op("reshape", y, shape=(1, 5, 3, 3, 4))
            wide = m.op("transpose", wide, perm=(2, 0, 3, 1, 4))
        z = m.op("slice", wide, begin=(i, 0, 0, 0, 0), size=(1, 1, 3, 5, 4), stride=(1,) * 5)
        parts.append(m.op("reshape", z, shape=(1, 3, 5, 4)))
    scores = m.op("einsum", *parts[:2], equation="bhsd,bhtd->bhst")
    net = m.finish([m.op("einsum", m.op("tanh", scores), parts[2], equation="bhst,bhtd->bhsd")])
    if form == "last dimension":  # each reshaped on its own: one value for all
        net = merge_equal(net)
    new = slice_weights(net)
    same_meaning(net, new)
    assert ops(new)["dense"] == 3
    assert "slice" not in ops(new)
    assert [c.name for c in plan(net).calls] == [
        "dense_add", "dense_add", "einsum_tanh", "dense_add", "einsum",
    ]  # fmt: skip


def test_a_layer_that_is_read_whole_stays() -> None:
    m = Maker("net")
    y = m.op("dense", m.input("x", (5, 12)), m.c(36, 12))
    part = m.op("slice", y, begin=(0, 3), size=(5, 7), stride=(1, 1))
    net = m.finish([part, m.op("relu", y)])
    assert ops(slice_weights(net)) == ops(net)


@pytest.mark.parametrize("seed", range(20))
def test_boxes_before_reshapes(seed: int) -> None:
    r = np.random.default_rng(seed)
    for _ in range(60):
        shapes = []
        for _ in range(2):
            factors = [*r.permutation([2, 2, 3, 5]).tolist(), 1, 1]
            cuts = np.sort(r.integers(0, len(factors) + 1, 3))
            shapes.append(tuple(int(np.prod(f)) for f in np.split(factors, cuts)))
        old, new = shapes
        size = [int(r.choice([n, r.integers(1, n + 1)])) for n in new]
        begin = [int(r.integers(0, n - k + 1)) for n, k in zip(new, size, strict=True)]
        box = before_reshape(old, new, begin, size)
        if box is not None:
            data = np.arange(60)
            want = data.reshape(new)[tuple(map(slice, begin, np.add(begin, size)))]
            got = data.reshape(old)[tuple(map(slice, box[0], np.add(*box)))]
            np.testing.assert_array_equal(got.reshape(want.shape), want)


def test_heads_merged_with_the_batch() -> None:
    """The form of PyTorch's own multi-head attention: [S, B, E] -> [S, B H, D] and transposed."""
    m = Maker("net")
    x, w = m.input("x", (5, 12)), m.input("w", (2, 3, 4, 5))
    y = m.op("dense", x, m.c(24, 12))
    y = m.op("transpose", m.op("reshape", y, shape=(5, 6, 4)), perm=(1, 0, 2))
    y = m.op("reshape", y, shape=(2, 3, 5, 4))
    net = m.finish([m.op("einsum", y, w, equation="bhsd,bhdt->bhst")])
    new = fold_transposes(net)
    same_meaning(net, new)
    assert ops(new) == {"dense": 1, "reshape": 2, "einsum": 1}


@pytest.mark.parametrize("flags", [(False, False), (True, False), (True, True)])
def test_matmul_of_transposed_operands(flags: tuple[bool, bool]) -> None:
    m = Maker("net")
    a, b = m.input("a", (3, 3)), m.input("b", (3, 3))
    a, b = (m.op("transpose", v, perm=(1, 0)) for v in (a, b))
    y = m.op("matmul", a, b, transpose_a=flags[0], transpose_b=flags[1])
    net = m.finish([m.op("relu", y)])
    new = fold_transposes(net)
    same_meaning(net, new)
    assert "transpose" not in ops(new)


def test_shared_and_returned_transposes_stay() -> None:
    m = Maker("net")
    a, b = m.input("a", (2, 3, 4)), m.input("b", (2, 4, 5))
    y = m.op("einsum", a, b, equation="bij,bjk->bik")
    t = m.op("transpose", y, perm=(1, 0, 2))
    last = m.op("transpose", m.op("einsum", a, b, equation="bij,bjk->bik"), perm=(0, 2, 1))
    net = m.finish([t, y, last])
    new = fold_transposes(net)
    same_meaning(net, new)
    assert ops(new) == {"einsum": 2, "transpose": 2}


@pytest.mark.parametrize("seed", range(8))
def test_reshapes_sink_behind_elementwise_operators(seed: int) -> None:
    r = np.random.default_rng(seed)
    m = Maker("net")
    x = m.input("x", (6, 20))
    shape = [(2, 3, 20), (1, 6, 20), (6, 4, 5), (2, 3, 4, 5), (120,), (6, 20, 1), (3, 2, 5, 4),
             (1, 1, 6, 20)][seed]  # fmt: skip
    y = m.op("dense", x, m.c(20, 20))
    y = m.op("reshape", y, shape=shape)
    for _ in range(5):
        kind = r.integers(4)
        if kind == 0:
            y = m.op("tanh", y)
        elif kind == 1:
            skip = int(r.integers(len(shape)))
            y = m.op("add", y, m.c(*(n if r.random() < 0.6 else 1 for n in shape[skip:])))
        elif kind == 2:
            y = m.op("add", m.op("sigmoid", y), y)
        else:
            other = m.input(f"x{len(m.inputs)}", shape)
            y = m.op("add", other, y)
    net = m.finish([y])
    same_meaning(net, sink_reshapes(net))


def test_bias_activation_and_residual_fuse_behind_a_flattened_product() -> None:
    m = Maker("net")
    x = m.input("x", (1, 5, 8))
    y = m.op(
        "reshape", m.op("dense", m.op("reshape", x, shape=(5, 8)), m.c(8, 8)), shape=(1, 5, 8)
    )
    y = m.op("add", m.op("tanh", m.op("add", y, m.c(8))), x)
    net = m.finish([y])
    assert len([g for g in fuse(net) if g[-1].op != "reshape"]) == 2
    new = sink_reshapes(net)
    same_meaning(net, new)
    assert len([g for g in fuse(new) if g[-1].op != "reshape"]) == 1


def test_split_parts() -> None:
    assert split_parts((6, 4), (2, 3, 4)) == [(2, 3), (4,)]
    assert split_parts((1, 4), (4, 1)) == [(), (4, 1)]
    assert split_parts((6, 4), (3, 8)) is None
    assert split_parts((6, 4), (24,)) is None
