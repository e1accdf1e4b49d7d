"""Lowering: packing of weights, refusals, and the programs' parts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tests.te.workloads import conv2d_relu, matmul
from tilework import te
from tilework.errors import ScheduleError
from tilework.lower.ir import VALUES, For, If, Load, Store, walk_stmts
from tilework.lower.register_tiles.program import lower, lowerable
from tilework.space import SearchSpace
from tilework.space.levels import Level, Levels, Role
from tilework.space.packing import Packing
from tilework.target import Target
from tilework.te.expr import walk

TARGET = Target(x86("x86-64-v4", 2))


def sketch_of(tensors, index=0):
    return SearchSpace.derive(te.ComputeDAG(tensors), TARGET).sketches[index]


def test_packing_cuts_reorders_and_fills_up():
    packing = Packing((5, 4), ((2, 3), (2, 2)), (0, 2, 1, 3))
    assert packing.packed_shape == (2, 2, 3, 2)
    x = np.arange(20.0).reshape(5, 4)
    got = packing.apply(x)
    assert got.flags.c_contiguous
    padded = np.zeros((6, 4))
    padded[:5] = x
    for i in range(6):
        for j in range(4):
            assert got[i // 3, j // 2, i % 3, j % 2] == padded[i, j]
    with pytest.raises(ValueError, match=r"expects shape \[5, 4\], got \[4, 5\]"):
        packing.apply(x.T)


def test_weights_are_packed_only_where_allowed():
    for free in (True, False):
        sketch = sketch_of(matmul(8, 64, 32, free=free))
        lowered = lower(sketch, sketch.sample(np.random.default_rng(0), 1)[0])
        assert sorted(lowered.packing) == ([1] if free else [])


def test_a_weight_with_two_readers_keeps_its_layout():
    a, b, c = matmul(8, 64, 64, free=True)
    k = te.reduce_axis(64, "k")
    again = te.compute((8, 64), lambda i, j: te.sum(c[i, k] * b[k, j], axis=k), name="again")
    sketch = sketch_of([a, b, again])
    assert not lower(sketch, sketch.sample(np.random.default_rng(0), 1)[0]).packing


def test_packed_weights_are_read_in_order():
    """Along the innermost loops, consecutive reads are consecutive in memory."""
    sketch = sketch_of(conv2d_relu(1, 14, 14, 32, 64), 1)
    row = [1, 1, 1, 1, 1, 2, 1, 1, 7, 1, 1, 32, 3, 3, 16, 1, 0]
    packing = lower(sketch, row).packing[1]
    assert packing.packed_shape[-1] == 32
    assert packing.packed_shape[-4:-1] == (3, 3, 16)


def test_program_parts():
    sketch = sketch_of(conv2d_relu(1, 14, 14, 32, 64), 1)
    row = [1, 1, 1, 1, 1, 2, 1, 1, 7, 1, 1, 32, 3, 3, 16, 3, 0]
    program = lower(sketch, row).program
    assert [b.name for b in program.inputs] == ["p0", "p1", "p2"]
    assert [b.name for b in program.outputs] == ["T_relu"]
    assert {b.name: b.scope for b in program.temporaries} == {
        "pad_temp.tile": "thread",
        "conv2d_nhwc.partial": "thread",
    }
    (region,) = program.regions
    assert [v.extent for v in region.parallel] == [7, 2]
    stored = {s.buffer.name for s in walk_stmts(region.body) if isinstance(s, Store)}
    assert stored == {"pad_temp.tile", "conv2d_nhwc.acc", "conv2d_nhwc.partial", "T_relu"}
    assert all(s.extent != 1 for s in walk_stmts(region.body) if isinstance(s, For))


def test_rows_that_do_not_belong_are_refused():
    sketch = sketch_of(matmul(8, 8, 8))
    with pytest.raises(ScheduleError, match="takes 9 decisions per row"):
        lower(sketch, [1, 2, 3])
    with pytest.raises(ScheduleError, match="is not valid for sketch 0"):
        lower(sketch, [1, 1, 1, 1, 1, 8, 3, 0, 0])


PARALLEL, SPATIAL = Level("S", Role.parallel), Level("S", Role.serial)
REDUCE, INNER, TILE = Level("R", Role.serial), Level("R", Role.inner), Level("S", Role.vector)


@pytest.mark.parametrize(
    "form, good, levels",
    [
        ("reduction", True, (PARALLEL, SPATIAL, REDUCE, SPATIAL, INNER, TILE)),
        ("reduction", True, (SPATIAL, INNER, TILE)),
        ("reduction", False, (SPATIAL, REDUCE, REDUCE, INNER, TILE)),
        ("reduction", False, (SPATIAL, PARALLEL, INNER, TILE)),
        ("reduction", False, (SPATIAL, INNER, REDUCE, TILE)),
        ("reduction", False, (Level("S", Role.grid), INNER, Level("S", Role.thread))),
        ("transform", True, (PARALLEL, INNER, TILE)),
        ("transform", False, (PARALLEL, SPATIAL, INNER, TILE)),
        ("elementwise", True, (PARALLEL, TILE)),
        ("elementwise", False, (PARALLEL, SPATIAL, TILE)),
    ],
)
def test_levels_that_no_code_is_made_for(form, good, levels):
    """A kind with such levels would get programs that leave elements out, or sum too little."""
    assert lowerable(Levels(levels), form) is good


def test_codes_of_a_transform_inside_and_at_borders_share_what_they_compute():
    dag = te.ComputeDAG(conv2d_relu(1, 14, 14, 32, 64))
    forms = [s for s in SearchSpace.derive(dag, TARGET).sketches if s.transforms]
    programs = (lower(s, s.sample(np.random.default_rng(0), 1)[0]).program for s in forms)
    bodies = (program.regions[0].body for program in programs)
    branch = next(s for body in bodies for s in walk_stmts(body) if isinstance(s, If))
    inside, border = (
        {s for s in walk_stmts(b) if isinstance(s, Store)} for b in (branch.then, branch.orelse)
    )
    assert len(inside) == len(border)
    assert len(inside - border) == 16  # the data
    read = [
        e
        for s in inside & border
        for e in walk(s.value, VALUES)
        if isinstance(e, Load) and e.buffer.scope == "register"
    ]
    assert len(set(read)) == len({e.indices[0] for e in read})  # each value is one node
