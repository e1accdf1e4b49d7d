"""Products of attention in pairs: what is rewritten, and that it is the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.run_plan import relative_error, run_nodes
from tests.hosts import x86
from tilework.graph import Builder, Network, plan
from tilework.graph.paired import pair_products
from tilework.target import Target

RNG = np.random.default_rng(0)


def product(equation: str, *shapes: tuple[int, ...]) -> Network:
    b = Builder("product")
    operands = [b.input(f"x{i}", s) for i, s in enumerate(shapes)]
    return b.finish([b.op("einsum", *operands, equation=equation)])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bihd,bjhd->bhij", ((2, 40, 3, 8), (2, 5, 3, 8))),
        ("bhij,bjhd->bihd", ((1, 3, 33, 6), (1, 6, 3, 7))),
        ("kj,ik->ij", ((4, 9), (32, 4))),
    ],
)
def test_products_are_the_same(equation, shapes):
    net = product(equation, *shapes)
    paired = pair_products(net)
    assert [n.op for n in paired.nodes] == ["reshape", "reshape", "transpose", "einsum"]
    inputs = [RNG.standard_normal(s).astype(np.float32) for s in shapes]
    (want,), (got,) = run_nodes(net, *inputs), run_nodes(paired, *inputs)
    assert relative_error(got, want) < 1e-6


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ik,kj->ij", ((40, 5), (5, 9))),  # an odd number of terms
        ("ki,kj->ij", ((4, 40), (4, 9))),  # terms that are no neighbours
        ("ik,kj->ij", ((8, 4), (4, 9))),  # few rows
        ("ikl,klj->ij", ((40, 4, 4), (4, 4, 9))),
    ],
)
def test_others_stay(equation, shapes):
    assert [n.op for n in pair_products(product(equation, *shapes)).nodes] == ["einsum"]


def test_attention_is_narrow_but_for_what_its_softmax_reads():
    b = Builder("attention")
    x = b.input("x", (64, 32))
    q, k, v = (b.op("dense", x, b.constant(np.ones((16, 32), np.float32))) for _ in range(3))
    s = b.op("softmax", b.op("einsum", q, k, equation="id,jd->ij"), axis=-1)
    y = b.op("einsum", s, v, equation="ij,jd->id")
    calls = plan(b.finish([b.op("relu", y)]), "bf16", Target(x86("znver4", 1))).calls
    types = {c.name: [t.dtype for t in c.dag.tensors] for c in calls}
    narrow, wide = "bfloat16", "float32"
    assert types["identity"] == [wide, narrow]  # the input, once for all that multiply it
    assert types["softmax"] == [wide, narrow]
    assert {t for n, ts in types.items() if n.startswith("einsum") for t in ts[:2]} == {narrow}
