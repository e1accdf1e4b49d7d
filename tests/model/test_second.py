"""A second row for small extents: where it pays, and up to where it serves."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower import open_families
from tilework import ops, te
from tilework.compiler.kernels import Kernels, kernel_files
from tilework.deferred import Helpers
from tilework.index.symbols import symbol, symbols_of, value_at
from tilework.model.asked import BESIDE_S, Asked
from tilework.model.draft import draft_of
from tilework.model.drafted import draft_schedule, forget_choices
from tilework.model.family import FamilyDraft, family_of, looked_at
from tilework.model.second import Border, borders
from tilework.space import SearchSpace
from tilework.space.decision import alone
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -mcpu=znver4 -num-cores=1")
S = symbol("seq", 1, 512, (16, 384))


def scores() -> te.ComputeDAG:
    """Whose rows for 1 and for many are far apart: there are keys of another sequence."""
    seq, keys = symbol("seq", 1, 256, (1, 16)), 255
    q, k = te.placeholder((64, seq, 64), "q"), te.placeholder((64, keys, 64), "k")
    turned = te.compute((64, 64, keys), lambda h, d, j: k[h, j, d], "turned")
    d = te.reduce_axis(64, "d")
    out = te.compute((64, seq, keys), lambda h, i, j: te.sum(q[h, i, d] * turned[h, d, j], d), "s")
    return te.ComputeDAG([q, k, out])


@pytest.mark.parametrize(
    "before, behind, most",
    [
        (-0.1, 0.1, 40),  # the middle, by ratios
        (-0.1, 0.0, 99),  # as fast there: up to the next point
        (0.0, 0.3, 16),
        (0.1, 0.3, 16),  # it serves its own points in any case
        (-0.3, -0.1, 99),
        (-np.inf, 0.3, 97),
        (-0.3, np.inf, 16),
        (-np.inf, np.inf, 40),
    ],
)
def test_the_border_is_where_both_are_as_fast(before, behind, most):
    assert Border(1, 2, S, (16, 100)).most(before, behind) == most


def test_borders_are_of_what_grows_most():
    dag = scores()
    points = looked_at(dag.symbols)
    found = borders(dag.open_extents, points)
    assert [(b.first, str(b.grows), b.ends) for b in found] == [
        (1, "seq", (1, 16)), (2, "seq", (16, 256)),
    ]  # fmt: skip


def test_ends_are_looked_at_where_they_are_far():
    seq, batch = symbol("seq", 1, 512, (16, 384)), symbol("batch", 1, 8, (1, 4))
    (s,), (b,) = symbols_of([seq]), symbols_of([batch])
    assert looked_at([s, b]) == [{s: 16, b: 1}, {s: 384, b: 4}]
    (far,) = symbols_of([symbol("batch", 1, 9, (1, 4))])
    assert looked_at([s, far])[2:] == [{s: 512, far: 9}]
    assert looked_at([]) == []


def test_rows_that_are_good_at_the_ends_are_compared_at_all_points():
    family, rng = family_of(SearchTask(scores(), TARGET)), np.random.default_rng(0)
    asked = Asked(draft_of(TARGET))
    for sketch in family[:2]:
        asked.logs(sketch.at_ends, sketch.at_ends.sample(rng, 256))
    everywhere = asked.everywhere(family)
    kept = [sketch for sketch in family if sketch.id in everywhere.said]
    assert kept
    for sketch in kept:
        rows, logs = everywhere.heard(sketch)
        assert sketch.valid(rows).all() and len(rows) < len(asked.heard(sketch)[0])
        assert np.array_equal(logs, FamilyDraft.logs(asked, sketch, rows))


@pytest.mark.parametrize("other, kept", [(0.15, 1), (0.05, 2), (-0.15, 2)])
def test_sketches_are_looked_at_everywhere_that_are_near_or_where_two_rows_may_pay(other, kept):
    family, rng = family_of(SearchTask(scores(), TARGET))[:2], np.random.default_rng(0)
    asked = Asked(draft_of(TARGET))
    for sketch, first in zip(family, (0.0, other), strict=True):
        rows = sketch.sample(rng, 4)
        asked.said[sketch.id] = [(rows, np.full((2, len(rows)), [[first], [abs(first)]]))]
    assert len(asked.everywhere(family).said) == kept


def test_a_second_row_is_taken_where_it_pays():
    """By what the draft says of both rows at the points: less than of any row it has seen."""
    task = SearchTask(scores(), TARGET)
    choice, points = draft_schedule(task), looked_at(task.compute_dag.symbols)
    assert choice.small is not None
    family = {sketch.id: sketch for sketch in family_of(task)}
    seconds = draft_of(TARGET).seconds
    logs = []
    for number, row in choice.schedules:
        sketch, rows = family[number], np.array([row], np.int32)
        assert sketch.valid(rows).all() and (sketch.canonical(rows) == rows).all()
        logs.append([np.log(seconds(view, rows)[0] + BESIDE_S) for view in sketch.views])
    values = [value_at(choice.small.extent, at) for at in points]
    served = [logs[value <= choice.small.most][i] for i, value in enumerate(values)]
    assert np.exp(np.mean(served)) - BESIDE_S == pytest.approx(choice.predicted_s)
    assert min(np.mean(one) for one in logs) > np.mean(served)
    assert draft_schedule(SearchTask(open_families.elementwise(), TARGET)).small is None


def test_small_runs_take_one_thread_in_the_same_kernel():
    """Where starting others takes longer than the work, which is judged by the output's size."""
    x = te.placeholder((S, 1024), "x")
    dag = te.ComputeDAG([x, te.compute(x.shape, lambda i, j: x[i, j] * 2.0, "y")])
    task = SearchTask(dag, Target("llvm -mcpu=znver4 -num-cores=2"))
    choice = draft_schedule(task)
    assert choice.small is not None and choice.small.sketch_id == choice.sketch_id
    assert str(choice.small.extent) == "1024*seq"
    assert 16 * 1024 <= choice.small.most < 384 * 1024
    decisions = SearchSpace.of(task).sketch(choice.sketch_id).decisions
    row = np.array([choice.row])
    assert tuple(alone(row, decisions)[0]) == choice.small.row != choice.row
    with Helpers() as helpers:
        kernel, one = (
            Kernels(task.target).kernel(task, c, None, helpers)
            for c in (choice, choice._replace(small=None))
        )
    assert {name for name, _ in one.pieces} < {name for name, _ in kernel.pieces}
    assert len(kernel.pieces) == len(one.pieces) + 1


