"""Products in Einstein's notation: NumPy agrees, and so does every schedule."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check import check_dag, task_of
from tilework import ops, te
from tilework.ops.einsum import parse
from tilework.space import SearchSpace

CASES = [
    "ij,jk->ik", "ij,kj->ik", "ji,kj->ki", "bij,bjk->bik", "bhsd,bthd->bhst", "bhst,bthd->bshd",
    "bshd,bthd->tbhs", "abij,bjk->aik", "i,j->ij", "ij,ij->", "ij,ij->i", "bij,bij->bj", "iij->ji",
    "ijk->k", "Ai,aj->Aa",
]  # fmt: skip


def product(equation: str, seed: int, constant: bool = False, batch: int = 0) -> te.ComputeDAG:
    """A product of random extents; ``batch``: extent of labels a and b, else random as well."""
    rng = np.random.default_rng(seed)
    form = parse(equation)
    labels = sorted(set("".join(form.operands)))
    small = set(labels[:-1]) - {form.result[-1:]} if len(labels) > 3 else set()
    size = {n: int(rng.integers(1, 6 if n in small else 20)) for n in labels}
    size |= {n: batch for n in "ab" if batch and n in size}
    tensors = [
        te.placeholder([size[n] for n in names], f"p{i}") for i, names in enumerate(form.operands)
    ]
    free = ("p1",) if constant and len(tensors) > 1 else ()
    return te.ComputeDAG([*tensors, ops.einsum(equation, *tensors, layout_free=free)])


@pytest.mark.parametrize("equation", CASES)
def test_reference(equation: str) -> None:
    rng = np.random.default_rng(0)
    dag = product(equation, 1)
    arrays = [rng.standard_normal(t.shape) for t in dag.inputs]
    (got,) = te.evaluate(dag, arrays, "float64")
    np.testing.assert_allclose(got, np.einsum(equation, *arrays), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("equation", [e for e in CASES if not e.endswith(">")])
def test_schedules(equation: str) -> None:
    check_dag(product(equation, 2, constant=False), 3, sketches=2, rows=1)
    check_dag(product(equation, 4, constant=True), 5, sketches=1, rows=1, strange=True)


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij,bkj->bik", "aibj,akbj->abik"])
def test_batched_products_are_tiled_like_others(equation: str) -> None:
    sketches = SearchSpace.of(task_of(product(equation, 0, batch=3))).sketches
    assert all(s.blocks[-1].levels.reuse for s in sketches)
    places = [s for s in sketches if "T_transpose" in s.name]
    assert bool(places) == (equation != "bij,bjk->bik")


def test_one_extent_gives_way_to_another() -> None:
    a, b = te.placeholder((1, 3, 4), "a"), te.placeholder((5, 4, 2), "b")
    dag = te.ComputeDAG([a, b, ops.einsum("bij,bjk->bik", a, b)])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape) for t in dag.inputs]
    (got,) = te.evaluate(dag, arrays, "float64")
    np.testing.assert_allclose(got, arrays[0] @ arrays[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk", [(2, 3), (3, 4)], "explicit"),
        ("ij,jk->il", [(2, 3), (3, 4)], "labels"),
        ("ij,jk->ii", [(2, 3), (3, 4)], "differ"),
        ("ij,jk->ik", [(2, 3), (4, 4)], "disagree"),
        ("ij,jk->ik", [(2, 3)], "operands"),
        ("ij,jk->ik", [(2, 3, 4), (3, 4)], "shape"),
    ],
)
def test_refusals(equation: str, shapes: list[tuple[int, ...]], message: str) -> None:
    tensors = [te.placeholder(s, f"p{i}") for i, s in enumerate(shapes)]
    with pytest.raises(ValueError, match=message):
        ops.einsum(equation, *tensors)
