"""Reductions with few spatial points: vectorised, in parallel, right, and believed to pay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import x86
from tests.lower.check import check_dag
from tests.lower.test_programs import examples
from tests.te.workloads import softmax
from tilework import te
from tilework.model.draft import draft_of
from tilework.space import SearchSpace, Sketch
from tilework.target import Target

TARGET = Target(x86("x86-64-v4", 2))


def norm(n: int, m: int) -> te.ComputeDAG:
    """Euclidean norm of a matrix."""
    a = te.placeholder((n, m), name="A")
    i, j = te.reduce_axis(n, "i"), te.reduce_axis(m, "j")
    s = te.compute((), lambda: te.sum(a[i, j] * a[i, j], axis=[i, j]), name="S")
    return te.ComputeDAG([a, te.compute((), lambda: te.sqrt(s[()]), name="N")])


def columns(n: int, m: int, kind=te.max) -> te.ComputeDAG:
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis(n, "k")
    return te.ComputeDAG([a, te.compute((m,), lambda j: kind(a[k, j], axis=k), name="C")])


def dot(n: int) -> te.ComputeDAG:
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    k = te.reduce_axis(n, "k")
    return te.ComputeDAG([a, b, te.compute((), lambda: te.sum(a[k] * b[k], axis=k), name="D")])


def factored(dag: te.ComputeDAG) -> list[Sketch]:
    found = SearchSpace.derive(dag, TARGET).sketches
    return [s for s in found if any("rfactor" in step for step in s.steps)]


def test_a_norm_is_summed_in_lanes_and_in_parts():
    lanes, both, *_ = factored(norm(512, 512))
    assert [a.name for a in lanes.blocks[0].spatial] == ["ji"]
    assert [a.name for a in both.blocks[0].spatial] == ["io", "ji"]
    assert lanes.blocks[0].spatial[0].extent == 64
    for s in (lanes, both):
        assert s.blocks[1].result.name == "N"  # the square root stays fused


def test_columns_have_their_lanes_already():
    parts, *_ = factored(columns(4096, 16))
    assert [a.name for a in parts.blocks[0].spatial] == ["ko", "j"]
    assert not factored(columns(4096, 1024))


def test_every_sum_of_a_softmax():
    found = factored(te.ComputeDAG(softmax(1, 1000)))
    assert {sum("rfactor" in step for step in s.steps) for s in found} == {1, 2}


@pytest.mark.parametrize("extent", [97, 63])
def test_extents_without_useful_factors(extent):
    assert not [s for s in factored(dot(extent)) if s.blocks[0].spatial[-1].extent < 4]


@pytest.mark.parametrize("dag", [norm(512, 512), dot(1 << 20), te.ComputeDAG(softmax(1, 1000))])
def test_it_is_believed_to_pay(dag):
    import numpy as np

    best = {}
    for s in SearchSpace.derive(dag, TARGET).sketches:
        rows = s.sample(np.random.default_rng(0), 300)
        key = any("rfactor" in step for step in s.steps)
        best[key] = min(best.get(key, 1.0), float(draft_of(s.target).seconds(s, rows).min()))
    assert best[True] < 0.6 * best[False]


@st.composite
def long_reductions(draw):
    kind = draw(st.sampled_from([te.sum, te.max, te.min]))
    if draw(st.booleans()):
        return columns(draw(st.sampled_from([12000, 4099, 8192])), draw(st.integers(1, 9)), kind)
    return draw(st.sampled_from([norm(96, 400), norm(7, 4800), norm(331, 100), dot(65 * 512)]))


@examples(6)
@given(long_reductions(), st.integers(0, 2**31), st.booleans())
def test_results(dag, seed, strange):
    check_dag(dag, seed, sketches=2, rows=1, strange=strange, with_interpreter=False)


@examples(4)
@given(st.sampled_from([norm(20, 96), dot(640), columns(640, 3)]), st.integers(0, 2**31))
def test_small_ones_interpreted(dag, seed):
    check_dag(dag, seed, rows=1)
