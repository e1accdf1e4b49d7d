"""Finals: who takes part, what their verdict does to the history and to the run."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.search.fakes import FakeClock, FakeMeasurer, FakeTask, space_of
from tests.search.test_session import TASKS, _options, _session
from tests.storage.conftest import START
from tilework.kinds.cpu.rules import RULES_VERSION
from tilework.record import MemoryHistory, Purpose, Record, Status, best_of
from tilework.search import finals, tune
from tilework.search.finals import finalists
from tilework.search.known import read_known
from tilework.search.policy import SketchPolicy
from tilework.search.scope import Scope


def record(number, latency, at, purpose=Purpose.search, run="run", **more):
    fields = {
        "schema_version": 2, "record_id": f"{run}-{at}-{number}", "run_id": run, "round": at,
        "created_at": START + timedelta(seconds=at), "workload_key": "w", "workload": "w",
        "network": "", "flops": 1.0, "target": "t", "device": "", "host": "here", "num_cores": 2,
        "engine_version": "0", "sketch_id": 0, "rules_version": RULES_VERSION,
        "decisions": (number,), "code_hash": f"code{number}", "status": Status.ok,
        "latency_s": latency, "purpose": purpose,
    }  # fmt: skip
    return Record(**{**fields, **more})


SEARCH = [record(i, 1.0 + 0.01 * i, at=0) for i in range(10)]
FINAL = [record(i, (1.04, 1.03, 1.02)[i], at=1, purpose=Purpose.final) for i in range(3)]


def test_the_winner_of_the_last_finals_counts_not_a_lucky_minimum():
    assert best_of(SEARCH).decisions == (0,)
    assert best_of(SEARCH + FINAL) is FINAL[2]
    assert best_of(FINAL + SEARCH) is FINAL[2]


def test_later_records_and_other_machines_still_compete():
    later = record(20, 1.015, at=2)
    assert best_of([*SEARCH, *FINAL, later]) is later
    assert best_of([*SEARCH, *FINAL, record(20, 1.03, at=2)]) is FINAL[2]
    elsewhere = record(21, 0.9, at=0, host="there")
    assert best_of([*SEARCH, *FINAL, elsewhere]) is elsewhere
    again = [record(i, 1.5 - 0.1 * i, at=3, purpose=Purpose.final) for i in (0, 1)]
    assert best_of([*SEARCH, *FINAL, *again]) is again[1]


def test_who_takes_part():
    assert [r.decisions for r in finalists(SEARCH, 4)] == [(0,), (1,), (2,), (3,)]
    assert len(finalists(SEARCH, 99)) == 7  # within 6 % of the fastest
    assert finalists(SEARCH, 1) == finalists([], 4) == finalists(SEARCH[:1], 4) == []
    twin = record(1, 1.0, at=0, code_hash="code0")
    assert twin not in finalists([*SEARCH, twin], 4)
    failed = record(5, None, at=0, status=Status.crashed)
    assert failed not in finalists([failed, *SEARCH], 4)


def test_decided_finals_are_not_repeated_until_a_newcomer_is_close():
    assert finalists(SEARCH + FINAL, 4) == []
    assert finalists([*SEARCH, *FINAL, record(20, 1.06, at=2)], 4) == []
    close = record(20, 1.03, at=2)
    again = finalists([*SEARCH, *FINAL, close], 3)
    assert [r.decisions for r in again] == [(2,), (1,), (20,)]


def test_finals_replace_latencies_in_what_the_search_knows():
    task = FakeTask("w")
    policy = SketchPolicy(Scope(task, own_space=space_of(task)))
    row = tuple(int(v) for v in policy.drafts.pool.rows[0])
    sketch = int(policy.drafts.pool.sketch[0])
    row = row[: task.space.sketches[sketch].num_decisions]
    rows = [
        record(0, 1.0, at=0, sketch_id=sketch, decisions=row),
        record(0, 1.5, at=1, sketch_id=sketch, decisions=row, purpose=Purpose.final),
    ]
    known = read_known(policy.space, rows)
    assert len(known) == 1
    assert known.best_s == 1.5


@pytest.fixture
def wide(monkeypatch):
    """The fakes' latencies lie far apart: more of them are finalists."""
    monkeypatch.setattr(finals, "WITHIN", 0.6)


