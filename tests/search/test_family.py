"""Families: searched at their typical points, and compiled with what is recorded there."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.lower import open_families
from tests.te.test_points import softmax_of_scores
from tilework import ops, te
from tilework.compiler.choose import choose_schedule
from tilework.compiler.families import DOUBT
from tilework.index.symbols import symbol
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.model import DraftModel
from tilework.model.draft import draft_of
from tilework.model.drafted import drafted, forget_choices
from tilework.model.family import family_of, members_of
from tilework.model.second import PAYS_MEASURED
from tilework.record import MemoryHistory, Purpose, Status
from tilework.search import PolicyParams, TuningOptions, TuningRun, TuningSession
from tilework.search.family import FamilySpace
from tilework.search.tune import finals, run_round
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask

TARGET = Target("llvm -mcpu=znver4 -num-cores=1")
SEQ = symbol("seq", 1, 67, (7, 33))
OPTIONS = TuningOptions(
    num_measure_trials=72,
    num_measures_per_round=6,
    policy=PolicyParams(population=64, generations=1, neighbours=8),
)


class DraftMeasurer:
    """Says of static programs what the draft says, off by a factor that is the program's own."""

    def __init__(self, fails=()):
        self.seen: list[tuple[str, int]] = []
        self.fails = set(fails)

    def measure(self, task, candidates, best_latency_s):
        assert not task.compute_dag.symbols
        self.seen.append((task.workload_key, len(candidates)))
        return [self._one(task, candidate) for candidate in candidates]

    def finals(self, task, candidates):
        return [self._one(task, candidate) for candidate in candidates]

    def _one(self, task, candidate):
        sketch = SearchSpace.of(task).sketch(candidate.sketch_id)
        row = np.array([candidate.row], np.int32)
        assert sketch.valid(row).all()
        if task.workload_key in self.fails:
            return Measured(candidate, Status.wrong_answer, "verify: off by 1")
        seconds = float(draft_of(task.target).seconds(sketch, row)[0])
        factor = 1 + 0.3 * math.sin(sum((i + 1) * n for i, n in enumerate(candidate.row)))
        return Measured(candidate, Status.ok, latency_s=seconds * factor)


def dense(rows=SEQ):
    """A dense layer of some rows."""
    x, w = te.placeholder((rows, 12), "x"), te.placeholder((12, 40), "w")
    return te.ComputeDAG([x, w, open_families.matmul(x, w, "y")])


def sums():
    return softmax_of_scores(symbol("batch", 1, 4, (2,)), SEQ)


def tasks_of(*makes, target=TARGET):
    return [
        SearchTask(make(), target, make.__name__, weight=i + 1) for i, make in enumerate(makes)
    ]


def session_of(tasks, history, run_id="run", options=OPTIONS, model=None):
    return TuningSession(TuningRun(tasks, options, run_id), history, model)


def drive(session, measurer, rounds=10**6):
    while rounds and (index := session.next_task()) is not None:
        run_round(session, index, measurer)
        rounds -= 1
    if rounds:
        list(finals(session, measurer))


def programs(history):
    return sorted(
        (r.workload_key, r.round, r.sketch_id, r.decisions, r.purpose) for r in history.read()
    )


@pytest.fixture(scope="module")
def searched():
    """Two families after a search: tasks, history, session."""
    tasks = tasks_of(open_families.dense, open_families.softmax)
    history = MemoryHistory()
    session = session_of(tasks, history)
    drive(session, DraftMeasurer())
    return tasks, history, session


def test_every_record_is_of_a_static_workload(searched):
    tasks, history, session = searched
    keys = {m.task.workload_key for task in tasks for m in members_of(task, family_of(task))}
    records = history.read()
    assert {r.workload_key for r in records} == keys
    assert len({r.record_id for r in records}) == len(records)
    trials = [r for r in records if r.purpose == Purpose.search]
    assert session.budget.trials == len(trials) <= 72
    assert sum(row.trials for row in session.summary()) == len(trials)
    for task in (m for t in tasks for m in members_of(t, family_of(t))):
        assert history.workload(task.task.workload_key) is not None


def test_a_family_is_as_fast_as_its_points_on_average(searched):
    tasks, history, session = searched
    for index, task in enumerate(tasks):
        found = session.records(index)
        assert found and {r.workload_key for r in found} == {task.workload_key}
        space = FamilySpace(task)
        for record in found:
            sketch = next(s for s in space.measured if s.id == record.sketch_id)
            row = np.array([record.decisions], np.int32)
            assert sketch.valid(row).all()
            logs = []
            for member, twin in zip(space.members, sketch.twins, strict=True):
                static = tuple(int(n) for n in twin.placed(row)[0][0])
                same = [
                    r.latency_s
                    for r in history.of(member.task.workload_key, str(TARGET))
                    if (r.sketch_id, r.decisions) == (twin.static.id, static)
                ]
                logs.append(math.log(same[0]))
            assert record.latency_s == pytest.approx(math.exp(sum(logs) / len(logs)))
        best = session.result().best[index]
        assert best.latency_s == pytest.approx(1e-3 * session.summary()[index].latency_ms)
    total = sum(r.weight * r.latency_ms for r in session.summary())
    assert session.result().estimated_total_s == pytest.approx(total / 1e3)


