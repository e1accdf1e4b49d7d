"""Work that threads do beside the caller."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from tilework import deferred
from tilework.deferred import Deferred, Helpers


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr(deferred, "available_cores", lambda: 3)
    monkeypatch.delenv("TILEWORK_CORES", raising=False)


def started(helpers, make):
    work = Deferred(make)
    helpers.start(work)
    return work


def helpers_there():
    return [t for t in threading.enumerate() if t.name == "tilework helper"]


def test_made_once_by_whoever_comes_first(three):
    made = []
    with Helpers() as helpers:
        work = [started(helpers, lambda i=i: made.append(i) or i) for i in range(200)]
        assert work[199].result() == 199
        helpers.finish()
        assert [w.result() for w in work] == list(range(200))
    assert sorted(made) == list(range(200))
    assert not helpers_there()


def test_an_error_reaches_everybody_who_asks(three):
    def fail():
        raise ValueError("no")

    with Helpers() as helpers:
        work = started(helpers, fail)
        helpers.finish()
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                work.result()


def test_an_interrupted_call_is_made_again():
    calls = []

    def make():
        calls.append(0)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return "made"

    work = Deferred(make)
    with pytest.raises(KeyboardInterrupt):
        work.result()
    assert work.result() == "made"


def test_what_nobody_began_is_forgotten_where_the_block_ends_early(three):
    began, go = threading.Event(), threading.Event()
    made = []

    def first():
        began.set()
        go.wait()

    with pytest.raises(KeyboardInterrupt), Helpers() as helpers:
        both = [started(helpers, first), started(helpers, first)]
        later = [started(helpers, lambda: made.append(0)) for _ in range(10)]
        began.wait()
        threading.Timer(0.05, go.set).start()
        raise KeyboardInterrupt
    assert made == [] and not helpers_there()
    assert later[0].result() is None and both[0].result() is None


@pytest.mark.parametrize("cores, asked, most", [(1, "", 0), (3, "1", 0), (3, "2", 1), (2, "9", 1)])
def test_no_more_threads_than_cores(monkeypatch, cores, asked, most):
    monkeypatch.setattr(deferred, "available_cores", lambda: cores)
    monkeypatch.setenv("TILEWORK_CORES", asked)
    go = threading.Event()
    with Helpers() as one, Helpers() as other:
        if not most:
            go.set()  # work is done where it is started
        work = [started(h, go.wait) for h in (one, other) for _ in range(3)]
        assert len(helpers_there()) == most
        go.set()
        one.finish()
        other.finish()
        assert all(w.result() for w in work)


def test_without_threads_the_caller_does_it(three, monkeypatch):
    def none_left(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    with Helpers() as helpers:
        work = started(helpers, threading.get_ident)
        helpers.finish()
    assert work.result() == threading.get_ident()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_child_does_the_work_itself(three):
    go, inside = threading.Event(), threading.Event()

    def wait():
        inside.set()
        go.wait()
        return "made"

    with Helpers() as helpers:
        busy = started(helpers, wait)
        inside.wait()
        child = os.fork()
        if child == 0:
            go.set()
            with helpers:
                helpers.finish()
                right = busy.result() == "made" and not helpers_there()
            os._exit(0 if right else 1)
        go.set()
    assert os.waitpid(child, 0)[1] == 0


def test_threads_have_their_turn_sooner_while_there_are_helpers(three):
    before = sys.getswitchinterval()
    with Helpers() as one:
        assert sys.getswitchinterval() == before
        one.start(Deferred(lambda: None))
        with Helpers() as other:
            other.start(Deferred(lambda: None))
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before
