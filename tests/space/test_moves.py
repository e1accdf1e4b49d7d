"""Moves between programs: what a child may be, and that it is another program."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.hosts import x86
from tests.space.test_rows import SKETCHES
from tests.te.workloads import conv2d_relu, matmul
from tilework import te, zoo
from tilework.graph.extract import extract_tasks
from tilework.space import SearchSpace, Sketch
from tilework.space import moves as rules
from tilework.space.moves import Arrows, Moves, Table, table_of
from tilework.space.tables import reduce_table, spatial_table
from tilework.target import Target

TARGET = Target(x86("x86-64-v4", 2))


def _pairs(arrows: Arrows) -> list[tuple[int, int]]:
    return [
        (i, int(j))
        for i in range(len(arrows.count))
        for j in arrows.to[arrows.start[i] : arrows.start[i] + arrows.count[i]]
    ]


def _levels(table: Table, extent: int, choice: int) -> list[int]:
    values = [int(v) for v in table.choices[choice]]
    return [-(-extent // math.prod(values)), *values]


@pytest.mark.parametrize("extent", [1, 12, 56, 49])
def test_a_factor_goes_from_one_level_to_another(extent):
    for choices in (spatial_table(extent, 3, (1, 2, 4, 7)), reduce_table(extent, 1)):
        table = Table(choices, extent)
        for i, j in _pairs(table.factors):
            before, after = _levels(table, extent, i), _levels(table, extent, j)
            grown = [a for a, b in zip(after[1:], before[1:], strict=True) if a > b]
            fallen = [b for a, b in zip(after[1:], before[1:], strict=True) if a < b]
            assert len(grown) <= 1 and len(fallen) <= 1 and grown + fallen
    whole = Table(reduce_table(12, 2), 12)
    start = whole.numbers(np.array([[2, 3]]))[0]
    ends = {tuple(whole.choices[j]) for i, j in _pairs(whole.factors) if i == start}
    assert ends == {(1, 3), (2, 1), (4, 3), (2, 6), (1, 6), (6, 1)}


def test_a_step_leads_to_the_nearest_larger_and_smaller():
    table = Table(np.array([[1], [2], [3], [4], [8], [7]], np.int32), 0)
    found = {i: set() for i in range(6)}
    for i, j in _pairs(table.steps):
        found[i].add(int(table.choices[j, 0]))
    assert found == {0: {2}, 1: {1, 3}, 2: {2, 4}, 3: {3, 7}, 4: {7}, 5: {4, 8}}
    assert not _pairs(table.factors)  # no axis: nothing has factors


def test_choices_are_found_by_their_values():
    table = Table(spatial_table(56, 3, (1, 2, 4, 7, 8)), 56)
    shuffled = np.random.default_rng(0).permutation(len(table))
    np.testing.assert_array_equal(table.numbers(table.choices[shuffled]), shuffled)
    strange = np.array([[1, 1, 3], [0, 1, 1], [-1, 2, 2], [10**6, 1, 1]])
    assert (table.numbers(strange) == -1).all()


def test_a_table_too_large_for_pairs_has_factors():
    table = Table(spatial_table(5040, 3, (1, 2, 3, 4)), 5040)
    assert len(table) > rules._LARGEST
    assert not len(table.steps.to) and (table.factors.count > 0).mean() > 0.9


@pytest.fixture(scope="module")
def zoo_sketches() -> list[Sketch]:
    """Sketches of all kinds of layers of three networks: every fourth task."""
    found = []
    for name in ("resnet-18", "mobilenet", "squeezenet_v1.1"):
        tasks, _ = extract_tasks(zoo.get(name), TARGET)
        found += [s for t in tasks[::4] for s in SearchSpace.of(t).sketches]
    return found


def test_nine_of_ten_children_are_programs_of_their_own(zoo_sketches):
    """Other programs than all parents, and than each other."""
    rng = np.random.default_rng(0)
    shares = []
    for sketch in zoo_sketches:
        parents = sketch.sample(rng, 256)
        if len(np.unique(sketch.row_hash(parents))) < 0.9 * 256:
            continue  # hardly more programs than that
        children = sketch.row_hash(sketch.mutate(rng, parents))
        shares.append(len(np.setdiff1d(children, sketch.row_hash(parents))) / 256)
    assert len(shares) > 25
    assert np.mean(shares) > 0.97 and min(shares) > 0.9


@pytest.mark.parametrize("sketch", SKETCHES)
def test_children_are_valid_and_take_choices_of_the_tables(sketch: Sketch):
    rng = np.random.default_rng(3)
    rows = sketch.sample(rng, 64)
    children = sketch.mutate(rng, rows)
    assert children.dtype == np.int32 and sketch.valid(children).all()
    moves = Moves(sketch.by_block)
    assert (moves.numbers(children) >= 0).all()
    changed = (moves.numbers(children) != moves.numbers(rows)).sum(axis=1)
    assert changed.max(initial=0) <= 4  # two trades
    fixed = [c for d in sketch.decisions if len(d.choices) == 1 for c in d.columns]
    np.testing.assert_array_equal(children[:, fixed], rows[:, fixed])


def test_known_programs_are_avoided():
    sketch = SearchSpace.derive(te.ComputeDAG(matmul(64, 64, 64)), TARGET).sketches[0]
    row = sketch.sample(np.random.default_rng(0), 1)
    first = sketch.mutate(np.random.default_rng(1), np.repeat(row, 400, axis=0))
    taken = sketch.row_hash(first)
    again = sketch.mutate(np.random.default_rng(1), np.repeat(row, 400, axis=0), taken)
    here = sketch.row_hash(again)
    own = sketch.row_hash(row)[0]
    assert not np.isin(here[here != own], taken).any()
    assert len(np.unique(here[here != own])) == (here != own).sum() > 20


@pytest.mark.parametrize("kind", range(3))
def test_every_kind_of_move_keeps_to_itself(kind, monkeypatch):
    """Steps and factors change one decision; a trade changes two register tiles."""
    monkeypatch.setattr(rules, "_SHARES", np.cumsum(np.arange(3) == kind).astype(float))
    monkeypatch.setattr(rules, "TWICE", 0.0)
    task = te.ComputeDAG(conv2d_relu(1, 28, 28, 32, 64))
    sketch = SearchSpace.derive(task, TARGET).sketches[1]
    rng = np.random.default_rng(0)
    rows = sketch.sample(rng, 300)
    children = sketch.mutate(rng, rows)
    moves = Moves(sketch.by_block)
    changed = moves.numbers(rows) != moves.numbers(children)
    if kind < 2:
        assert (changed.sum(axis=1) <= 1).all()
        return
    assert (changed.sum(axis=1) == 2).mean() > 0.6
    for row, child, both in zip(rows, children, changed, strict=True):
        if both.sum() == 2:
            ends = [moves.live[i] for i in np.flatnonzero(both)]
            inner = [(row[d.columns[-1]], child[d.columns[-1]]) for d in ends]
            assert {b > a for a, b in inner} == {True, False}
            assert all(d.axis is not None and d.axis.kind == "spatial" for d in ends)


def test_rows_of_other_tables_may_be_parents():
    """A row that travelled here holds choices that no table lists."""
    sketch = SearchSpace.derive(te.ComputeDAG(matmul(60, 60, 64)), TARGET).sketches[0]
    d = next(d for d in sketch.decisions if len(d.columns) == 3)
    rows = np.repeat(sketch.sample(np.random.default_rng(0), 1), 50, axis=0)
    rows[:, d.columns] = (1, 11, 1)
    assert (table_of(d).numbers(rows[:, d.columns]) == -1).all()
    children = sketch.mutate(np.random.default_rng(1), rows)
    changed = (children != rows).any(axis=1)
    assert changed.mean() > 0.5 and sketch.valid(children[changed]).all()


def test_nothing_to_move():
    assert Moves([]).numbers(np.zeros((3, 2), np.int32)).shape == (3, 0)
    rows = np.zeros((3, 2), np.int32)
    none = Moves([]).children(np.random.default_rng(0), rows, lambda r: (r, r), np.zeros(0))
    np.testing.assert_array_equal(none, rows)
