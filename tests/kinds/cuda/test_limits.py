"""Which rows are programs: every limit, row by row, and one form of rows that mean the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilework as tw
from tests.kinds.cuda.nests import A100, canonical_rows, conv, matmul, nest_of, rows_of
from tilework import ops, te
from tilework.kinds.cuda.architectures import ARCHITECTURES
from tilework.kinds.cuda.geometry import geometry, least_blocks
from tilework.kinds.cuda.limits import MOST_EXPANDED, MOST_OVERHANG, MOST_VIRTUAL, valid
from tilework.kinds.cuda.staging import box, operands, shared_bytes, spans
from tilework.kinds.cuda.tiling import DIRECT, POINTS
from tilework.space import SearchSpace

BLOCKS = {
    "matmul": matmul(1000, 512, 256),
    "small": matmul(7, 50, 48),
    "conv": conv(28, 28, 64, 96, 3, 1, 1),
    "strided": conv(15, 15, 3, 16, 7, 2, 3),
}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("target", [A100, tw.Target("cuda -arch=sm_75")])
def test_a_valid_row_keeps_every_limit(name, target):
    block = BLOCKS[name]
    rows = rows_of(block, 4000, target=target)
    rows = rows[valid(nest_of(block, rows, target), target)]
    assert len(rows) > 50
    for i in range(0, len(rows), max(len(rows) // 100, 1)):
        nest = nest_of(block, rows[i : i + 1], target)
        tiles = {a: [int(t[0]) for t in ts] for a, ts in nest.tiles.items()}
        threads = math.prod(tiles[a][2] for a in block.spatial)
        held = math.prod(tiles[a][1] * tiles[a][3] for a in block.spatial)
        assert threads <= 1024
        if math.prod(a.extent for a in block.spatial) >= 256:
            assert threads % 32 == 0
        assert math.prod(tiles[a][1] for a in block.spatial) <= MOST_VIRTUAL
        assert held + 16 <= 255
        assert held <= MOST_EXPANDED
        assert all(math.prod(tiles[a]) <= MOST_OVERHANG * a.extent for a in block.spatial)
        assert all(math.prod(tiles[a]) == a.extent for a in block.reduce)
        assert int(shared_bytes(nest)[0]) <= ARCHITECTURES[target.arch].shared_per_block


def test_shared_memory_that_an_older_architecture_lacks_is_refused():
    block, old = BLOCKS["conv"], tw.Target("cuda -arch=sm_75")
    rows = rows_of(block, 20_000)
    nest = nest_of(block, rows)
    much = shared_bytes(nest) > 64 << 10
    assert (valid(nest, A100) & much).any() and not (valid(nest, old) & much).any()


@pytest.mark.parametrize(
    ("threads", "registers", "blocks"),
    [
        (256, 0, 0),
        (256, 64, 4),
        (256, 96, 2),
        (256, 128, 2),
        (256, 168, 0),
        (64, 128, 8),
        (32, 64, 16),
    ],
)
def test_registers_are_asked_for_by_launch_bounds(threads, registers, blocks):
    assert least_blocks(np.array([threads]), np.array([registers]))[0] == blocks


@pytest.mark.parametrize("name", BLOCKS)
def test_canonical_rows_are_the_same_programs(name):
    block = BLOCKS[name]
    rows = rows_of(block, 3000, seed=1)
    plain = canonical_rows(block, rows)
    assert np.array_equal(canonical_rows(block, plain), plain)
    a, b = nest_of(block, rows), nest_of(block, plain)
    assert np.array_equal(valid(a, A100), valid(b, A100))
    ga, gb = geometry(a), geometry(b)
    for field in ("threads", "grid", "shared", "accumulators", "expanded"):
        assert np.array_equal(getattr(ga, field), getattr(gb, field)), field
    for i, operand in enumerate(operands(block)):
        one, two = box(a, i, operand, spans(a)), box(b, i, operand, spans(b))
        staged = one.reach > 0
        assert np.array_equal(one.reach, two.reach)
        assert np.array_equal(one.width[staged], two.width[staged])
    assert (plain != rows).any()


@pytest.mark.parametrize(("batch", "n", "m"), [(49, 2, 8), (121, 9, 4), (169, 1, 3), (300, 5, 1)])
def test_many_small_products_have_schedules(batch, n, m):
    """Also where no block of theirs fills a warp, or even most of one."""
    a, b = te.placeholder((batch, n, 3), "a"), te.placeholder((batch, 3, m), "b")
    dag = te.ComputeDAG([a, b, ops.einsum("bik,bkj->bij", a, b)])
    for sketch in SearchSpace.derive(dag, A100).sketches:
        assert len(sketch.sample(np.random.default_rng(0), 4)) == 4


def test_sketches_of_several_kernels_are_sampled_in_full():
    """Rows that are valid in each of three kernels are one in hundreds."""
    q, k, v = (te.placeholder((2, 2, n, 16), name) for n, name in ((33, "q"), (8, "k"), (8, "v")))
    weights = ops.softmax(ops.einsum("bhik,bhjk->bhij", q, k), 3)
    dag = te.ComputeDAG([q, k, v, ops.einsum("bhij,bhjk->bhik", weights, v)])
    for sketch in SearchSpace.derive(dag, A100).sketches:
        rows = sketch.sample(np.random.default_rng(0), 48)
        assert len(rows) == 48 and sketch.valid(rows).all()


def test_direct_kernels_are_whole_warps():
    block = conv(28, 28, 64, 64, 3, 1, 1, levels=DIRECT)
    rows = rows_of(block, 1000)
    nest = nest_of(block, rows)
    ok = valid(nest, A100)
    assert ok.mean() > 0.3
    outer = np.prod([nest.tiles[a][0] for a in block.spatial], axis=0)
    assert np.array_equal(geometry(nest).grid, -(-outer // nest.values["threads"]))


def test_points_need_no_more_than_their_vectors():
    block = matmul(64, 130, 1, levels=POINTS)
    rows = rows_of(block, 200)
    nest = nest_of(block, rows)
    ok = valid(nest, A100)
    assert ok.any()
    assert (geometry(nest).threads[ok] % 32 == 0).all()


@pytest.mark.parametrize("shape", [(17, 17), (17, 33), (9, 35), (35, 11), (23, 23), (257, 1)])
def test_shapes_of_odd_sizes_have_valid_rows(shape):
    block = matmul(*shape, 16)
    assert valid(nest_of(block, rows_of(block, 4000)), A100).any()


def test_random_rows_are_often_valid():
    """Sampling draws until rows are valid: tables must not ask for what limits refuse."""
    tasks, _ = tw.extract_tasks(tw.zoo.get("resnet-18", batch=1), A100)
    shares = []
    for task in tasks[::2]:
        for sketch in SearchSpace.of(task).sketches:
            assert all(len(d.choices) < 20_000 for d in sketch.decisions)
            rng, rows = np.random.default_rng(0), np.empty((500, sketch.num_decisions), np.int32)
            for d in sketch.decisions:
                rows[:, d.columns] = d.choices[rng.integers(len(d.choices), size=len(rows))]
            shares.append(sketch.valid(rows).mean())
    assert min(shares) > 0.05 and np.median(shares) > 0.15, sorted(shares)[:5]