def test_an_interrupted_search_goes_on_where_it_was():
    tasks = tasks_of(dense, sums)
    whole, parts = MemoryHistory(), MemoryHistory()
    # by the draft: features of short axes, which a learned model reads, go by whole batches
    drive(session_of(tasks, whole, model=DraftModel()), DraftMeasurer())
    for rounds in (1, 2, 10**6):
        drive(session_of(tasks, parts, model=DraftModel()), DraftMeasurer(), rounds)
    assert programs(parts) == programs(whole)
    assert session_of(tasks, whole).next_task() is None


def test_a_round_that_was_kept_in_part_is_no_candidate():
    tasks = tasks_of(open_families.dense)
    whole = MemoryHistory()
    drive(session_of(tasks, whole), DraftMeasurer(), 1)
    first = whole.read()[0].workload_key
    torn = MemoryHistory(r for r in whole.read() if r.workload_key == first)
    session = session_of(tasks, torn)
    assert session.records(0) == [] and session.rounds == 1
    drive(session, DraftMeasurer())
    assert session.result().complete


def test_what_fails_at_one_point_has_failed():
    tasks = tasks_of(open_families.dense)
    broken = members_of(tasks[0], family_of(tasks[0]))[1].task.workload_key
    history = MemoryHistory()
    session = session_of(tasks, history, options=replace(OPTIONS, num_measure_trials=18))
    drive(session, DraftMeasurer(), 1)
    with pytest.raises(Exception, match="verify: off by 1"):
        drive(session_of(tasks, MemoryHistory()), DraftMeasurer([broken]))
    assert session.records(0)


def test_a_search_tries_what_is_best_at_a_point():
    (task,) = tasks_of(open_families.dense)
    space = FamilySpace(task)
    member, history = space.members[-1], MemoryHistory()
    static = session_of([member.task], history, "static")
    drive(static, DraftMeasurer(), 2)
    hints = space.at_points([history], None)
    known = [r for r in history.read() if r.usable]
    best = min(known, key=lambda r: r.latency_s)
    sketch = space.measured[hints.sketch[0]]
    placed = sketch.twins[-1].placed(hints.rows[:1, : sketch.num_decisions])[0][0]
    assert tuple(placed) == best.decisions
    measured = DraftMeasurer()
    session = session_of([task], history, "family")
    drive(session, measured, 1)
    rows = {tuple(r.decisions) for r in session.records(0)}
    assert tuple(hints.rows[0, : sketch.num_decisions]) in rows


# --- compiling -----------------------------------------------------------------------------------


def recorded(task, row, seconds, number, run, sketch_id):
    """A record of a static program."""
    one = Measured(Candidate(sketch_id, tuple(row), 1.0, "draft"), Status.ok, latency_s=seconds)
    return to_records(task, [one], run_id=run, round=number)


def test_without_records_the_draft_chooses():
    (task,) = tasks_of(open_families.dense)
    assert choose_schedule(task, MemoryHistory()) == drafted(task)


def test_the_best_of_a_search_is_compiled(searched):
    tasks, history, session = searched
    for task, best in zip(tasks, session.result().best, strict=True):
        choice = choose_schedule(task, history)
        assert choice.source in ("tuned", "elsewhere")
        sketch = next(s for s in family_of(task) if s.id == choice.sketch_id)
        assert sketch.valid(np.array([choice.row], np.int32)).all()
        found = {(r.sketch_id, r.decisions): r.latency_s for r in session.records(0)}
        if task is tasks[0] and (choice.sketch_id, choice.row) in found:
            assert found[choice.sketch_id, choice.row] <= best.latency_s * 1.1


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_compared_by_what_is_known_of_each_point(seed):
    """The rule, by hand: measured seconds, or the draft's times what records are of it."""
    (task,) = tasks_of(open_families.scores_of_turned_keys)
    dag = task.compute_dag
    draft, family = drafted(task), {s.id: s for s in family_of(task)}
    members = members_of(task, list(family.values()))
    rng, history = np.random.default_rng(seed), MemoryHistory()
    seconds, usual, programs = {}, [1.0] * len(members), set(draft.schedules)
    for member in members[seed % 2 :]:
        ratios = []
        for number, twin in member.twins.items():
            rows, fits = twin.placed(family[number].sample(rng, 8))
            for row in np.unique(rows[fits], axis=0):
                drafts = draft_of(TARGET).seconds(twin.static, row.reshape(1, -1))
                ratios.append(3.0 * rng.uniform(0.5, 2))
                seconds[member.number, twin.static.id, tuple(row)] = ratios[-1] * drafts[0]
                made = recorded(
                    member.task, row, ratios[-1] * drafts[0], len(seconds), "r", twin.static.id
                )
                history.append(made)
                lifted, good = twin.lifted(row.reshape(1, -1))
                if good[0] and family[number].valid(lifted)[0]:
                    plain = family[number].canonical(lifted)[0]
                    programs.add((number, tuple(int(n) for n in plain)))
        usual[member.number] = float(np.quantile(ratios, DOUBT))

    def logs(program):
        number, row = program
        out = []
        for member in members:
            twin = member.twins[number]
            placed, fits = twin.placed(np.array([row], np.int32))
            sketch, rows = twin.static, placed
            if not fits[0]:
                sketch, rows = family[number].views[member.number], np.array([row], np.int32)
            at = (member.number, twin.static.id, tuple(placed[0]))
            found = seconds.get(at) if fits[0] else None
            if found is None:
                found = usual[member.number] * draft_of(TARGET).seconds(sketch, rows)[0]
            out.append(math.log(found))
        return np.array(out)

    choice, table = choose_schedule(task, history), [logs(p) for p in sorted(programs)]
    alone = min(one.mean() for one in table)
    pairs = {
        first: min(one[:first].sum() for one in table) + min(one[first:].sum() for one in table)
        for first in range(1, len(members))
    }
    first, together = min(pairs.items(), key=lambda pair: pair[1])
    if together / len(members) < alone - math.log(PAYS_MEASURED):
        (seq,) = [s for s in dag.symbols if s.name == "seq"]
        small, large = logs(choice.small[:2]), logs((choice.sketch_id, choice.row))
        assert small[:first].sum() + large[first:].sum() == pytest.approx(together)
        ends = [members[i].at[seq] for i in (first - 1, first)]
        assert str(choice.small.extent) == "seq" and ends[0] <= choice.small.most < ends[1]
    else:
        assert choice.small is None
        assert logs((choice.sketch_id, choice.row)).mean() == pytest.approx(alone)


