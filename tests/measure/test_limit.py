"""More is built than run: code tells before a candidate costs time of the device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measure.conftest import candidate, new_measurer
from tests.measure.faults import Fault
from tilework.measure import to_records
from tilework.record import MemoryHistory, Purpose, Status


def promising(tenths: int, number: int = 1, score: float = 0.5):
    return replace(candidate(Fault.promising, tenths, number), predicted_score=score)


def rows(results):
    return [m.candidate.row[1:] for m in results]


def test_what_its_code_condemns_is_refused_before_it_runs(measurer, task, ok):
    found = measurer.measure(task, [candidate(Fault.unfit, 3), ok])
    assert [m.status.value for m in found] == ["unfit", "ok"]
    refused = found[0]
    assert refused.error == "build: it spills 8 bytes" and refused.latency_s is None
    assert refused.facts == {"registers": 32} and refused.code_hash and refused.build_s > 0
    record, _ = to_records(task, found, run_id="run", round=0)
    assert (record.status, record.purpose) == (Status.unfit, Purpose.refused)
    assert record.registers == 32 and not record.usable
    history = MemoryHistory([record])
    assert history.best(record.workload_key, record.target) is None


@pytest.mark.parametrize("overlap", [False, True])
def test_whose_code_is_worse_gives_way_to_who_stands_by(task, overlap):
    tenths = (10, 5, 20, 9, 8, 12, 4)
    with new_measurer(overlap=overlap) as measurer:
        candidates = [promising(t) for t in tenths]
        found = measurer.measure(task, candidates, limit=4)
        assert rows(found) == [(10, 1), (20, 1), (9, 1), (12, 1)]
        assert {m.status for m in found} == {Status.ok}
        assert len(measurer.measure(task, [promising(t, 2) for t in tenths])) == 7
        few = [promising(7, 3), promising(8, 3)]
        assert rows(measurer.measure(task, few, limit=5)) == [(7, 3), (8, 3)]


def test_a_candidate_that_holds_its_promise_keeps_its_place(measurer, task):
    """However little that is: a search chooses some at random."""
    candidates = [promising(10, 4, 0.1), promising(9, 4, 0.5), promising(12, 4, 0.9)]
    assert rows(measurer.measure(task, candidates, limit=1)) == [(10, 4)]
    candidates = [promising(9, 9, 0.5), promising(12, 9, 0.9), promising(10, 9, 0.1)]
    assert rows(measurer.measure(task, candidates, limit=1)) == [(12, 9)]
    candidates = [promising(9, 5, -1.0), promising(12, 5, -2.0)]
    assert rows(measurer.measure(task, candidates, limit=1)) == [(9, 5)]


def test_places_of_the_refused_go_to_the_next_best(measurer, task):
    unfit, broken = candidate(Fault.unfit, 6), candidate(Fault.build_error)
    candidates = [unfit, broken, promising(10, 6), promising(9, 6), promising(8, 6)]
    found = measurer.measure(task, [*candidates, promising(20, 6, 0.4)], limit=3)
    assert [m.status.value for m in found] == ["unfit", "compile_error", "ok", "ok"]
    assert rows(found[2:]) == [(10, 6), (20, 6)]  # the broken one is a trial, too


def test_all_may_be_refused(measurer, task):
    found = measurer.measure(task, [candidate(Fault.unfit, n) for n in range(4)], limit=2)
    assert [m.status for m in found] == [Status.unfit] * 4


def test_equal_code_goes_with_its_equal(measurer, task):
    twin, other = replace(promising(10, 7), row=(Fault.promising, 10, 7, 0)), promising(9, 7)
    found = measurer.measure(task, [promising(10, 7), twin, other, promising(1, 7)], limit=3)
    assert rows(found) == [(10, 7), (10, 7, 0), (9, 7)]
    assert found[0].latency_samples == found[1].latency_samples
    again = measurer.measure(task, [promising(11, 7), promising(10, 7)], limit=1)
    assert rows(again) == [(11, 7), (10, 7)]  # the second costs nothing: its code is known
    low = replace(promising(2, 8), row=(Fault.promising, 2, 8, 0))
    left = measurer.measure(task, [promising(13, 8), low, promising(2, 8)], limit=1)
    assert rows(left) == [(13, 8)]


def test_a_hang_or_a_crash_is_one_of_those_that_run(task, ok):
    with new_measurer(run_timeout_s=1.0) as measurer:
        candidates = [candidate(Fault.run_segfault), candidate(Fault.build_segfault), ok, ok]
        found = measurer.measure(task, candidates, limit=2)
    assert [m.status.value for m in found] == ["crashed", "crashed"]
