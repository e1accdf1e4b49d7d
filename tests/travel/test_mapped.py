"""Rows of one sketch as rows of another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hosts import x86
from tests.te import workloads
from tilework import extract_tasks, te, zoo
from tilework.graph import Builder
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask
from tilework.travel.mapped import alternatives
from tilework.travel.structure import gap, pairs


def mapped(source, target, rows):
    """The nearest row of ``target`` for each of ``source``, where there is one."""
    return alternatives(source, target, rows, 1).rows


TARGETS = [x86(f"x86-64-v{v}", n) for v in (2, 3, 4) for n in (1, 2)]


@pytest.fixture(scope="module")
def dags():
    """What some networks of the zoo compute, each once."""
    networks = ("mlp", "squeezenet_v1.1", "mobilenet", "resnet-18")
    found = [t for name in networks for t in extract_tasks(zoo.get(name), Target(TARGETS[0]))[0]]
    return list({t.workload_key: t.compute_dag for t in found}.values())


def space(dag, target):
    return SearchSpace.of(SearchTask(dag, Target(target)))


def counterpart(source, sketches):
    return min(sketches, key=lambda sketch: gap(source, sketch))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_mapped_rows_are_valid_and_their_own_targets_are_themselves(dags, data):
    dag = data.draw(st.sampled_from(dags))
    one, other = (space(dag, data.draw(st.sampled_from(TARGETS))) for _ in range(2))
    source = data.draw(st.sampled_from(one.sketches))
    rows = source.sample(np.random.default_rng(data.draw(st.integers(0, 99))), 4)
    target = counterpart(source, other.sketches)
    found = mapped(source, target, rows)
    assert len(found) == len(rows)
    assert target.valid(found).all()
    assert np.array_equal(found, mapped(source, target, rows))
    assert np.array_equal(mapped(source, source, rows), rows)
    several = alternatives(source, target, rows, 8)
    assert target.valid(several.rows).all()
    assert (np.diff(several.origin) >= 0).all() and (np.bincount(several.origin) <= 8).all()
    first = np.searchsorted(several.origin, np.arange(len(rows)))
    assert np.array_equal(several.rows[first], found)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_vectors_come_back_as_they_went(dags, data):
    """From 512 to 256 bits and back: as many vectors a tile, where the registers allow it."""
    dag = data.draw(st.sampled_from(dags))
    wide, narrow = (space(dag, x86(f"x86-64-{v}", 1)) for v in ("v4", "v3"))
    source = data.draw(st.sampled_from(wide.sketches[:4]))
    there = counterpart(source, narrow.sketches)
    rows = source.sample(np.random.default_rng(data.draw(st.integers(0, 99))), 4)
    went = mapped(source, there, rows)
    back = mapped(there, source, went)
    assert len(back) == len(rows)
    for pair in pairs(source, there):
        if pair.source is None:
            continue
        axis, decision = pair.source.axis, pair.source
        few = len(np.unique(decision.choices[:, -1])) == 1
        block = pair.source_block
        if axis is not None and block is not None and axis is block.spatial[-1]:
            if not block.reduce or few:
                continue
            was, now = rows[:, decision.columns[-1]], back[:, decision.columns[-1]]
            half = went[:, pair.target.columns[-1]]
            steps = np.where(2 * half == was, 1, 2)  # each way a vector more of one, two or three
            assert (np.abs(np.log2(was / now)) <= steps).all()


@pytest.mark.parametrize("target", ["cuda -model=a100 -run=emulated", "reference"])
def test_other_kinds_map_their_rows_to_themselves(target):
    dag = te.ComputeDAG(workloads.matmul(64, 96, 128))
    for sketch in space(dag, target).sketches[:3]:
        rows = sketch.sample(np.random.default_rng(0), 8)
        assert np.array_equal(mapped(sketch, sketch, rows), rows)


def test_a_row_of_another_workload_keeps_its_register_tile():
    one, other = (
        space(te.ComputeDAG(workloads.conv2d_relu(1, n, n, 64, 64)), TARGETS[2]) for n in (56, 28)
    )
    source = one.sketches[0]
    target = counterpart(source, other.sketches)
    assert target.id == source.id
    rows = source.sample(np.random.default_rng(0), 32)
    found = alternatives(source, target, rows, 1)
    assert target.valid(found.rows).all() and len(found.rows) > 16
    last = next(d for d in target.decisions if d.axis is target.blocks[-1].spatial[-1])
    same = found.rows[:, last.columns[-1]] == rows[found.origin][:, last.columns[-1]]
    assert same.mean() > 0.8


def test_sketches_with_nothing_in_common_give_no_rows():
    conv = space(te.ComputeDAG(workloads.conv2d_relu()), TARGETS[2]).sketches[0]
    pool = space(te.ComputeDAG(workloads.softmax(8, 16)), TARGETS[2]).sketches[0]
    rows = conv.sample(np.random.default_rng(0), 4)
    assert not len(mapped(conv, pool, rows))
    assert not len(mapped(conv, conv, rows[:0]))


def test_tiles_with_other_numbers_of_levels_meet():
    """An extent of 1 has one level, and what stands in its place elsewhere has three."""
    b = Builder("two")
    x, y = b.input("x", (1, 10)), b.input("y", (8,))
    sums = b.op("cumulative", y, axis=0, kind="sum", exclusive=False, reverse=False)
    net = b.finish([b.op("softmax", x, axis=1), sums])
    one, other = (
        SearchSpace.of(task).sketches[0] for task in extract_tasks(net, Target(TARGETS[-2]))[0]
    )
    counts = {
        (len(p.target.columns), len(p.source.columns)) for p in pairs(one, other) if p.source
    }
    assert any(a != b for a, b in counts)
    for source, target in ((one, other), (other, one)):
        rows = source.sample(np.random.default_rng(0), 4)
        assert target.valid(mapped(source, target, rows)).all()
