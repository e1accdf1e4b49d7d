"""Traffic is what the rule says, loop by loop."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tests.space.test_winograd import conv
from tests.te import workloads
from tilework import ops, te
from tilework.kinds.cpu.features.access import Access
from tilework.kinds.cpu.features.facts import block_facts
from tilework.kinds.cpu.features.footprints import touched_bytes, width
from tilework.kinds.cpu.features.matrix import SketchCost
from tilework.kinds.cpu.features.runs import Runs
from tilework.kinds.cpu.features.traffic import Traffic, first_pass, traffic_of
from tilework.kinds.cpu.machine import Machine
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

SIZES = 2 << 10, 8 << 10, 16 << 10
SMALL = Machine(stray_lines=0.0, l1_bytes=SIZES[0], l2_bytes=SIZES[1], l3_bytes=SIZES[2])
"""No tensor of the tests is in its caches before, and runs of lines cost nothing more."""


def by_the_rule(nest, tiles):
    """Bytes of each access into each cache, walking from the innermost loop outwards."""
    accesses, block = block_facts(nest.block).accesses, nest.block
    loops = list(reversed(block.loops))
    states = [{a: np.ones(nest.count) for a in (*block.spatial, *block.reduce)}]
    for axis, level in loops:
        longer = np.minimum(states[-1][axis] * tiles[axis][level], axis.extent)
        states.append({**states[-1], axis: longer})
    touched = [[touched_bytes(a, spans) for a in accesses] for spans in states]
    into = [[n * np.ones(nest.count) for n in touched[0]] for _ in SIZES]
    for size, per_access in zip(SIZES, into, strict=True):
        for i, access in enumerate(accesses):
            fits = [sum(now) + unused(access, now[i], spans, size) <= size
                    for now, spans in zip(touched, states, strict=True)]  # fmt: skip
            for k, (axis, level) in enumerate(loops):
                if not (access.once and axis.kind == "reduce"):
                    stays = np.logical_or.reduce(fits[k:-1])  # within what stays, all does
                    new = touched[k + 1][i] / touched[k][i]
                    per_access[i] = per_access[i] * np.where(stays, new, tiles[axis][level])
    return into


def unused(access, touched, spans, size):
    """Bytes of L2 that an access keeps from others besides those that it touches."""
    if size != SIZES[1] or access.packed:
        return 0.0
    widths = [width(access, i, spans) for i in range(len(access.dims))]
    return touched * (Runs.of(access, widths, len(next(iter(spans.values())))).room(0.0) - 1.0)


def rows_of(rows, columns, taken):
    """Some of the columns of each row, from the first one on."""
    x = te.placeholder((rows, columns), "x")
    i, j = te.compute((rows, taken), lambda i, j: x[i, j]).op.axes
    return Access(({i: 1}, {j: 1}), x.shape, 4, False, False, 1, False, False)


@pytest.mark.parametrize(("columns", "taken"), [(64, 8), (64, 4), (96, 16), (96, 48), (40, 8)])
def test_rows_take_the_room_of_the_sets_that_they_fall_into(columns, taken):
    rows = 256
    access = rows_of(rows, columns * 8, taken)
    lines = [(r * columns * 8 + c) * 4 // 64 for r in range(rows) for c in range(taken)]
    held = np.bincount(np.unique(lines) % 64, minlength=64)
    expected = 64 * held.max() / held.sum()
    widths = [np.array([float(rows)]), np.array([16.0 * -(-taken // 16)])]
    np.testing.assert_allclose(Runs.of(access, widths, 1).room(0.0), expected)


def test_what_is_fetched_ahead_of_rows_takes_room():
    """Two heads of six, of 64 numbers each: 8 lines of every 24, one in each of eight sets."""
    access, widths = rows_of(1500, 384, 128), [np.array([1500.0]), np.array([128.0])]
    assert Runs.of(access, widths, 1).room(0.0) == 1.0
    assert Runs.of(access, widths, 1).room(1.0) == 2.0  # a ninth line begins a second round


def test_rows_that_a_stride_passes_over_are_not_touched():
    task = SearchTask(
        te.ComputeDAG(workloads.conv2d_relu(h=28, w=28, ci=32, co=48, k=1, s=2, p=0)),
        Target(x86("x86-64-v4", 1)),
    )
    block = SearchSpace.of(task).sketches[0].blocks[-1]
    data = next(a for a in block_facts(block).accesses if 28 in a.shape)
    spans = {a: np.array([float(a.typical)]) for a in (*block.spatial, *block.reduce)}
    assert touched_bytes(data, spans) == 14 * 14 * 32 * 4


def test_tiles_of_a_transform_use_what_is_fetched_ahead_of_them():
    task = SearchTask(conv(56, 64, 64), Target(x86("x86-64-v4", 1)))
    sketch = next(s for s in SearchSpace.of(task).sketches if "F(4x4" in s.name)
    nest = sketch.nests(sketch.sample(np.random.default_rng(0), 60))[-1]
    assert nest.block.transform is not None
    table = nest.table.astype(float)
    into = [
        traffic_of(nest, block_facts(nest.block), table, Machine(stray_lines=lines)).into[1]
        for lines in (0.0, 1.0)
    ]
    assert (into[0] > 0).any()
    assert (into[1] <= 1.3 * into[0]).all()  # twice as much, if all were for nothing


def test_the_first_of_several_register_tiles_waits_for_weights():
    task = SearchTask(
        te.ComputeDAG(workloads.matmul(64, 512, 512, free=True)), Target(x86("x86-64-v4", 1))
    )
    facts = block_facts(SearchSpace.of(task).sketches[0].blocks[-1])
    machine, rows = Machine(memory_rate=1.0), facts.block.spatial[0]
    into = np.zeros((3, len(facts.accesses), 3))
    (packed,) = (i for i, a in enumerate(facts.accesses) if a.packed)
    size = facts.accesses[packed].tensor_bytes
    into[2, packed] = [size, size, 8 * size]  # the last has eight tiles, and comes eight times
    numbers = dict.fromkeys(facts.block.spatial, np.ones(3)) | {rows: np.array([1.0, 4.0, 8.0])}
    busy = np.array([1.0, 1.0, 8.0]) * size
    lost = first_pass(facts, Traffic(list(into), into[0]), numbers, busy, machine)
    assert lost[0] == lost[2] == 0  # what is busy all the time hides all of it
    assert 0 < lost[1] <= 0.75 * size


@pytest.mark.parametrize(
    "made",
    [
        workloads.matmul(128, 96, 160, free=True),
        workloads.conv2d_relu(h=28, w=28, ci=32, co=48),
        workloads.conv2d_relu(h=30, w=30, ci=16, co=64, s=2),
        workloads.max_pool(h=28, w=28, c=96),
    ],
)
def test_what_comes_into_a_cache_is_what_the_rule_says(made):
    task = SearchTask(te.ComputeDAG(made), Target(x86("x86-64-v4", 1)))
    for sketch in SearchSpace.of(task).sketches:
        for nest in sketch.nests(sketch.sample(np.random.default_rng(0), 60)):
            if nest.block.attached_reductions:
                continue
            tiles = {a: extents.astype(float) for a, extents in nest.tiles.items()}
            found = traffic_of(nest, block_facts(nest.block), nest.table.astype(float), SMALL)
            np.testing.assert_allclose(found.into, by_the_rule(nest, tiles), rtol=1e-12)


def test_runs_of_one_state_and_of_all_are_those_of_each_row():
    task = SearchTask(
        te.ComputeDAG(workloads.conv2d_relu(h=30, w=30, ci=16, co=64, s=2)),
        Target(x86("x86-64-v4", 1)),
    )
    (sketch, *_) = SearchSpace.of(task).sketches
    for nest in sketch.nests(sketch.sample(np.random.default_rng(0), 60)):
        walk, table = block_facts(nest.block).walk, nest.table.astype(float)
        spans, every = walk.spans(nest.by_group(table)), np.arange(nest.count)
        widths = walk.widths(spans, nest.count)
        for i in range(len(walk.accesses)):
            states = walk.own_states(i)
            lines = walk.runs(i, widths, states).lines().reshape(len(states), -1)
            for state, own in zip(states, lines, strict=True):
                each = walk.runs(i, widths, np.full(nest.count, state), every).lines()
                assert np.array_equal(own, each)
                assert np.array_equal(walk.runs(i, widths, int(state)).lines(), each)


def test_panels_of_bytes_follow_from_l2_as_they_are_multiplied():
    """Sums that wait between two halves of a panel, so that each fits L1, cost more."""
    a, b = te.placeholder((128, 768), "a", "uint8"), te.placeholder((768, 768), "b", "int8")
    dag = te.ComputeDAG([a, b, ops.dense(a, b, layout_free=True, sums="int32")])
    (sketch, *_) = SearchSpace.of(SearchTask(dag, Target(x86("znver4", 1)))).sketches
    rows = np.array([(1, 16, 8, 1, 16, 48, 768 // n, 0, 192) for n in (1, 2)])
    rows = np.vstack([rows, (1, 1, 8, 8, 2, 48, 384, 0, 192)])  # as few sums wait as can
    whole, all_wait, few_wait = SketchCost.of(sketch, rows, Machine(fma_ports=1.0)).seconds[0]
    assert whole < few_wait < all_wait
