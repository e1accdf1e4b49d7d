"""Where the time of a compile goes, and the line that says how far it is."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace

import pytest

from tilework import compile, progress, zoo
from tilework.progress import Progress
from tilework.stages import STAGES, ordered, stage, watch_here, watching


def test_nobody_watches():
    with stage("choose"):
        assert watch_here() is None


def test_a_stage_within_another_is_not_part_of_it(monkeypatch):
    clock = iter([0.0, 1.0, 4.0, 10.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    with watching() as spent, stage("choose"), stage("lower"):
        pass
    assert (spent["lower"].wall_s, spent["choose"].wall_s) == (3.0, 7.0)


def test_threads_count_where_they_are_told_to(monkeypatch):
    clock = iter([0.0, 1.0, 5.0, 7.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    with watching() as spent, stage("run"):
        watch = watch_here()

        def work():
            assert watch_here() is None
            with stage("emit", watch):
                pass

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert {name: one.wall_s for name, one in spent.items()} == {"emit": 4.0, "run": 7.0}


def test_the_stages_of_a_compile():
    with watching() as spent:
        module = compile(zoo.get("mlp", batch=3), "llvm -num-cores=2")
        module.run({name: module.bind().inputs[name] for name in module.inputs})
    seen = ("passes", "choose", "lower", "write", "emit", "pack", "link", "keep")
    assert tuple(ordered(spent)) == seen and set(spent) <= set(STAGES)
    assert all(one.wall_s >= 0 for one in spent.values())


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """clock[0] is what time it is."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def terminal(monkeypatch):
    """Standard error."""
    made = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=made))
    return made


def slowly(clock, seconds=1, steps=4):
    with Progress("compiling net", 8, "calls") as line:
        for _ in range(steps):
            clock[0] += seconds
            line.step()
            line.step()  # too soon after the last one


def test_what_takes_long_is_told_with_an_estimate(clock, terminal):
    slowly(clock)
    assert terminal.getvalue().split("\r\x1b[K") == [
        "",
        "compiling net: 3 of 8 calls, about 3 s left",
        "compiling net: 5 of 8 calls, about 2 s left",
        "compiling net: 7 of 8 calls, about 1 s left",
        "",
    ]


def test_nothing_is_told_of_what_is_quick(clock, terminal):
    slowly(clock, 1.9, 1)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stderr", [io.StringIO(), None])
def test_nothing_is_told_where_there_is_no_terminal(clock, monkeypatch, stderr):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stderr))
    slowly(clock)
    assert stderr is None or stderr.getvalue() == ""


def test_a_terminal_that_is_gone_stops_nothing(clock, terminal):
    terminal.close()
    terminal.isatty = lambda: True
    slowly(clock)
