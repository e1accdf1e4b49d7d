"""Order, early ends, modes, reuse; and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.measure.conftest import add_task, alive, candidate, new_measurer, wait_until_dead
from tests.measure.faults import Fault
from tilework.measure import to_records
from tilework.record import Status


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


def test_a_plainly_slower_candidate_gets_a_short_look(measurer, task):
    slow = candidate(Fault.slow, 900)
    for best, samples in ((None, 5), (9e-4, 5), (5.5e-4, 3), (1e-5, 1)):
        (result,) = measurer.measure(task, [slow], best_latency_s=best)
        assert result.status == Status.ok
        assert len(result.latency_samples) == samples


def test_the_best_falls_as_the_batch_goes_on(measurer, task):
    candidates = [candidate(Fault.slow, us) for us in (5000, 100, 5000)]
    results = measurer.measure(task, candidates, None)
    assert [len(m.latency_samples) for m in results] == [5, 5, 1]


def test_building_while_measuring_gives_the_same(task, ok):
    with new_measurer(overlap=True, build_processes=2) as measurer:
        candidates = [ok, candidate(Fault.wrong), ok, candidate(Fault.build_error)] * 3
        results = measurer.measure(task, candidates)
    assert [m.status.value for m in results] == ["ok", "wrong_answer", "ok", "compile_error"] * 3


def test_cold_cache_mode(task, ok):
    with new_measurer(cold_cache=True) as measurer:
        (result,) = measurer.measure(task, [ok])
    assert result.status == Status.ok


def test_tasks_take_turns(measurer, task, ok):
    for current in (task, add_task(500), task, add_task(500)):
        assert measurer.measure(current, [ok])[0].status == Status.ok


def test_builders_are_light_and_give_way_to_the_runner(measurer, task):
    (result,) = measurer.measure(task, [candidate(Fault.report)])
    assert "nice=0 heavy=[]" in result.error
    with new_measurer(overlap=True) as overlapping:
        (result,) = overlapping.measure(task, [candidate(Fault.report)])
    assert "nice=10 heavy=[]" in result.error
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


@pytest.mark.parametrize("fault", [Fault.run_hang, Fault.run_spin], ids=lambda f: f.name)
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL], ids=lambda s: s.name)
def test_the_end_of_the_parent_ends_the_workers(kill, fault):
    """Ctrl-C goes to the whole foreground group; kill -9 to the parent alone."""
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(path=sys.path, fault=fault.name)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.2)
    (os.killpg if kill == signal.SIGINT else os.kill)(parent.pid, kill)
    _, errors = parent.communicate(timeout=10)
    assert wait_until_dead(pids)
    if kill == signal.SIGINT:
        assert errors.count("Traceback") <= 1
        assert errors.strip().endswith("KeyboardInterrupt")


def test_records_of_a_round(measurer, task, ok):
    pytest.importorskip("tilework.space")
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
    assert good.device
