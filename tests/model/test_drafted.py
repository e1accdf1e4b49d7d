"""The draft's choice: about as fast as the fastest row that it saw, with little code."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tests.te import workloads
from tilework import te
from tilework.kinds.cpu.build import generate
from tilework.model.climbing import climbed
from tilework.model.draft import draft_of
from tilework.model.drafted import _least, best_drafted
from tilework.space import SearchSpace
from tilework.space.decision import alone, around
from tilework.target import Target
from tilework.task import SearchTask


def _sum_of_rows(rows, columns):
    """Sums whose vectors are collected from as many rows."""
    a = te.placeholder((rows, columns), name="A")
    k = te.reduce_axis(columns, "k")
    return [a, te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="S")]


WORKLOADS = {
    "conv": workloads.conv2d_relu(1, 14, 14, 32, 48),
    "prime": workloads.conv2d_relu(1, 7, 13, 3, 17, k=5, s=2, p=2),
    "matmul": workloads.matmul(127, 61, 36),
    "pool": workloads.max_pool(1, 7, 7, 24),
}
LEAST = WORKLOADS | {
    "winograd": workloads.conv2d_relu(1, 28, 28, 64, 64),
    "softmax": workloads.softmax(100, 77),
    "sum": _sum_of_rows(1000, 77),
}
TIGHT = {"winograd": 0.2, "sum": 0.4}


class Bowl:
    """A sketch of two decisions, the digits of 0 to 99, and a draft: 100 s at 40, more by ones."""

    id = 0

    def __init__(self, lengths):
        self._lengths = lengths

    def sample(self, rng, n):
        return np.array([[0, 0], [3, 8], [4, 4], [9, 9]], np.int32)

    def neighbours(self, rows):
        near = around(rows, [((d,), np.arange(10, dtype=np.int32)[:, None]) for d in range(2)])
        return [own[(own != row).any(axis=1)] for own, row in zip(near, rows, strict=True)]

    def canonical(self, rows):
        return rows

    def seconds(self, sketch, rows):
        return 100.0 + np.abs(_number(rows) - 40)

    def least(self, sketch, closely=False):
        return 0.0

    def lengths(self, sketch, rows):
        return self._lengths(_number(rows))


def _number(rows):
    return 10 * rows[:, 0] + rows[:, 1]


@pytest.mark.parametrize(
    "lengths, row",
    [
        (lambda n: np.zeros(len(n)), 40),  # the fastest, where length tells nothing
        (lambda n: 1000.0 - n, 41),  # the shortest of those that are about as fast
        (lambda n: 1000.0 + n, 39),
        (lambda n: np.where(n == 40, 2.0, 1.0), 39),  # the fastest of the shortest, the first seen
    ],
)
def test_of_rows_about_as_fast_the_shortest_is_taken(lengths, row, monkeypatch):
    monkeypatch.setattr("tilework.model.drafted.ALIKE", 1.01)
    bowl = Bowl(lengths)
    found = best_drafted("key", "target", [bowl], bowl)
    assert found is not None
    assert found.choice.row == divmod(row, 10)
    assert found.choice.predicted_s == 100.0 + abs(row - 40) <= 101.0
    few = [int(_number(row[None])[0]) for _, row in found.few]
    assert few[:5] == [40, 39, 41, 38, 42] and sorted(set(few)) == sorted(few)


def test_the_draft_is_asked_once_about_the_choices_of_a_decision():
    bowl, seen = Bowl(np.zeros_like), []
    ((seconds, row),) = climbed(bowl, [(131.0, np.array([7, 1], np.int32))], bowl, seen, 2)
    assert (seconds, *row) == (100.0, 4, 0)
    asked = [tuple(row) for look in seen for row in look.rows.tolist()]
    assert len(set(asked)) == len(asked) == 3 * 9


@pytest.mark.parametrize(
    "least, other, drawn",
    [
        (90.0, 150.0, False),  # no row can be as fast as the best: of those that are drawn 102
        (90.0, 91.0, False),  # 102 is 1.13 times the bound, and so much above the other is 103
        (50.0, 84.0, True),  # twice the bound tells no more of others than 1.2 times
        (50.0, 86.0, False),
        (0.0, 1.0, True),  # nothing is known
    ],
)
def test_sketches_are_drawn_from_whose_bounds_promise_the_best_row(least, other, drawn):
    first, second = Bowl(np.zeros_like), Bowl(np.zeros_like)
    asked = []
    second.sample = lambda rng, n: asked.append(n) or np.empty((0, 2), np.int32)
    first.least = lambda sketch, closely=False: other if sketch is second else least
    found = best_drafted("key", "target", [second, first], first)
    assert found is not None and found.choice.row == (4, 0)
    assert bool(asked) == drawn


@pytest.mark.parametrize("least, drawn", [(101.0, True), (103.0, False)])
def test_no_sketch_is_drawn_from_whose_close_bound_is_above_the_best_row(least, drawn):
    first, second = Bowl(np.zeros_like), Bowl(np.zeros_like)
    asked = []
    second.sample = lambda rng, n: asked.append(n) or np.empty((0, 2), np.int32)
    first.least = lambda sketch, closely=False: least * (sketch is second) * closely
    assert best_drafted("key", "target", [first, second], first) is not None
    assert bool(asked) == drawn


@pytest.mark.parametrize("cpu", ["nehalem", "core-avx2", "x86-64-v4", "sapphirerapids"])
@pytest.mark.parametrize("name", LEAST)
def test_no_row_takes_less_than_the_least_of_its_sketch(name: str, cpu: str):
    task = SearchTask(te.ComputeDAG(LEAST[name]), Target(x86(cpu, 2)))
    draft = draft_of(task.target)
    for sketch in SearchSpace.of(task).sketches:
        rows = sketch.sample(np.random.default_rng(0), 256)
        least, best = draft.least(sketch, closely=True), draft.seconds(sketch, rows).min()
        assert 0 < draft.least(sketch) <= least <= best
        assert least > TIGHT.get(name, 0.0) * best
        serial = alone(rows, sketch.decisions)
        serial = serial[sketch.valid(serial)]
        if len(serial):
            least = draft.least(sketch, closely=True, alone=True)
            assert least <= draft.seconds(sketch, serial).min()


@pytest.mark.parametrize("cpu", ["core-avx2", "x86-64-v4"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_what_the_draft_calls_short_is_short(name: str, cpu: str):
    task = SearchTask(te.ComputeDAG(WORKLOADS[name]), Target(x86(cpu, 1)))
    sketch = SearchSpace.of(task).sketches[0]
    rows = sketch.sample(np.random.default_rng(0), 24)
    text = [len(generate(task, sketch.id, tuple(row)).text) for row in rows.tolist()]
    lengths = draft_of(task.target).lengths(sketch, rows)
    assert (lengths > 0).all()
    ranks = [np.argsort(np.argsort(n)) for n in (text, lengths)]
    assert np.corrcoef(*ranks)[0, 1] > 0.8


@pytest.mark.parametrize("length", [0, 3, 16, 17, 40, 1000])
def test_of_equal_rows_the_first_are_the_least(length):
    numbers = np.random.default_rng(length).integers(0, 9, length).astype(np.float64)
    assert _least(numbers, 16).tolist() == np.argsort(numbers, kind="stable")[:16].tolist()
