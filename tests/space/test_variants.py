"""Sketches behind the others: other cuts, other places, and how one is reached from another."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tests.lower.chains import separable
from tests.space.test_rfactor import columns, norm
from tests.te.workloads import conv2d_relu, matmul, softmax
from tilework import te
from tilework.kinds.cpu.rules import CPU_RULES
from tilework.space import SearchSpace, Sketch
from tilework.space.few_rows import sum_along_rows
from tilework.space.rfactor import other_cuts
from tilework.space.rules import place_producer_inside, place_reduction_inside
from tilework.space.siblings import siblings
from tilework.target import Target

TARGET = Target(x86("x86-64-v4", 2))
RNG = np.random.default_rng
VARIED = (other_cuts, sum_along_rows, place_producer_inside, place_reduction_inside)
DAGS = {
    "convolution": te.ComputeDAG(conv2d_relu(1, 14, 14, 32, 32)),
    "chain": separable(14, 14, 16, 32, expand=24),
    "softmax": te.ComputeDAG(softmax(1, 1000)),
    "norm": norm(512, 512),
    "columns": columns(4096, 16),
    "product": te.ComputeDAG(matmul(64, 64, 64)),
}


def derived(name: str, target: Target = TARGET) -> tuple[Sketch, ...]:
    return SearchSpace.derive(DAGS[name], target).sketches


@pytest.mark.parametrize("name", DAGS)
def test_they_come_behind_all_others_and_are_few(name):
    plain = SearchSpace.derive(
        DAGS[name], TARGET, tuple(r for r in CPU_RULES if r not in VARIED)
    ).sketches
    found = derived(name)
    assert [s.name for s in found[: len(plain)]] == [s.name for s in plain]
    assert len({s.name for s in found}) == len(found) <= len(plain) + 8


def test_a_reduction_is_cut_in_several_ways():
    assert [s.cuts.get("S") for s in derived("norm")] == [
        None, "j by 64", "i in 2, j by 64",
        "j by 16", "j by 32", "j by 128", "i in 4, j by 64", "i in 8, j by 64", "i in 32, j by 64",
        "i in 2, j by 16", "i in 2, j by 32",
    ]  # fmt: skip
    assert [s.cuts.get("C") for s in derived("columns")][2:] == ["k in 4", "k in 8", "k in 32"]


def test_reductions_in_a_row_are_cut_alike():
    cuts = [tuple(s.cuts.values()) for s in derived("softmax")[4:]]
    assert cuts == [("k by 20",) * 2, ("k by 40",) * 2, ("k by 125",) * 2]


def test_one_thread_has_no_parts():
    found = derived("norm", Target(x86("x86-64-v4", 1)))
    assert all(" in " not in cut for s in found for cut in s.cuts.values())


def test_places_inside_the_outer_reduce_loops():
    places = [
        tuple((a.op.name, a.depth) for b in s.blocks for a in b.attached) for s in derived("chain")
    ]
    inside = [p for p in places if any(depth == 3 for _, depth in p)]
    assert inside == places[-len(inside) :]
    assert {(("dw_relu", 3),), (("dw_pad", 3),), (("dw_pad", 3), ("dw_relu", 3))} <= set(inside)
    (conv,) = [s for s in derived("convolution") if s.name.endswith("level 3")]
    assert "compute pad_temp at rc.0, region" in conv.describe(conv.sample(RNG(0), 1)[0])


def test_what_was_cut_and_how_is_told():
    sketch = derived("norm")[6]
    assert "rfactor S: i in 4, j by 64" in sketch.describe(sketch.sample(RNG(0), 1)[0])


@pytest.mark.parametrize("name", DAGS)
def test_siblings_are_one_step_away_and_back(name):
    found = derived(name)
    near = siblings(found)
    assert len(near) == len(found)
    for i, js in enumerate(near):
        assert js
        for j in js:
            assert i in near[j]
            assert found[i].form == found[j].form
            assert found[i].stages != found[j].stages


def test_siblings_differ_in_one_stage():
    found = derived("convolution")
    direct = [s.id for s in found if not s.form]
    for i in direct:
        assert list(siblings(found)[i]) == [j for j in direct if j != i]
    chain, near = derived("chain"), siblings(derived("chain"))
    differing = [
        {n for n in chain[i].stages if chain[i].stages[n] != chain[j].stages.get(n)}
        for i, js in enumerate(near)
        for j in js
    ]
    alone = {name for names in differing if len(names) == 1 for name in names}
    assert alone == {"dw", "dw_pad", "pw0"}