def test_a_program_that_was_wrong_at_a_point_is_not_taken():
    (task,) = tasks_of(open_families.dense)
    history = MemoryHistory()
    session = session_of([task], history)
    drive(session, DraftMeasurer())
    choice = choose_schedule(task, history)
    space = FamilySpace(task)
    sketch = next(s for s in space.measured if s.id == choice.sketch_id)
    member, twin = space.members[0], sketch.twins[0]
    row = twin.placed(np.array([choice.row], np.int32))[0][0]
    wrong = Measured(
        Candidate(twin.static.id, tuple(int(n) for n in row), 1.0, "draft"),
        Status.wrong_answer,
        "verify: off by 1",
    )
    kept = [
        r
        for r in history.read()
        if (r.workload_key, r.decisions) != (member.task.workload_key, wrong.candidate.row)
    ]
    other = MemoryHistory(kept)
    other.append(to_records(member.task, [wrong], run_id="wrong", round=0))
    assert choose_schedule(task, other).row != choice.row


def test_points_that_are_not_searched():
    """At one position some computations have other sketches: that point takes no part."""
    dag = softmax_of_scores(1, symbol("seq", 1, 64, (1, 32)))
    space = FamilySpace(SearchTask(dag, TARGET))
    assert space.members and space.measured
    assert all(len(s.twins) == len(space.members) for s in space.measured)
    alone = symbol("seq", 1, 64)
    assert [
        m.at for m in FamilySpace(SearchTask(softmax_of_scores(1, alone), TARGET)).members
    ] == [{alone.symbols[0]: 64}]


def test_a_choice_is_not_that_of_other_typical_points():
    """One row is looked at first, then many: the choice is remembered, and not for the other."""
    one, many = (SearchTask(dense(symbol("rows", 1, 512, (n,))), TARGET) for n in (1, 512))
    assert one.workload_key == many.workload_key
    of_one, of_many = drafted(one), drafted(many)
    forget_choices()
    assert of_many == drafted(many)
    assert of_one != of_many


def lengths_of(space):
    return [n for member in space.members for n in member.at.values()]


def softmax_of_a_length(*typicals):
    seq = symbol("seq", 1, 512, typicals)
    x = te.placeholder((4, seq, seq), "x")
    return FamilySpace(SearchTask(te.ComputeDAG([x, ops.softmax(x)]), TARGET))


def test_a_length_that_no_cut_divides_leaves_itself_out():
    """A sum is cut into vectors at lengths that are multiples of them."""
    whole, plain = softmax_of_a_length(64, 128, 384), softmax_of_a_length(7, 65, 100)
    assert lengths_of(whole) == [64, 128, 384] and lengths_of(plain) == [7, 65, 100]
    steps = [" ".join(sketch.views[0].steps) for sketch in whole.measured]
    assert any("rfactor" in one for one in steps)
    assert not any("rfactor" in step for s in plain.measured for step in s.views[0].steps)
    mixed = softmax_of_a_length(16, 64, 100, 384)
    assert lengths_of(mixed) == [64, 384] and len(mixed.measured) == len(whole.measured)


def test_four_points_are_measured_of_many():
    space = softmax_of_a_length(*range(64, 513, 64))
    assert lengths_of(space) == [64, 192, 320, 512]
