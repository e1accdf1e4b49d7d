"""Products with matrices that indices choose are read where these lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.graph.run_plan import run_plan
from tests.graph.test_passes import Maker, ops
from tests.hosts import x86
from tilework.graph import Network, plan
from tilework.graph.passes import find_gathered, optimize
from tilework.target import Target

TABLE = 5
"""Matrices of a table."""


def experts(
    equation: str,
    places: tuple[int, ...],
    x: tuple[int, ...],
    row: tuple[int, ...] = (24, 8),
    *,
    through: tuple[int, ...] | None = None,
    depth: int | None = None,
    constant: bool = True,
    last: bool = False,
    index: str = "int64",
) -> Network:
    """``einsum(W[i], x)``; ``through`` is a shape in between, ``depth`` numbers say a place."""
    m = Maker("experts")
    table = (TABLE,) if depth is None else tuple(range(TABLE, TABLE + depth))
    w = m.c(*table, *row, low=-1) if constant else m.input("w", (*table, *row))
    numbers = () if depth is None else (depth,)
    i = m.input("i", (*places, *numbers), index)
    data = m.input("x", x)
    if depth is None:
        matrices = m.op("take", w, i, axis=0)
    else:
        matrices = m.op("gather_nd", w, i, batch_dims=0)
    if through is not None:
        matrices = m.op("reshape", matrices, shape=through)
    operands = (data, matrices) if last else (matrices, data)
    return m.finish([m.op("einsum", *operands, equation=equation)])


def called(net: Network, target: str) -> list[str]:
    return [c.name for c in plan(net, "f32", Target(target)).calls]


CASES = {
    "many rows": experts("abd,adc->abc", (3,), (3, 8, 1)),
    "rows that lie along": experts("adb,adc->abc", (3,), (3, 8, 1), (8, 24)),
    "the other side": experts("acd,adb->acb", (3,), (3, 1, 8), (8, 24), last=True),
    "several places": experts("eabd,eadc->eabc", (2, 3), (2, 3, 8, 1)),
    "places in one": experts("abd,adc->abc", (2, 3), (6, 8, 1), through=(6, 24, 8)),
    "places apart": experts("eabd,eadc->eabc", (6,), (2, 3, 8, 1), through=(2, 3, 24, 8)),
    "several rows a matrix": experts("abd,adc->abc", (3,), (3, 8, 4)),
    "all rows": experts("abd,cd->abc", (3,), (4, 8)),
    "one place": experts("abd,adc->abc", (1,), (1, 8, 1)),
    "no place": experts("bd,dc->bc", (), (8, 3)),
    "one matrix for all": experts("abd,adc->abc", (1,), (3, 8, 1)),
    "one number": experts("abd,adc->abc", (3,), (3, 8, 1), depth=1),
    "two numbers": experts("abd,adc->abc", (3,), (3, 8, 1), depth=2),
    "no constant": experts("abd,adc->abc", (3,), (3, 8, 4), constant=False),
    "columns": experts("abd,bc->acd", (3,), (24, 4)),
    "short indices": experts("abd,adc->abc", (3,), (3, 8, 1), index="int32"),
}


def numbers(net: Network, seed: int = 0) -> list[np.ndarray]:
    """Inputs, with indices out of range, negative, and repeated."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-TABLE - 3, TABLE + 4, t.shape).astype(t.dtype)
        if t.dtype.startswith("int")
        else rng.uniform(-1, 1, t.shape).astype(t.dtype)
        for t in net.inputs.values()
    ]


def by_numpy(net: Network, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The product of the gathered matrices, each of which has been copied."""
    values = dict(zip(net.inputs, inputs, strict=True)) | dict(net.constants)
    for node in net.nodes:
        first, *others = (values[v] for v in node.inputs)
        if node.op == "reshape":
            values[node.name] = first.reshape(node.attrs["shape"])
        elif node.op == "einsum":
            values[node.name] = np.einsum(node.attrs["equation"], first, *others)
        else:
            at = others[0] if node.op == "gather_nd" else others[0][..., None]
            ends = first.shape[: at.shape[-1]]
            within = (np.clip(np.where(i < 0, i + n, i), 0, n - 1)
                      for i, n in zip(np.moveaxis(at, -1, 0), ends, strict=True))  # fmt: skip
            values[node.name] = first[tuple(within)]
    return values[net.outputs[0]]


@pytest.mark.parametrize("case", CASES)
def test_matrices_are_read_where_they_lie(case: str) -> None:
    net = CASES[case]
    inputs = numbers(net)
    found = find_gathered(net)
    assert find_gathered(found) is found
    want = by_numpy(net, inputs)
    for one in (net, found, optimize(net)):
        (got,) = run_plan(one, *inputs)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert len(called(net, x86("haswell"))) == 1
    assert len(called(net, "reference")) == 2  # others copy them


def test_the_operand_that_is_gathered_comes_last_and_extents_of_one_go() -> None:
    for case in ("many rows", "rows that lie along", "the other side", "one number"):
        net = optimize(CASES[case])
        (product,) = (n for n in net.nodes if n.op == "einsum")
        assert net.producer[product.inputs[1]].op == "take"
        assert [len(net.types[v].shape) for v in (*product.inputs, product.name)] == [2, 3, 2]


@pytest.mark.parametrize(
    "net",
    [
        experts("ad,dc->ac", (3,), (8, 4), (8,)),  # an embedding before a dense layer
        experts("abd,abd->bd", (3,), (3, 24, 8)),  # a sum over places
        experts("abd,adc->abc", (3,), (3, 8, 1), index="int8"),
    ],
    ids=["embedding", "sum", "bytes"],
)
def test_what_is_no_matrix_of_its_own_is_copied(net: Network) -> None:
    inputs = numbers(net)
    np.testing.assert_allclose(run_plan(net, *inputs)[0], by_numpy(net, inputs), rtol=1e-4)
    assert len(called(net, x86("haswell"))) == 2


def test_matrices_that_others_read_are_copied_once() -> None:
    m = Maker("shared")
    w, i, x = m.c(TABLE, 24, 8), m.input("i", (3,), "int64"), m.input("x", (3, 8))
    matrices = m.op("take", w, i, axis=0)
    y = m.op("einsum", x, matrices, equation="ad,abd->ab")
    net = m.finish([y, m.op("relu", matrices)])
    assert ops(find_gathered(net)) == ops(net)
    assert "take_einsum" not in called(net, x86("haswell"))


def test_a_cast_of_indices_stays_with_them() -> None:
    m = Maker("cast")
    w, i, x = m.c(TABLE, 24, 8), m.input("i", (3,), "int64"), m.input("x", (3, 8))
    narrow = m.op("cast", i, to="int32")
    y = m.op("einsum", x, m.op("take", w, narrow, axis=0), equation="ad,abd->ab")
    assert called(m.finish([y]), x86("haswell")) == ["cast_take_einsum"]
