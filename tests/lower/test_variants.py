"""Further cuts, further places, and parallel loops of a deeper level: right results in all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower import computations as c
from tests.lower.chains import separable, separables
from tests.lower.check import any_rows, check_row, random_inputs, reference, task_of
from tests.lower.test_programs import examples
from tests.space.test_rfactor import columns, dot, norm
from tests.te.workloads import softmax
from tilework import te
from tilework.space import SearchSpace, Sketch

SEEDS = st.integers(0, 2**31)


def check(dag, seed, sketches, rows_of, *, with_interpreter=True):
    """Check rows of some sketches on one and two threads, and interpreted."""
    rng, task = np.random.default_rng(seed), task_of(dag)
    found = [s for s in SearchSpace.of(task).sketches if sketches(s)]
    if not found:
        return
    inputs = random_inputs(dag, rng)
    want = reference(dag, inputs)
    sketch = found[int(rng.integers(len(found)))]
    for row in rows_of(sketch, rng):
        check_row(
            task, sketch, row, inputs, want, threads=(1, 2), with_interpreter=with_interpreter
        )


def is_inside(sketch: Sketch) -> bool:
    """Whether a stage is computed inside the outer reduce loops of another."""
    return any(a.depth > 2 for b in sketch.blocks for a in b.attached)


def deeper(sketch: Sketch, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """The valid ones of some rows with as many parallel loops as there are."""
    out = rows.copy()
    for own, block in zip(sketch.by_block, sketch.blocks, strict=True):
        (column,) = [d.columns[0] for d in own if d.kind == "parallel"]
        first, last = len(block.parallel_axes), len(block.parallel_loops)
        out[:, column] = rng.integers(min(first + 1, last), last + 1, len(out))
    return out[sketch.valid(out)]


def goes_deeper(sketch: Sketch) -> bool:
    return any(len(b.parallel_loops) > len(b.parallel_axes) for b in sketch.blocks)


@examples(8)
@given(
    st.one_of(c.convolutions(), c.products(), c.depthwise_convolutions(), separables()),
    SEEDS,
    st.booleans(),
)
def test_parallel_loops_of_a_deeper_level(dag, seed, strange):
    def rows(sketch, rng):
        drawn = any_rows(sketch, rng, 400) if strange else sketch.sample(rng, 400)
        return deeper(sketch, rng, drawn)[:1]

    check(dag, seed, goes_deeper, rows)


@examples(6)
@given(st.one_of(c.convolutions(), separables()), SEEDS, st.booleans())
def test_places_inside_the_outer_reduce_loops(dag, seed, strange):
    def rows(sketch, rng):
        drawn = any_rows(sketch, rng, 200) if strange else sketch.sample(rng, 200)
        outer = np.zeros(len(drawn), bool)  # with several iterations, if there are any
        for nest in sketch.nests(drawn):
            for axis in nest.block.reduce if nest.block.reduce_levels > 1 else ():
                outer |= nest.tiles[axis][0] > 1
        return (drawn[outer] if outer.any() else drawn)[:1]

    check(dag, seed, is_inside, rows)


def test_both_convolutions_of_a_chain_inside():
    dag = separable(5, 6, 8, 17, expand=6)

    def whole(sketch):
        return len(sketch.blocks) == 1 and all(a.depth == 3 for a in sketch.blocks[0].attached)

    check(dag, 0, whole, lambda sketch, rng: sketch.sample(rng, 2))


CUT = [
    norm(96, 400),
    columns(12000, 3, te.sum),
    dot(65 * 512),
    te.ComputeDAG(softmax(7, 192)),
]


@pytest.mark.parametrize("which", range(len(CUT)))
def test_other_cuts_of_a_reduction(which):
    dag, task = CUT[which], task_of(CUT[which])
    rng = np.random.default_rng(which)
    found = [s for s in SearchSpace.of(task).sketches if s.cuts][-6:]
    assert len({tuple(s.cuts.values()) for s in found}) > 2
    inputs = random_inputs(dag, rng)
    want = reference(dag, inputs)
    for sketch in found:
        for row in sketch.sample(rng, 1):
            small = sketch is found[0] and np.prod(dag.inputs[0].shape) < 2000
            check_row(task, sketch, row, inputs, want, threads=(1, 2), with_interpreter=small)
