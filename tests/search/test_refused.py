"""Sessions that build more than they measure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.search.fakes import FakeClock, FakeMeasurer, space_of
from tests.search.test_session import TASKS, _drive, _options, _programs, _session
from tilework.measure.candidates import Measured
from tilework.record import MemoryHistory, Purpose, Status
from tilework.search import TuningError, tune


class TwiceBuilding(FakeMeasurer):
    """Refuses rows whose first decision is ``refused`` or more, and runs the first of the rest."""

    build_factor = 2

    def __init__(self, refused: int = 5):
        super().__init__()
        self.refused = refused
        self.limits: list[tuple[int, int]] = []

    def measure(self, task, candidates, best_latency_s, *, limit):
        self.limits.append((len(candidates), limit))
        unfit = [c for c in candidates if c.row[0] >= self.refused]
        fit = [c for c in candidates if c.row[0] < self.refused]
        ran = super().measure(task, fit[:limit], best_latency_s)
        return [*(Measured(c, Status.unfit, "build: spills") for c in unfit), *ran]


def test_refused_candidates_are_kept_but_are_no_trials():
    history, measurer = MemoryHistory(), TwiceBuilding()
    session = _session(history, build_factor=2)
    rounds = _drive(session, measurer)
    records = history.read()
    refused = [r for r in records if r.purpose == Purpose.refused]
    assert refused and all(r.status == Status.unfit and not r.usable for r in refused)
    assert session.budget.trials == 96 == sum(r.purpose == Purpose.search for r in records)
    assert sum(row.trials for row in session.summary()) == 96
    assert all(count <= 2 * limit for count, limit in measurer.limits)
    assert max(limit for _, limit in measurer.limits) > 1
    programs = [p[:3] for p in _programs(history)]
    assert len(set(programs)) == len(programs)  # what was refused is not proposed again
    assert session.model.trained and rounds[-1].estimated_total_s < rounds[0].estimated_total_s


@pytest.mark.parametrize("after", [1, 4])
def test_a_resumed_run_goes_on_as_if_nothing_had_happened(after):
    def options():
        return _options(num_measure_trials=40)

    whole, parts = MemoryHistory(), MemoryHistory()
    _drive(_session(whole, options(), build_factor=2), TwiceBuilding())
    _drive(_session(parts, options(), build_factor=2), TwiceBuilding(), rounds=after)
    resumed = _session(parts, options(), build_factor=2)
    assert resumed.rounds == after
    _drive(resumed, TwiceBuilding())
    assert _programs(parts) == _programs(whole)


def test_a_task_all_of_whose_candidates_are_refused_ends_with_the_reason():
    history = MemoryHistory()
    session = _session(history, tasks=TASKS[:1], build_factor=2)
    with pytest.raises(TuningError, match=r"(?s)all \d\d candidates.*x unfit: build: spills"):
        _drive(session, TwiceBuilding(refused=0))
    again = _session(history, tasks=TASKS[:1], build_factor=2)
    assert again.rounds == session.rounds and again.budget.trials == 0


def test_other_tasks_go_on_without_it():
    class Picky(TwiceBuilding):
        def measure(self, task, candidates, best_latency_s, *, limit):
            self.refused = 0 if task.workload_key == "light" else 7
            return super().measure(task, candidates, best_latency_s, limit=limit)

    session = _session(MemoryHistory(), build_factor=2)
    _drive(session, Picky())
    light = session.summary()[1]
    assert light.trials == 0 and "refused when built" in light.note
    assert [f.task_index for f in session.failures] == [1]


def test_tune_builds_as_many_as_its_measurer_says():
    measurer = TwiceBuilding(refused=9)
    options = replace(_options(), num_measure_trials=16)
    tune(
        TASKS[:1], None, options, MemoryHistory(), measurer,
        run_id="run", space_of=space_of, clock=FakeClock(),
    )  # fmt: skip
    assert measurer.limits[0][0] == 2 * measurer.limits[0][1]
