"""Order, early ends, modes, reuse; and nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time

import pytest

from tests.measure.conftest import TARGET, add_task, candidate, new_measurer
from tests.measure.faults import Fault
from tests.processes import alive, started, wait_until_dead
from tilework.measure import Measured, Measurer, Settings, to_records
from tilework.record import Status
from tilework.space import space_of
from tilework.target import Target
from tilework.target.host import processor_name


def test_no_candidates(measurer, task):
    assert measurer.measure(task, [], None) == []


def test_results_come_in_order_and_are_reported_as_they_come(measurer, task):
    candidates = [candidate(Fault.slow, us) for us in (300, 50, 200)]
    seen = []
    results = measurer.measure(task, candidates, None, seen.append)
    assert [m.candidate for m in results] == candidates
    assert sorted(map(id, seen)) == sorted(map(id, results))
    slowest, fastest, middle = [m.latency_s for m in results]
    assert 50e-6 < fastest < middle < slowest


def test_a_plainly_slower_candidate_gets_a_short_look(task):
    """And one that looks like the new best gets a longer one."""
    looks = ((None, 5), (1e-3, 7), (8.5e-4, 5), (5.5e-4, 2), (1e-5, 2))
    with new_measurer(device="tests.measure.faults:TELLING") as measurer:
        for number, (best, samples) in enumerate(looks, 1):
            slow = candidate(Fault.slow, 900, number)  # code that was not measured before
            (result,) = measurer.measure(task, [slow], best_latency_s=best)
            assert result.status == Status.ok
            assert result.latency_samples == (9e-4,) * samples


def test_the_best_falls_as_the_batch_goes_on(measurer, task):
    candidates = [candidate(Fault.slow, *row) for row in ((5000, 0), (100, 0), (5000, 1))]
    *_, last = measurer.measure(task, candidates, None)
    assert len(last.latency_samples) <= 3  # with no best to compare with it gets five


def test_building_while_measuring_gives_the_same(task, ok):
    with new_measurer(overlap=True, build_processes=2) as measurer:
        candidates = [ok, candidate(Fault.wrong), ok, candidate(Fault.build_error)] * 3
        results = measurer.measure(task, candidates)
    assert [m.status.value for m in results] == ["ok", "wrong_answer", "ok", "compile_error"] * 3


def test_equal_code_is_measured_once(task):
    with new_measurer(build_processes=2) as measurer:
        rows = [(Fault.slow, 200), (Fault.slow, 200, 0), (Fault.wrong,), (Fault.slow, 100)]
        one, two, wrong, other = measurer.measure(task, [candidate(*row) for row in rows])
        (again,) = measurer.measure(task, [candidate(Fault.slow, 200, 0, 0)])
        (elsewhere,) = measurer.measure(add_task(500), [candidate(Fault.slow, 200)])
    assert one.latency_samples == two.latency_samples == again.latency_samples
    assert one.code_hash == two.code_hash != other.code_hash
    assert again.candidate.row == (Fault.slow, 200, 0, 0)
    assert other.latency_samples != one.latency_samples != elsewhere.latency_samples
    assert wrong.status == Status.wrong_answer


def test_codes_of_earlier_runs_are_not_measured_again(task, ok):
    known = Measured(ok, Status.ok, latency_s=0.5, latency_samples=(0.5,), code_hash="code-none")
    with new_measurer() as measurer:
        measurer.remember(task.workload_key, [known])
        (result,) = measurer.measure(task, [candidate(Fault.none, 0)])
        assert measurer.finals(task, [ok])[0].latency_s < 0.01  # finals measure in any case
    assert result.latency_s == 0.5
    assert result.candidate.row == (0, 0)


def test_finalists_take_turns(measurer, task):
    rows = [(Fault.slow, 300), (Fault.wrong,), (Fault.build_error,), (Fault.slow, 200)]
    slow, wrong, broken, fast = measurer.finals(task, [candidate(*row) for row in rows])
    assert slow.latency_samples and fast.latency_samples
    assert slow.latency_s / fast.latency_s == pytest.approx(1.5, rel=0.3)
    assert [wrong.status, broken.status] == [Status.wrong_answer, Status.compile_error]
    assert fast.calibration_s


def test_finalists_that_crash_cost_the_finals_only(measurer, task, ok):
    rows = [(Fault.none,), (Fault.run_segfault,)]
    results = measurer.finals(task, [candidate(*row) for row in rows])
    assert {m.status for m in results} == {Status.crashed}
    assert measurer.measure(task, [ok])[0].status == Status.ok


def test_cold_cache_mode(task, ok):
    with new_measurer(cold_cache=True) as measurer:
        (result,) = measurer.measure(task, [ok])
    assert result.status == Status.ok


def test_tasks_take_turns(measurer, task, ok):
    for current in (task, add_task(500), task, add_task(500)):
        assert measurer.measure(current, [ok])[0].status == Status.ok


def test_builders_are_light_and_give_way_to_the_runner(measurer, task):
    (result,) = measurer.measure(task, [candidate(Fault.report)])
    nice = os.nice(0)
    assert f"nice={nice} heavy=[]" in result.error
    with new_measurer(overlap=True) as overlapping:
        (result,) = overlapping.measure(task, [candidate(Fault.report)])
    assert f"nice={min(nice + 10, 19)} heavy=[]" in result.error
    assert "main=<module '__main__' (built-in)>" in result.error


def test_leaving_ends_every_process_and_the_measurer_can_be_used_again(task, ok):
    measurer = new_measurer()
    with measurer:
        assert measurer.measure(task, [ok])[0].status == Status.ok
        pids = measurer.pids
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
    assert not any(alive(pid) for pid in pids)
    assert measurer.measure(task, [ok])[0].status == Status.ok
    pids = measurer.pids
    measurer.close()
    assert not any(alive(pid) for pid in pids)


def test_an_interrupt_ends_every_process(task, ok):
    def interrupt(result):
        raise KeyboardInterrupt

    with new_measurer() as measurer:
        pids = measurer.pids
        with pytest.raises(KeyboardInterrupt):
            measurer.measure(task, [ok, ok], None, interrupt)
        assert not any(alive(pid) for pid in pids)
        assert measurer.measure(task, [ok])[0].status == Status.ok


SCRIPT = textwrap.dedent("""
    import sys
    sys.path[:] = {path!r}
    from tests.measure.conftest import add_task, candidate, new_measurer
    from tests.measure.faults import Fault
    with new_measurer(run_timeout_s=60) as measurer:
        task = add_task()
        measurer.measure(task, [candidate(Fault.none)])
        print(*measurer.pids, flush=True)
        measurer.measure(task, [candidate(Fault.{fault})])
