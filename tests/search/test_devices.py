"""Records of another device with the same target: tried, and believed in nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.fakes import FakeClock, FakeMeasurer, FakeTask, space_of
from tests.search.test_session import TASKS, _drive, _options, _session
from tests.storage.conftest import START
from tilework.measure.candidates import Candidate, Measured
from tilework.measure.records import to_records
from tilework.model import XGBModel
from tilework.record import MemoryHistory, Purpose, Record, Status
from tilework.search import TuningError, TuningOptions, finals, tune
from tilework.search.budget import Budget, Goal
from tilework.search.known import read_known
from tilework.search.past import PastRound, in_turn
from tilework.search.policy import SketchPolicy
from tilework.search.scope import Scope
from tilework.target.identity import DeviceIdentity, identity_of

HERE = DeviceIdentity("A CPU", (("cores", "2"),), 1e-3)
OTHER = replace(HERE, calibration_s=1e-3 / 1.67)
WIDE = 0.6
FOREIGN = {"faster": 1 / 1.67, "slower": 1.67}


class Watched(FakeMeasurer):
    """Remembers what it was told to be the latency to beat."""

    def __init__(self):
        super().__init__()
        self.to_beat = []

    def measure(self, task, candidates, best_latency_s):
        self.to_beat.append((task.workload_key, best_latency_s))
        return super().measure(task, candidates, best_latency_s)


def _run(history, measurer, run_id="run", device=HERE, **more):
    return tune(
        TASKS[:2], None, _options(num_measure_trials=64), history, measurer, run_id=run_id,
        space_of=space_of, clock=FakeClock(), device=device, **more,
    )  # fmt: skip


def _elsewhere(factor: float, calibration_factor: float) -> list[Record]:
    """A whole run of a device with equal facts that is so much slower, finals included."""
    device = replace(HERE, calibration_s=1e-3 * calibration_factor)
    history = MemoryHistory()
    _run(history, FakeMeasurer(), "elsewhere", device)
    return [
        replace(
            r,
            latency_s=r.latency_s * factor,
            latency_samples=tuple(s * factor for s in r.latency_samples),
        )
        for r in history.read()
    ]


def _kept(result):
    return [(r.sketch_id, r.decisions, r.latency_s, r.purpose) for r in result.best]


def _measured(history, device=HERE):
    return [
        (r.workload_key, r.round, r.sketch_id, r.decisions, r.latency_s, r.predicted_score)
        for r in history.read()
        if device.owns(r) and r.run_id == "run"
    ]


@pytest.fixture
def wide(monkeypatch):
    """The fakes' latencies lie far apart: more of them are finalists."""
    monkeypatch.setattr(finals, "WITHIN", WIDE)


