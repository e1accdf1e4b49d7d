"""Sketches as values: plans, levels with roles, capabilities, and columns found by decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.hosts import x86
from tests.te.workloads import conv2d_relu, matmul
from tilework import te
from tilework.kinds.cpu.rules import CPU_RULES
from tilework.kinds.cpu.tiling import TILING
from tilework.space import BlockNest, SearchSpace, Sketch
from tilework.space.levels import Level, Levels, Role
from tilework.space.plan import At, Fused, Inlined, Root
from tilework.space.winograd.rule import winograd
from tilework.target import Target
from tilework.te.tensor import Compute

TARGET = Target(x86("core-avx2", 4))


def sketches(tensors) -> tuple[Sketch, ...]:
    return SearchSpace.derive(te.ComputeDAG(tensors), TARGET).sketches


def test_every_stage_has_a_plan():
    for sketch in sketches(conv2d_relu(1, 14, 14, 32, 32)):
        stages = [op for op in sketch.dag.ops if isinstance(op, Compute)]
        assert set(sketch.plans) == set(stages)
        roots = [op for op, plan in sketch.plans.items() if isinstance(plan.place, Root)]
        assert {b.op for b in sketch.blocks} == set(roots)
        for op, plan in sketch.plans.items():
            match plan.place:
                case Fused(anchor):
                    (block,) = [b for b in sketch.blocks if b.op is anchor]
                    assert block.epilogue is op
                case At(reader, depth):
                    (block,) = [b for b in sketch.blocks if b.op is reader]
                    assert [(a.op, a.depth) for a in block.attached] == [(op, depth)]
                case Inlined():
                    assert all(op is not b.op for b in sketch.blocks)


def test_winograd_is_one_of_the_rules():
    assert winograd in CPU_RULES
    dag = te.ComputeDAG(conv2d_relu(1, 14, 14, 32, 32))
    all_of_them = SearchSpace.derive(dag, TARGET).sketches
    direct = SearchSpace.derive(dag, TARGET, tuple(r for r in CPU_RULES if r is not winograd))
    assert [s.steps for s in all_of_them if not s.form] == [s.steps for s in direct.sketches]
    rewritten = [s for s in all_of_them if s.form]
    forms = [s.steps[0] for s in rewritten]
    assert set(forms) == {"winograd F(2x2, 3x3)", "winograd F(4x4, 3x3)"}
    assert forms == sorted(forms)
    assert all(s.transforms for s in rewritten)


def test_levels_answer_by_role():
    reuse = TILING.reuse
    assert str(reuse) == "SSRSRS"
    assert (reuse.spatial, reuse.reduce) == (4, 2)
    assert reuse.places == (1, 2)
    assert [reuse.within(depth) for depth in range(7)] == [
        (0, 0), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 2)
    ]  # fmt: skip
    assert reuse.visited == 2
    assert TILING.reduction.places == ()
    assert [level.role for level, _ in reuse.numbered][-2:] == [Role.inner, Role.vector]


def test_levels_of_another_kind_of_machine():
    """Grid, virtual, thread, register | fetch, inner: what a GPU will have."""
    made = Levels(
        (
            Level("S", Role.grid),
            Level("R", Role.serial),
            Level("S", Role.virtual),
            Level("S", Role.thread),
            Level("R", Role.inner),
            Level("S", Role.register),
        ),
        reuse=True,
    )
    assert made.places == (1,)
    assert made.within(2) == (1, 1)
    assert made.visited == 1


def test_columns_belong_to_decisions_and_not_to_places():
    sketch = sketches(matmul(64, 64, 64))[0]
    rows = sketch.sample(np.random.default_rng(0), 50)
    (block,), (own,) = sketch.blocks, sketch.by_block
    order = np.random.default_rng(1).permutation(rows.shape[1])
    place = np.argsort(order)
    moved = [replace(d, columns=tuple(int(place[c]) for c in d.columns)) for d in own]
    one = BlockNest.of(block, rows, own)
    two = BlockNest.of(block, rows[:, order], moved[::-1])
    for axis, extents in one.tiles.items():
        assert all(np.array_equal(a, b) for a, b in zip(extents, two.tiles[axis], strict=True))
    assert np.array_equal(one.parallel, two.parallel)
    assert np.array_equal(one.unroll, two.unroll)


def test_rows_of_a_nest_may_look_at_points_of_their_own():
    sketch = sketches(matmul(64, 96, 64))[0]
    rows = sketch.sample(np.random.default_rng(0), 6)
    (block,), (own,) = sketch.blocks, sketch.by_block
    points = {a: a.extent + 5 * np.arange(6) for a in (*block.spatial, *block.reduce)}
    together = BlockNest.of(block, rows, own, points.__getitem__)
    for p in range(6):
        one = BlockNest.of(block, rows[p : p + 1], own, lambda a, p=p: int(points[a][p]))
        for axis, extents in one.tiles.items():
            assert [int(n[p]) for n in together.tiles[axis]] == [int(n[0]) for n in extents]
            assert together.span(axis, 1)[p] == one.span(axis, 1)[0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dot_products_are_a_capability(dtype):
    target = Target(x86("znver4", 1))
    a, b = te.placeholder((32, 64), "a", dtype), te.placeholder((64, 48), "b", dtype)
    k = te.reduce_axis(64, "k")

    def product(i, j):
        return te.sum(te.cast("float32", a[i, k]) * te.cast("float32", b[k, j]), axis=k)

    c = te.compute((32, 48), product, "c", attrs={"layout_free": ("b",)})
    dag = te.ComputeDAG([a, b, c])
    tiled = [b for s in SearchSpace.derive(dag, target).sketches for b in s.blocks]
    reused = [b for b in tiled if b.levels.reuse]
    assert reused
    assert all((b.dots is not None) == (dtype == "bfloat16") for b in reused)