""")


def _script(fault):
    return [sys.executable, "-c", SCRIPT.format(path=sys.path, fault=fault.name)]


@pytest.mark.parametrize("fault", [Fault.run_hang, Fault.run_spin], ids=lambda f: f.name)
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL], ids=lambda s: s.name)
def test_the_end_of_the_parent_ends_the_workers(kill, fault):
    """Ctrl-C goes to the whole foreground group; kill -9 to the parent alone."""
    with started(_script(fault)) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.2)
        (os.killpg if kill == signal.SIGINT else os.kill)(parent.pid, kill)
        _, errors = parent.communicate(timeout=600)
        assert wait_until_dead(pids)
    if kill == signal.SIGINT:
        assert errors.count("Traceback") <= 1
        assert errors.strip().endswith("KeyboardInterrupt")


def test_a_run_in_the_background_is_not_interrupted_and_ends_as_a_whole():
    """A shell starts it with SIGINT ignored; Ctrl-C for another job must not end its workers."""
    with started(_script(Fault.run_spin), background=True) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        time.sleep(0.2)
        os.killpg(parent.pid, signal.SIGINT)
        time.sleep(0.2)
        assert parent.poll() is None and all(alive(pid) for pid in pids)
        os.kill(parent.pid, signal.SIGKILL)
        parent.communicate(timeout=600)
        assert wait_until_dead(pids)


def test_records_of_a_round(measurer, task, ok):
    measured = measurer.measure(task, [ok, candidate(Fault.build_error)])
    records = to_records(task, measured, run_id="run", round=4, network="net")
    assert [r.record_id for r in records] == ["run-000004-0000", "run-000004-0001"]
    good, bad = records
    assert good.usable
    assert not bad.usable
    assert good.decisions == (0,)
    assert (good.workload_key, good.network, good.round) == (task.workload_key, "net", 4)
    assert good.latency_s == measured[0].latency_s
    assert bad.error.startswith("build: ValueError")
    assert good.facts == {"registers": 32} and bad.facts == {}
    assert good.device == processor_name()
    assert good.rules_version == space_of(task.target).version


def test_options_are_those_of_the_device_unless_the_caller_says_otherwise():
    usual = Measurer(TARGET).settings
    assert (usual.repeats, usual.seed) == (Settings().repeats, 0)
    assert usual.build_processes >= 1 and usual.overlap in (True, False)
    assert Measurer(TARGET, Settings(repeats=5, seed=3), seed=4).settings.repeats == 5
    assert Measurer(TARGET, Settings(repeats=5, seed=3), seed=4).settings.seed == 4
    assert Measurer(Target("reference")).settings.repeats == 1
    with pytest.raises(TypeError, match="no_such_option"):
        Measurer(TARGET, no_such_option=1)