@pytest.fixture(scope="module")
def without():
    """What a run comes to beside which nobody has records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finals, "WITHIN", WIDE)
        return _run(MemoryHistory(), FakeMeasurer())


@pytest.mark.parametrize("speed", FOREIGN)
def test_records_of_another_device_leave_no_mark(wide, without, speed):
    factor, second = FOREIGN[speed], Watched()
    beside = MemoryHistory(_elsewhere(factor, factor))
    found = _run(beside, second)
    assert found.finals == without.finals == 2  # held, and won by records of this device
    for task, best in zip(TASKS, found.best, strict=False):
        assert HERE.owns(best) and best.run_id == "run"
        true = task.space.sketches[best.sketch_id].latency([best.decisions])[0]
        assert best.latency_s == pytest.approx(true)  # nothing impossible here is believed
    assert found.estimated_total_s <= 1.02 * without.estimated_total_s
    assert found.trials == without.trials == 64
    ours = {r.latency_s for r in beside.read() if HERE.owns(r)}
    assert {told for _, told in second.to_beat if told is not None} <= ours


def test_how_fast_they_were_there_makes_no_difference(wide):
    """The same programs, three times as fast: a run beside them is the same in every bit."""
    courses = []
    for factor in FOREIGN.values():
        history = MemoryHistory(_elsewhere(factor, 5.0))
        result = _run(history, FakeMeasurer())
        courses.append((_kept(result), _measured(history)))
    assert courses[0] == courses[1]


def test_a_hint_that_was_to_be_tried_anyway_changes_nothing():
    alone, beside = MemoryHistory(), MemoryHistory()
    for task in TASKS[:2]:
        drafted = SketchPolicy(Scope(task, own_space=space_of(task))).drafts.untuned
        program = Candidate(drafted.sketch_id, drafted.row, 0.0, "")
        for number, factor in enumerate(FOREIGN.values()):
            one = Measured(program, Status.ok, latency_s=1e-6 * factor)
            device = replace(OTHER, facts=(("cores", str(4 + number)),))
            beside.append(to_records(task, [one], run_id=f"r{number}", round=0, device=device))
    assert _kept(_run(alone, FakeMeasurer())) == _kept(_run(beside, FakeMeasurer()))
    assert _measured(alone) == _measured(beside)


def test_what_was_best_elsewhere_is_tried_here():
    rows = _elsewhere(1.0, 5.0)
    history, measurer = MemoryHistory(rows), FakeMeasurer()
    hints = [history.hints(t.workload_key, str(t.target), HERE) for t in TASKS[:2]]
    _run(history, measurer)
    firsts = {}
    for key, batch in measurer.rounds:
        firsts.setdefault(key, {(c.sketch_id, c.row) for c in batch})
    for task, (hint,) in zip(TASKS, hints, strict=False):
        assert (hint.sketch_id, hint.decisions) in firsts[task.workload_key]
    batches = [{(c.sketch_id, c.row) for c in b} for k, b in measurer.rounds if k == "heavy"]
    program = (hints[0][0].sketch_id, hints[0][0].decisions)
    assert sum(program in batch for batch in batches) == 1  # and not again


@pytest.mark.parametrize(
    "change",
    [{"rules_version": 10**6}, {"sketch_id": 77}, {"decisions": (1, 2)}, {"decisions": (6,) * 8},
     {"purpose": Purpose.canary}],
)  # fmt: skip
def test_hints_that_are_no_programs_here_are_left_out(change):
    task = TASKS[0]
    policy = SketchPolicy(Scope(task, own_space=space_of(task), device=HERE))
    one = Measured(Candidate(0, (1,) * 8, 0.5, "draft"), Status.ok, latency_s=1e-9)
    (hint,) = to_records(task, [one], run_id="r", round=0, device=OTHER)
    assert len(policy.elsewhere.hints(MemoryHistory([hint]))) == 1
    odd = MemoryHistory([replace(hint, **change)])
    assert len(policy.elsewhere.hints(odd)) == 0
    assert policy.propose(odd, 8) == policy.propose(MemoryHistory(), 8)


def test_many_hints_leave_room_for_the_search():
    task = TASKS[0]
    policy = SketchPolicy(Scope(task, own_space=space_of(task), device=HERE))
    history = MemoryHistory()
    programs = []
    for number in range(12):
        row = (number % 5, *(1,) * 7)
        device = DeviceIdentity("B CPU", (("cores", str(number)),))
        one = Measured(Candidate(0, row, 0.5, "draft"), Status.ok, latency_s=1.0)
        history.append(
            to_records(
                task, [one], run_id="r", round=number, device=device,
                created_at=START + timedelta(seconds=number),
            )
        )  # fmt: skip
        programs.append((0, row))
    for count, most in ((1, 0), (2, 1), (3, 1), (8, 2), (16, 3), (64, 3)):
        batch = policy.propose(history, count)
        assert len(batch) == count
        alone = {(c.sketch_id, c.row) for c in policy.propose(MemoryHistory(), count)}
        added = {(c.sketch_id, c.row) for c in batch} - alone
        assert len(added & set(programs)) <= most
    assert policy.propose(history, 8) == policy.propose(history, 8)


# --- equal machines on one run -------------------------------------------------------------------


def test_two_equal_machines_may_work_on_one_run():
    history = MemoryHistory()
    ours, theirs = _session(history, device=HERE), _session(history, device=HERE)
    first, second = FakeMeasurer(), FakeMeasurer()
    for _ in range(4):
        assert _drive(ours, first, 1) and _drive(theirs, second, 1)
    measured = sum(len(batch) for m in (first, second) for _, batch in m.rounds)
    records = history.read()
    assert len(records) == len({r.record_id for r in records}) == measured
    again = _session(history, device=HERE)
    assert again.budget.trials == measured == sum(row.trials for row in again.summary())
    assert again.rounds == ours.rounds == theirs.rounds == 4
    assert again.model.num_observations == len({(r.workload_key, r.sketch_id, r.decisions)
                                                for r in records})  # fmt: skip


def test_what_another_machine_adds_meanwhile_is_learnt_once():
    history = MemoryHistory()
    ours, theirs = _session(history, device=HERE), _session(history, device=HERE)
    for session in (ours, theirs, ours, theirs, theirs, ours):
        _drive(session, FakeMeasurer(), 1)
    _drive(ours, FakeMeasurer())
    seen = {(r.workload_key, r.sketch_id, r.decisions) for r in history.read()}
    assert ours.model.num_observations == len(seen)


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.lists(st.integers(0, 50), min_size=1, max_size=6)),
        min_size=1,
        max_size=4,
    )
)
def test_time_of_machines_that_work_at_once_adds_up(starts):
    """Against a direct account: gaps within each row of writers that followed one another."""
    rounds, total = [], 0
    for writer, (begin, gaps) in enumerate(starts):
        at = START + timedelta(seconds=begin)
        for number, gap in enumerate([0, *gaps]):
            at += timedelta(seconds=gap)
            record = _fake_record(f"w{writer}", number, at)
            rounds.append(PastRound(0, "run", number, f"w{writer}", (record,)))
        total += sum(gaps)
    rows = in_turn(rounds)
    assert sorted(t for row in rows for t in row) == sorted(r.ended_at for r in rounds)
    assert all(row == sorted(row) for row in rows)
    budget = Budget(TuningOptions(seconds=1e6), 1, FakeClock())
    for row in rows:
        budget.restore_time(row)
    between = sum(
        gap
        for row in rows
        for gap in ((b - a).total_seconds() for a, b in pairwise(row))
        if gap <= 60
    )
    assert budget.elapsed_s == between >= total


def _fake_record(writer, number, at):
    one = Measured(Candidate(0, (1,) * 8, 0.5, "draft"), Status.ok, latency_s=1.0)
    (record,) = to_records(
        TASKS[0], [one], run_id="run", round=number, writer=writer, created_at=at, device=HERE
    )
    return record


# --- what counts as what -------------------------------------------------------------------------


def test_by_default_it_is_this_machine_that_counts():
    history = MemoryHistory()
    _run(history, FakeMeasurer(), device=None)
    here = identity_of(TASKS[0].target)
    assert all(here.owns(r) and r.device_id == here.id for r in history.read())


def test_canaries_are_no_trials_and_teach_nothing():
    task, history = TASKS[0], MemoryHistory()
    one = Measured(Candidate(0, (1,) * 8, 0.5, "draft"), Status.ok, latency_s=1e-9)
    rows = to_records(task, [one], run_id="run", round=0, purpose=Purpose.canary, device=HERE)
    history.append(rows)
    session = _session(history, device=HERE)
    assert session.budget.trials == session.rounds == 0
    assert session.summary()[0].trials == 0 and session.summary()[0].latency_ms is None
    assert len(read_known(space_of(task), rows)) == 0
    assert session.result().best[0] is None and not session.model.trained


def test_every_record_names_the_network_that_its_task_is_of():
    history = MemoryHistory()
    names = [f"net{i}" for i in range(3)]
    _drive(_session(history, network=names, device=HERE), FakeMeasurer())
    assert {(r.workload_key, r.network) for r in history.read()} == set(
        zip([t.workload_key for t in TASKS], names, strict=True)
    )
    with pytest.raises(TuningError, match="2 networks"):
        _session(history, network=names[:2])


def test_observations_that_could_not_be_learnt_are_learnt_the_next_time():
    class Failing(XGBModel):
        fails = False

        def update(self, observations):
            if self.fails:
                raise OSError("no memory")
            super().update(observations)

    model, history = Failing(), MemoryHistory()
    other = FakeTask("other")
    session = _session(history, model=model, device=HERE, tasks=[TASKS[0], other])
    measurer = FakeMeasurer()
    _drive(session, measurer, 1)
    index = session.next_task()
    candidates = session.propose(index)
    session.commit(index, session.measure(index, candidates, measurer))
    model.fails = True
    with pytest.raises(OSError, match="no memory"):
        session.refit()
    model.fails = False
    session.refit()
    assert model.num_observations == len(history.read())


def test_goals_are_absolute_and_may_be_raised():
    options = _options(num_measure_trials=24, seconds=30.0)
    history = MemoryHistory()
    _drive(_session(history, options, device=HERE), FakeMeasurer())
    session = _session(history, options, device=HERE)
    assert session.next_task() is None
    session = _session(history, options, device=HERE)
    session.budget.goal = Goal.of(options).beyond(session.budget.trials, session.budget.elapsed_s)
    assert session.budget.goal.trials == 48 and session.budget.goal.seconds >= 30
    _drive(session, FakeMeasurer())
    assert session.budget.trials == 48
    assert Goal.of(_options(seconds=None)).beyond(5, 1.0) == Goal(101, None)


def test_what_guides_hold_is_tried_and_is_no_measurement():
    task = TASKS[0]
    one = Measured(Candidate(0, (1,) * 8, 0.5, "draft"), Status.ok, latency_s=1e-9)
    for device in (HERE, OTHER):
        guides = MemoryHistory(to_records(task, [one], run_id="r", round=0, device=device))
        policy = SketchPolicy(Scope(task, own_space=space_of(task), device=HERE, guides=guides))
        alone = SketchPolicy(Scope(task, own_space=space_of(task), device=HERE))
        program = (0, (1,) * 8)
        assert program in {(c.sketch_id, c.row) for c in policy.propose(MemoryHistory(), 8)}
        assert program not in {(c.sketch_id, c.row) for c in alone.propose(MemoryHistory(), 8)}
        assert len(policy.known(MemoryHistory())) == 0
