"""Workers are forked from a process that only imports, and are as if started anew."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from tests.processes import alive, started, wait_until_dead
from tilework.measure import nursery
from tilework.measure.nursery import NURSERY, Nursery
from tilework.measure.process import Worker, WorkerDied, wait_for


@pytest.fixture
def worker(request):
    one = ready(Worker(**getattr(request, "param", {})))
    yield one
    one.kill()


def ready(worker):
    """A worker that has started."""
    assert wait_for([worker]) == ([worker], [])
    assert worker.receive() == (True, None)
    return worker


def ask(worker, function, *args):
    worker.ask("job", 60, function, *args)
    wait_for([worker])
    succeeded, value = worker.receive()
    assert succeeded, value
    return value


def nursery_of(worker):
    return ask(worker, "os:getppid")


def test_workers_have_one_nursery_whatever_happens_to_them(worker):
    other = ready(Worker())
    assert nursery_of(worker) == nursery_of(other) != os.getpid()
    os.kill(other.pid, signal.SIGSEGV)
    wait_for([other])
    with pytest.raises(WorkerDied, match="killed by SIGSEGV"):
        ask(other, "os:getpid")
    other.kill()
    third = ready(Worker())
    assert nursery_of(third) == nursery_of(worker)
    third.kill()
    assert not alive(third.pid)
    third.kill()


def test_a_worker_has_what_its_parent_has_by_then(worker, monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWORK_TEST_WORD", "later")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "written_later.py").write_text("import os\nword = lambda: dict(os.environ)\n")
    later = ready(Worker(nice=1, preload=["written_later"], environment={"A_B": "1", "PATH": "x"}))
    expected = {**os.environ, "A_B": "1"}
    assert ask(later, "written_later:word") == expected
    assert ask(later, "os:getcwd") == str(tmp_path)
    assert ask(later, "os:nice", 0) == min(os.nice(0) + 1, 19)
    assert nursery_of(later) == nursery_of(worker)
    later.kill()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no masks of cores here")
def test_a_worker_has_the_cores_of_its_parent(worker):
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        later = ready(Worker())
        assert ask(later, "os:sched_getaffinity", 0) == {min(before)}
        later.kill()
    finally:
        os.sched_setaffinity(0, before)


def test_what_is_not_ours_is_imported_by_the_worker_alone(worker, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ends_it.py").write_text("import os\nos._exit(5)\n")
    (tmp_path / "raises.py").write_text("raise RuntimeError('not today')\n")
    for module, said in (
        ("ends_it", "exited with code 5"),
        ("raises", "code 1; it said: .*today"),
    ):
        other = Worker(preload=[module])
        wait_for([other])
        with pytest.raises(WorkerDied, match=said):
            other.receive()
        other.kill()
    again = ready(Worker())
    assert nursery_of(worker) == nursery_of(again)
    again.kill()


def test_a_nursery_that_was_killed_is_replaced_and_its_workers_go_on(worker):
    before = nursery_of(worker)
    os.kill(before, signal.SIGKILL)
    assert wait_until_dead([before])
    after = ready(Worker())
    assert nursery_of(after) not in (before, os.getpid())
    assert ask(worker, "os:getpid") == worker.pid
    pids = [after.pid, worker.pid]
    after.kill()
    worker.kill()  # how it ended nobody knows, but that it did
    assert wait_until_dead(pids)


def test_one_that_cannot_be_started_is_told(monkeypatch):
    NURSERY.close()
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    worker = Worker()
    wait_for([worker])
    with pytest.raises(WorkerDied, match=r"not started: .*No module named"):
        worker.receive()
    worker.kill()
    monkeypatch.undo()
    ready(Worker()).kill()


def test_one_that_hangs_is_replaced(worker, monkeypatch):
    monkeypatch.setattr(nursery, "PATIENCE_S", 0.2)
    before = nursery_of(worker)
    os.kill(before, signal.SIGSTOP)
    waits = Worker()
    worker.kill()  # it ends, though nobody says so
    assert wait_until_dead([worker.pid])
    waits.kill()
    assert not alive(before)
    monkeypatch.undo()
    after = ready(Worker())
    assert nursery_of(after) != before
    after.kill()


def test_a_start_that_failed_is_no_end(monkeypatch):
    NURSERY.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(FileNotFoundError):
        Worker()
    monkeypatch.undo()
    ready(Worker()).kill()


def test_it_ends_when_nobody_asks_any_more():
    script = textwrap.dedent("""
        import sys
        sys.path[:] = {path!r}
        import tilework.measure.forks as forks
        forks.IDLE_S = 0.05
        forks.serve(int(sys.argv[1]))
    """).format(path=sys.path)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, ours:
        words = [sys.executable, "-c", script, str(theirs.fileno())]
        done = subprocess.run(words, pass_fds=[theirs.fileno()], timeout=60, check=False)
    assert done.returncode == 0


SCRIPT = textwrap.dedent("""
    import os, sys, time
    sys.path[:] = {path!r}
    from tests.measure.test_nursery import ask, nursery_of, ready
    from tilework.measure.process import Worker
    worker = ready(Worker())
    if not os.fork():
        own = ready(Worker())
        print(os.getpid(), nursery_of(own), own.pid, flush=True)
        time.sleep(600)
    time.sleep(0.1)
    print(os.getpid(), nursery_of(worker), worker.pid, flush=True)
    {end}
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("end", ["time.sleep(600)", "os._exit(0)"])
def test_a_process_and_its_fork_have_a_nursery_each_which_end_with_them(end):
    with started([sys.executable, "-c", SCRIPT.format(path=sys.path, end=end)]) as parent:
        lines = sorted(
            [[int(n) for n in parent.stdout.readline().split()] for _ in range(2)],
            key=lambda line: line[0] != parent.pid,
        )
        (_, first, _), (fork, second, own) = lines
        assert first != second
        if "sleep" in end:
            os.kill(parent.pid, signal.SIGKILL)
        parent.wait(timeout=60)
        assert wait_until_dead([first])
        assert alive(second)
        os.kill(fork, signal.SIGKILL)
        assert wait_until_dead([second, own])


def test_nothing_is_left_of_one_that_was_never_asked():
    assert Nursery().close() == ""