def test_rows_of_light_families_are_looked_at_beside_what_one_thread_does():
    target = Target("llvm -mcpu=znver4 -num-cores=2")
    family = family_of(SearchTask(open_families.elementwise(), target))
    rng, asked = np.random.default_rng(0), Asked(draft_of(target))
    (sketch,) = family
    asked.logs(sketch.at_end, sketch.at_end.sample(rng, 16))
    rows, logs = asked.everywhere(family).heard(sketch)
    every, told = alone(rows, sketch.whole.decisions), np.isfinite(logs)
    assert told[:-1].all() and len(logs) == len(sketch.views)
    assert (rows[~told[-1]] == every[~told[-1]]).all()
    assert {r.tobytes() for r in every} <= {r.tobytes() for r in rows}


def test_softmax_of_a_token_has_no_vectors_of_tokens():
    """Up to sixteen tokens fill one: the last sums, across lanes, go on token by token."""
    seq, past = symbol("seq", 1, 16, (1,)), symbol("past", 0, 356, (178,))
    x = te.placeholder((9, seq, past + seq), "x")
    task = SearchTask(te.ComputeDAG([x, ops.softmax(x)]), TARGET)
    choice, family = draft_schedule(task), family_of(task)
    seconds, rng = draft_of(TARGET).seconds, np.random.default_rng(0)
    (here,) = seconds(family[choice.sketch_id].views[0], np.array([choice.row], np.int32))
    assert here < 1.5 * min(seconds(s.views[0], s.sample(rng, 64)).min() for s in family)


def test_threads_share_what_a_decoder_keeps():
    """A past comes from memory, whoever wrote it: for one thread it would take twice as long."""
    seq, past = symbol("seq", 1, 16, (1,)), symbol("past", 0, 140, (70,))
    p, v = te.placeholder((9, seq, past + seq), "p"), te.placeholder((9, past + seq, 64), "v")
    j = te.reduce_axis(past + seq, "j")
    out = te.compute((9, seq, 64), lambda h, i, d: te.sum(p[h, i, j] * v[h, j, d], j), "mixed")
    task = SearchTask(te.ComputeDAG([p, v, out]), Target("llvm -mcpu=znver4 -num-cores=2"))
    choice = draft_schedule(task)
    assert choice.small is None
    decisions = SearchSpace.of(task).sketch(choice.sketch_id).decisions
    row = np.array([choice.row])
    assert (alone(row, decisions) != row).any()


def test_a_choice_and_its_kernel_are_kept(tmp_path):
    task = SearchTask(scores(), TARGET)
    files = kernel_files(tmp_path)
    made = []
    for _ in range(2):
        forget_choices()
        kernels = Kernels(TARGET, files)
        choice = kernels.choice("draft", task, [], lambda: draft_schedule(task))
        with Helpers() as helpers:
            kernel = kernels.kernel(task, choice, None, helpers)
            alone = kernels.kernel(task, choice._replace(small=None), None, helpers)
        kernels.keep()
        made.append((choice, kernel.symbol, kernel.args, dict(kernel.objects)))
        assert alone.symbol != kernel.symbol and alone.symbol in dict(kernel.objects)
    assert made[0] == made[1] and made[0][0].small is not None
