"""Candidates that misbehave are recorded under their kind, and the others go on."""

from __future__ import annotations

import pytest

from tests.measure.conftest import add_task, candidate, new_measurer
from tests.measure.faults import Fault
from tests.processes import alive
from tilework.measure import MeasureError
from tilework.record import Status

KINDS = {
    Fault.packed: (Status.ok, ""),
    Fault.rejected: (Status.rejected, "build: ScheduleError: the row has too few decisions"),
    Fault.build_error: (Status.compile_error, "build: ValueError: no register is left for this"),
    Fault.build_segfault: (Status.crashed, "build: the worker was killed by SIGSEGV"),
    Fault.build_exit: (
        Status.crashed,
        "build: the worker exited with code 3; it said: LLVM ERROR: out of patience",
    ),
    Fault.build_hang: (Status.timeout, "build: took longer than 0.7 s"),
    Fault.build_unpicklable: (Status.compile_error, "build: "),
    Fault.build_killed: (Status.worker_lost, "build: the worker was killed by SIGKILL"),
    Fault.load_error: (Status.launch_error, "load: OSError: symbol not found (faults.py:"),
    Fault.run_error: (Status.run_error, "run: RuntimeError: the runtime has no threads"),
    Fault.run_segfault: (Status.crashed, "run: the worker was killed by SIGSEGV"),
    Fault.run_abort: (Status.crashed, "run: the worker was killed by SIGABRT"),
    Fault.run_exit: (Status.crashed, "run: the worker exited with code 7"),
    Fault.run_hang: (Status.timeout, "run: took longer than 0.7 s"),
    Fault.run_spin: (Status.timeout, "run: took longer than 0.7 s"),
    Fault.run_killed: (Status.worker_lost, "run: the worker was killed by SIGKILL"),
    Fault.wrong: (Status.wrong_answer, "run: output 0 differs: "),
    Fault.partial: (
        Status.wrong_answer,
        "run: output 0: 1 of 1000 elements not written, first (999), with 2 threads",
    ),
    Fault.scalar_wrong: (Status.wrong_answer, "run: output 0 differs: "),
    Fault.later_wrong: (Status.wrong_answer, "run: output 0 differs: "),
    Fault.overrun: (Status.wrong_answer, "run: wrote outside its buffers"),
}


@pytest.fixture(scope="module")
def results(task, ok):
    """Every fault with a good candidate after it, in two batches: those that hang, the others."""
    hangs = [fault for fault in KINDS if KINDS[fault][0] == Status.timeout]
    others = [fault for fault in KINDS if fault not in hangs]
    found = {}
    for faults, patience in ((others, 20.0), (hangs, 0.7)):
        candidates = [c for fault in faults for c in (candidate(fault), ok)]
        options = {"build_timeout_s": patience, "run_timeout_s": patience}
        with new_measurer(build_processes=2, **options) as measurer:
            measured = measurer.measure(task, candidates, None)
        assert [m.candidate for m in measured] == candidates
        found |= {f: (measured[2 * i], measured[2 * i + 1]) for i, f in enumerate(faults)}
    return found


@pytest.mark.parametrize("fault", KINDS, ids=lambda fault: fault.name)
def test_every_fault_is_recorded_under_its_kind(results, fault):
    result, after = results[fault]
    status, error = KINDS[fault]
    assert (result.status, result.error[: len(error)]) == (status, error)
    assert (result.latency_s is None) == (status != Status.ok)
    assert "\n" not in result.error
    assert after.status == Status.ok, after.error


def test_a_good_candidate_has_every_number(task):
    with new_measurer(device="tests.measure.faults:TELLING") as measurer:
        (good,) = measurer.measure(task, [candidate(Fault.slow, 900)])
    assert good.error == ""
    assert good.latency_s == 9e-4
    assert good.latency_samples == (9e-4,) * 5
    assert good.latency_spread == 0
    assert good.build_s > 0
    assert 0 <= good.max_rel_error < 1e-6
    assert good.code_hash.startswith("code-slow")
    assert 1e-5 < good.calibration_s < 0.1


def test_how_wrong_is_kept(results):
    assert 0.1 < results[Fault.wrong][0].max_rel_error < 1
    assert results[Fault.partial][0].max_rel_error == float("inf")
    assert results[Fault.wrong][0].code_hash == "code-wrong"


def test_a_worker_lost_once_is_no_fault_of_the_candidate(task, ok, tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT_MARKER", str(tmp_path / "marker"))
    with new_measurer() as measurer:
        results = measurer.measure(task, [candidate(Fault.run_killed_once), ok])
    assert [m.status for m in results] == [Status.ok, Status.ok]
    assert (tmp_path / "marker").exists()


def test_a_task_without_a_reference_fails_as_a_whole_and_the_next_one_works(measurer, task, ok):
    broken = add_task(finite=False)
    results = measurer.measure(broken, [ok, candidate(Fault.build_error), ok])
    assert results[0].status == Status.run_error
    assert results[0].error.startswith("prepare: ValueError: the reference output is not finite")
    assert results[1].status in (Status.run_error, Status.compile_error)
    assert len(results) == 3
    assert measurer.measure(task, [ok])[0].status == Status.ok


def test_a_builder_that_does_not_exist(task, ok):
    with (
        pytest.raises(MeasureError, match="No module named 'nowhere'"),
        new_measurer(builder="nowhere:BUILDER") as measurer,
    ):
        measurer.measure(task, [ok])
    assert not any(alive(pid) for pid in measurer.pids)
