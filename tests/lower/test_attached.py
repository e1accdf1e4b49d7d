"""Reductions computed inside their consumer's nest: right results at every place and tile."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import runs_x86
from tests.lower.chains import separable, separables
from tests.lower.check import check_dag, check_row, random_inputs, reference, task_of
from tests.lower.test_programs import examples
from tilework import te
from tilework.lower.ir import Store, walk_stmts
from tilework.lower.register_tiles.program import lower
from tilework.model.draft import draft_of
from tilework.space import SearchSpace, Sketch

SEEDS = st.integers(0, 2**31)


def attached(dag: te.ComputeDAG) -> list[Sketch]:
    return [
        s
        for s in SearchSpace.of(task_of(dag)).sketches
        if any(b.attached_reductions for b in s.blocks)
    ]


@examples(8)
@given(separables(), SEEDS, st.booleans())
def test_separable_convolutions(dag, seed, strange):
    check_dag(dag, seed, sketches=2, rows=1, strange=strange)


@runs_x86
@examples(2)
@given(separables(), SEEDS)
def test_separable_convolutions_on_avx2(dag, seed):
    check_dag(dag, seed, sketches=1, rows=1, target="llvm -mcpu=core-avx2")


def test_every_place():
    """Depthwise, and pointwise before it, per tile of the pointwise convolution that follows."""
    dag = separable(7, 5, 8, 33, expand=24)
    rng = np.random.default_rng(24)
    task, inputs = task_of(dag), random_inputs(dag, rng)
    want = reference(dag, inputs)
    found = attached(dag)
    chains = {tuple(a.op.name for a in s.blocks[-1].attached) for s in found}
    assert ("dw_relu",) in chains
    assert ("dw_pad", "dw_relu") in chains
    assert ("pw0", "dw_pad", "dw_relu") in chains
    for sketch in found:
        for row in sketch.sample(rng, 1):
            check_row(task, sketch, row, inputs, want, threads=(2,), with_interpreter=False)


def test_a_chain_of_products():
    """The rows of the first product that a tile of the second reads are computed with it."""
    a, b = te.placeholder((13, 24), name="A"), te.placeholder((24, 40), name="B")
    c, k = te.placeholder((40, 17), name="C"), te.reduce_axis(24, "k")
    d = te.compute((13, 40), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="D")
    r = te.reduce_axis(40, "r")
    e = te.compute((13, 17), lambda i, j: te.sum(d[i, r] * c[r, j], axis=r), name="E")
    dag = te.ComputeDAG([a, b, c, e])
    depths = [sketch.blocks[-1].attached[0].depth for sketch in attached(dag)]
    assert depths == [1, 2, 1, 2, 3, 3]  # those inside the outer reduce loops come last
    check_dag(dag, 5, rows=1)


def test_the_intermediate_result_never_leaves_the_thread():
    dag = separable(8, 8, 16, 32, p=0)
    for sketch in attached(dag):
        (block,) = sketch.blocks
        row = sketch.sample(np.random.default_rng(1), 1)[0]
        program = lower(sketch, row).program
        assert all(b.scope == "thread" for b in program.temporaries)
        (region,) = program.regions
        stored = {s.buffer.name for s in walk_stmts(region.body) if isinstance(s, Store)}
        assert {"dw.acc", "dw_relu.tile", "pw1.acc", "pw1_relu"} <= stored
        assert block.attached[0].op.name == "dw_relu"


def test_larger_tiles_compute_less_twice():
    """The model prices recomputation: the same work per tile, done for every tile of channels."""
    dag = separable(16, 16, 32, 128, p=0)
    sketch = next(s for s in attached(dag) if s.blocks[0].attached[0].depth == 1)
    names = [d.name for d in sketch.decisions]
    rows = sketch.sample(np.random.default_rng(0), 4000)
    channels = sketch.decisions[names.index("f")].columns
    covered = np.prod(rows[:, channels], axis=1)
    seconds = draft_of(sketch.target).seconds(sketch, rows)
    whole, cut = seconds[covered >= 128], seconds[covered <= 32]
    assert np.median(whole) < np.median(cut)