def test_a_run_ends_with_finals_that_find_the_true_best(wide):
    history, measurer = MemoryHistory(), FakeMeasurer(noise=0.03)
    events = []
    result = tune(
        TASKS[:2], None, _options(), history, measurer, space_of=space_of, run_id="run",
        clock=FakeClock(), callbacks=[lambda session, finished: events.append(finished)],
    )  # fmt: skip
    assert [key for key, _ in measurer.finals_of] == ["heavy", "light"]  # by their share
    assert [e.final for e in events][-3:] == [False, True, True]
    assert result.trials == 96 and result.finals == 2
    assert [e.number for e in events] == list(range(len(events)))
    for task, (_, candidates), best in zip(TASKS, measurer.finals_of, result.best, strict=False):
        true = [task.space.sketches[c.sketch_id].latency([c.row])[0] for c in candidates]
        assert best.purpose == Purpose.final
        assert best.latency_s == pytest.approx(min(true))
    assert result.estimated_total_s == pytest.approx(
        sum(task.weight * best.latency_s for task, best in zip(TASKS, result.best, strict=False))
    )
    again = FakeMeasurer()
    repeated = tune(
        TASKS[:2], None, _options(), history, again, space_of=space_of, run_id="run",
        clock=FakeClock(),
    )  # fmt: skip
    assert again.rounds == again.finals_of == []
    assert repeated.rounds == result.rounds
    assert repeated.estimated_total_s == pytest.approx(result.estimated_total_s)


def test_finals_need_two_that_work_and_a_measurer_that_can(wide):
    history = MemoryHistory()
    measurer = FakeMeasurer()
    session = _session(history, _options(num_measure_trials=48))
    while (index := session.next_task()) is not None:
        session.commit(index, session.measure(index, session.propose(index), measurer))
    index = session.next_final()
    rounds, measured = session.rounds, session.measure_final(index, measurer)
    assert session.commit_final(index, measured[:1]) is None
    assert session.rounds == rounds and session.next_final() != index

    class Plain:
        measure = measurer.measure

    result = tune(
        TASKS, None, _options(), history, Plain(), space_of=space_of, run_id="other",
        clock=FakeClock(),
    )  # fmt: skip
    assert result.finals == 0 and math.isfinite(result.estimated_total_s)


def test_drift_is_told_by_round_and_in_the_end():
    class Drifting(FakeMeasurer):
        def _one(self, task, candidate):
            from dataclasses import replace

            slow = 1.2 if len(self.rounds) == 5 else 1.0
            return replace(super()._one(task, candidate), calibration_s=1e-3 * slow)

    history, events = MemoryHistory(), []
    result = tune(
        TASKS, None, _options(), history, Drifting(), space_of=space_of, run_id="run",
        clock=FakeClock(), callbacks=[lambda session, finished: events.append(finished)],
    )  # fmt: skip
    assert [round(e.drift, 3) for e in events[3:7]] == [0, 0.2, 0, 0]
    assert result.drifted_rounds == 1
    assert _session(history).result().drifted_rounds == 1


class Beside(FakeMeasurer):
    """Something else runs during the first so many finals: all take twice as long."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def finals(self, task, candidates):
        found = super().finals(task, candidates)
        self.times -= 1
        slow = 2.0 if self.times >= 0 else 1.0
        return [replace(one, latency_s=one.latency_s * slow) for one in found]


@pytest.mark.parametrize(("times", "held", "told"), [(0, 1, False), (1, 2, False), (9, 2, True)])
def test_disturbed_finals_are_held_once_more_and_told_if_they_still_are(wide, times, held, told):
    history, measurer = MemoryHistory(), Beside(times)
    result = tune(
        TASKS[:1], None, _options(), history, measurer, space_of=space_of, run_id="run",
        clock=FakeClock(),
    )  # fmt: skip
    assert len(measurer.finals_of) == held
    assert result.finals == 1
    assert result.disturbed == (((0, pytest.approx(2.0)),) if told else ())
    searched = min(r.latency_s for r in history.read() if r.purpose == Purpose.search)
    assert result.best[0].latency_s == pytest.approx(searched * (2 if told else 1))
