"""The collector of cycles stands still during a compile, and runs again after it."""

from __future__ import annotations

import gc
import os

import pytest

from tilework.collector import paused


@pytest.fixture(autouse=True)
def running():
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def test_it_stands_still_inside_and_the_last_one_out_starts_it():
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_made_inside_is_not_looked_at_when_the_last_one_leaves():
    seen, kept, usual = [], [], gc.get_threshold()
    gc.unfreeze()  # what the tests froze
    gc.set_threshold(700, 10, 10)
    try:
        with paused():
            kept += [[] for _ in range(10_000)]
            gc.callbacks.append(lambda phase, about: seen.append(phase))
        kept.append([])
        gc.callbacks.pop()
        assert not gc.get_freeze_count()
    finally:
        gc.set_threshold(*usual)
        gc.freeze()
    assert not seen and gc.isenabled()


def test_what_a_program_froze_stays_frozen():
    gc.freeze()
    with paused():
        pass
    assert gc.get_freeze_count()


def test_an_error_starts_it_too():
    with pytest.raises(KeyError), paused():
        raise KeyError
    assert gc.isenabled()


def test_one_that_stood_still_before_stays_so():
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_it_running_and_may_leave_what_its_parent_entered():
    reading, writing = os.pipe()
    with paused():
        child = os.fork()
        if not child:
            said = [gc.isenabled()]
            with paused():
                said.append(gc.isenabled())
            os.write(writing, bytes([*said, gc.isenabled()]))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(reading, 3) == bytes([True, False, True])
        assert not gc.isenabled()
    os.close(reading)
    os.close(writing)
    assert gc.isenabled()
