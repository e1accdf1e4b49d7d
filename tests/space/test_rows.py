"""Decision rows: sampling, mutation, crossover, neighbours, validity, hashes, nests."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.hosts import x86
from tests.te.workloads import conv2d_relu, matmul, max_pool, softmax
from tilework import te
from tilework.errors import ScheduleError
from tilework.kinds.cpu.llvm.program import generate_program
from tilework.lower.register_tiles.program import lower
from tilework.space import SearchSpace, Sketch
from tilework.space.distinct import ascending, distinct, values
from tilework.space.regions import attached_extents, scratch_bytes
from tilework.target import Target

TARGETS = [
    Target(x86("core-avx2", 2)),
    Target(x86("x86-64-v4", 8)),
]
WORKLOADS = {
    "conv": conv2d_relu(1, 14, 14, 32, 48),
    "prime": conv2d_relu(1, 7, 13, 3, 17, k=5, s=2, p=2),
    "matmul": matmul(127, 61, 36),
    "dense": matmul(1, 1000, 512, free=True),
    "softmax": softmax(3, 1001),
    "pool": max_pool(1, 7, 7, 24),
}


def all_sketches() -> list:
    out = []
    for name, tensors in WORKLOADS.items():
        for target in TARGETS:
            space = SearchSpace.derive(te.ComputeDAG(tensors), target)
            out += [
                pytest.param(s, id=f"{name}-{s.id}-{target.vector_bits}") for s in space.sketches
            ]
    return out


SKETCHES = all_sketches()


@pytest.fixture(params=SKETCHES)
def sketch(request) -> Sketch:
    return request.param


def _size(sketch: Sketch) -> int:
    """How many rows there are, valid or not."""
    return math.prod(len(d.choices) for d in sketch.decisions)


def test_sampled_rows_are_valid_and_differ(sketch: Sketch):
    rows = sketch.sample(np.random.default_rng(0), 200)
    assert rows.shape == (200, sketch.num_decisions)
    assert rows.dtype == np.int32
    assert sketch.valid(rows).all()
    if _size(sketch) > 1e5:
        assert len(np.unique(rows, axis=0)) > 150


def test_sampling_takes_every_column_from_its_decision(sketch: Sketch):
    rows = sketch.sample(np.random.default_rng(1), 50)
    columns = [c for d in sketch.decisions for c in d.columns]
    assert columns == list(range(sketch.num_decisions))
    for d in sketch.decisions:
        known = {tuple(r) for r in d.choices.tolist()}
        assert {tuple(r) for r in rows[:, d.columns].tolist()} <= known


def test_children_and_neighbours_are_valid(sketch: Sketch):
    rng = np.random.default_rng(2)
    a, b = sketch.sample(rng, 60), sketch.sample(rng, 60)
    before = a.copy()
    mutated, crossed = sketch.mutate(rng, a), sketch.crossover(rng, a, b)
    np.testing.assert_array_equal(a, before)
    assert sketch.valid(mutated).all()
    assert sketch.valid(crossed).all()
    assert (mutated != a).any(axis=1).mean() > 0.2 or _size(sketch) < 100
    for d in sketch.decisions:  # a child takes a decision whole, from one parent
        got = crossed[:, d.columns]
        from_a = (got == a[:, d.columns]).all(axis=1)
        assert (from_a | (got == b[:, d.columns]).all(axis=1)).all()
    near = sketch.neighbours(a[:1])[0]
    assert sketch.valid(near).all()
    changed = np.stack(
        [(near[:, d.columns] != a[0, d.columns]).any(axis=1) for d in sketch.decisions]
    )
    assert (changed.sum(axis=0) == 1).all()


def test_the_same_seed_gives_the_same_rows(sketch: Sketch):
    def draw():
        rng = np.random.default_rng(7)
        rows = sketch.sample(rng, 20)
        return rows, sketch.mutate(rng, rows), sketch.crossover(rng, rows, rows[::-1])

    for one, two in zip(draw(), draw(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_hashes_identify_rows(sketch: Sketch):
    rows = np.unique(sketch.sample(np.random.default_rng(3), 500), axis=0)
    hashes = sketch.row_hash(rows)
    assert hashes.dtype == np.uint64
    assert len(np.unique(hashes)) == len(np.unique(sketch.canonical(rows), axis=0))
    np.testing.assert_array_equal(sketch.row_hash(rows[::-1]), hashes[::-1])


def test_canonical_rows_are_the_same_programs(sketch: Sketch):
    """Columns without effect change neither the program nor its hash."""
    rows = sketch.sample(np.random.default_rng(8), 200)
    canonical = sketch.canonical(rows)
    assert sketch.valid(canonical).all()
    np.testing.assert_array_equal(sketch.canonical(canonical), canonical)
    np.testing.assert_array_equal(sketch.row_hash(canonical), sketch.row_hash(rows))
    if sketch.target.num_cores == 1:  # how loops are counted is no difference there
        shared = [c for d in sketch.decisions if d.kind == "parallel" for c in d.columns]
        assert not canonical[:, shared].any()
        rows[:, shared] = 0
    changed = np.flatnonzero((rows != canonical).any(axis=1))
    for i in changed[:1]:
        texts = [
            generate_program(lower(sketch, r[i]).program, sketch.target).text
            for r in (rows, canonical)
        ]
        assert texts[0] == texts[1]


def test_a_population_of_nests_is_the_nests_of_its_rows(sketch: Sketch):
    rows = sketch.sample(np.random.default_rng(4), 30)
    many = sketch.nests(rows)
    for p, row in enumerate(rows):
        for whole, one in zip(many, sketch.nests(row.reshape(1, -1)), strict=True):
            for axis, extents in whole.tiles.items():
                assert [int(e[p]) for e in extents] == [int(e[0]) for e in one.tiles[axis]]
                for level in range(len(extents)):
                    assert whole.span(axis, level)[p] == one.span(axis, level)[0]
                    assert whole.outer_trips(axis, level)[p] == one.outer_trips(axis, level)[0]
            assert int(whole.parallel[p]) == int(one.parallel[0])
            assert int(whole.unroll[p]) == int(one.unroll[0])
            assert scratch_bytes(whole)[p] == scratch_bytes(one)[0]
            for attached in whole.block.attached:
                got = [int(e[p]) for e in attached_extents(whole, attached)]
                assert got == [int(e[0]) for e in attached_extents(one, attached)]


def test_loops_cover_their_axes(sketch: Sketch):
    rows = sketch.sample(np.random.default_rng(5), 100)
    for nest in sketch.nests(rows):
        for axis, extents in nest.tiles.items():
            covered = np.prod(np.stack(extents), axis=0)
            assert (covered >= axis.extent).all()
            if axis.kind == "reduce":
                assert (covered == axis.extent).all()


def test_register_tiles_fit_the_registers(sketch: Sketch):
    rows = sketch.sample(np.random.default_rng(6), 200)
    for nest in sketch.nests(rows):
        if not nest.block.reduce or nest.block.const_axes:
            continue
        *others, last = nest.block.spatial
        lanes = sketch.target.lanes()
        vectors = -(-nest.tiles[last][-1] // lanes)
        for axis in others:
            vectors = vectors * nest.tiles[axis][-1]
        assert (vectors < sketch.target.num_vector_registers).all()


class TestRefusals:
    space = SearchSpace.derive(te.ComputeDAG(matmul(64, 64, 64)), TARGETS[0])
    sketch = space.sketches[0]
    row = sketch.sample(np.random.default_rng(0), 1)[0]

    @pytest.mark.parametrize("column", range(9))
    @pytest.mark.parametrize("value", [-1, 10**6])
    def test_numbers_out_of_range(self, column, value):
        row = self.row.copy()
        row[column] = value
        assert not self.sketch.valid(row.reshape(1, -1))[0]

    def test_zero_tiles(self):
        for column in range(7):
            row = self.row.copy()
            row[column] = 0
            assert not self.sketch.valid(row.reshape(1, -1))[0]

    def test_reduce_factors_must_divide(self):
        row = self.row.copy()
        row[6] = 7
        assert not self.sketch.valid(row.reshape(1, -1))[0]

    def test_wrong_width(self):
        with pytest.raises(ScheduleError, match="takes 9 decisions per row, got 8"):
            self.sketch.check(self.row[:8])

    def test_unknown_sketch(self):
        with pytest.raises(ScheduleError, match="sketch 9 does not exist: the task has 2"):
            self.space.sketch(9)


def test_fused_loops_overhang_no_axis_even_of_one_point():
    """A loop over several tiles of an axis that has one is clipped, unless threads share it."""
    space = SearchSpace.derive(te.ComputeDAG(conv2d_relu(1, 14, 14, 32, 48)), TARGETS[0])
    sketch = space.sketches[0]
    rows = sketch.sample(np.random.default_rng(9), 200)
    by_key = {d.key: d for d in sketch.decisions}
    batch, parallel = (by_key[f"conv2d_nhwc.{n}"] for n in ("nn", "parallel"))
    rows = rows[rows[:, parallel.columns[0]] > 4]
    assert len(rows)
    rows[:, batch.columns] = 4, 1, 1
    assert not sketch.valid(rows).any()
    rows[:, parallel.columns] = 4
    assert sketch.valid(rows).any()


def test_rows_move_between_places_of_computation():
    """What both sketches decide is kept."""
    space = SearchSpace.derive(te.ComputeDAG(conv2d_relu(1, 14, 14, 32, 48)), TARGETS[0])
    rng = np.random.default_rng(9)
    root, at, *_ = space.sketches
    for source, target in ((root, at), (at, root)):
        rows = source.sample(rng, 90)
        *_, conv = source.nests(rows)
        rows = rows[conv.parallel <= 4]  # what is inside level 1 ends the loops that can be fused
        moved = target.moved(rng, source, rows)
        assert len(moved) > 10
        assert target.valid(moved).all()
        keys = {d.key: d for d in source.decisions}
        kept = [d for d in target.decisions if d.key in keys]
        assert {"conv2d_nhwc.xx", "conv2d_nhwc.parallel"} <= {d.key for d in kept}
        columns = [c for d in kept for c in d.columns]
        theirs = [c for d in kept for c in keys[d.key].columns]
        known = {tuple(r) for r in rows[:, theirs].tolist()}
        assert {tuple(r) for r in moved[:, columns].tolist()} <= known


@pytest.mark.parametrize("around", [False, True])
def test_rows_as_a_block_sees_them_are_the_rows(sketch: Sketch, around: bool):
    rows = sketch.sample(np.random.default_rng(3), 200)
    if around:  # stand by the decision that changes
        rows = np.concatenate(sketch.neighbours(rows[:2]))
    parts = sketch.programs.parts(rows)
    if around and len(parts) > 1:
        assert any(part.nest.count < len(rows) for part in parts)
    for part, nest in zip(parts, sketch.nests(rows), strict=True):
        assert part.nest.count <= nest.count == len(rows)
        for axis, extents in nest.tiles.items():
            assert np.array_equal(part.of_all(part.nest.tiles[axis]), extents)
        for kind, chosen in nest.values.items():
            assert np.array_equal(part.of_all(part.nest.values[kind]), chosen)


@pytest.mark.parametrize("columns", [0, 3, 40])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_ascending_rows_are_those_that_differ_in_order(columns, count):
    rng = np.random.default_rng(0)
    few = rng.integers(-3, 1000, (60, columns + 1), np.int32)
    rows = few[rng.integers(len(few), size=count)]
    assert np.array_equal(ascending(rows), np.unique(rows, axis=0))


@pytest.mark.parametrize("largest", [3, 1000, 1 << 40])
def test_distinct_rows_are_one_of_each(largest):
    columns = np.random.default_rng(0).integers(0, largest, (2, 300))
    columns[:, 150:] = columns[:, :150]
    columns = np.concatenate([columns, np.full((1, 300), 7)])
    found = distinct(columns)
    if largest > 1000:
        assert found is None  # a row is longer than one number
        return
    one, which = found
    assert np.array_equal(columns[:, one][:, which], columns)
    assert len(one) == len(np.unique(columns, axis=1).T)


@pytest.mark.parametrize("most", [1, 300, 1 << 20])
def test_numbers_that_differ_are_those_of_unique(most: int):
    numbers = np.random.default_rng(3).integers(0, most, 500)
    for some in (numbers, numbers.astype(np.float64), numbers[:1], numbers[:0]):
        for one, other in zip(values(some), np.unique(some, return_inverse=True), strict=True):
            np.testing.assert_array_equal(one, other)
