"""Ctrl-C ends a command although the library in which it is raised drops it."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref

import pytest

from flows import interrupts

PATIENCE_S = 30


@pytest.fixture(autouse=True)
def python_handles_it(monkeypatch):
    """As in a process of the foreground, whatever started these tests."""
    monkeypatch.setattr(interrupts, "REPEAT_S", 0.05)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def lost(monkeypatch):
    """It comes while C code calls Python code, which drops it; then the run goes on, untold."""
    told = []
    monkeypatch.setattr("sys.unraisablehook", told.append)

    def lose(*_):
        something = set()
        weak = weakref.ref(something, lambda _: os.kill(os.getpid(), signal.SIGINT))
        del something
        assert weak() is None
        assert not told
        go_on()

    return lose


def go_on():
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        time.sleep(0.01)
    raise AssertionError("it was lost")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["tune", "mlp", "--no-prefect"], "flows.pipeline.tune_pipeline"),
        (["tune-zoo", "mlp", "--no-prefect"], "flows.zoo_pipeline.zoo_pipeline"),
    ],
)
def test_a_run_says_how_to_go_on(cli, monkeypatch, lost, words, place):
    monkeypatch.setattr(place, lost)
    result = cli(*words)
    assert result.exit_code == 130, result.output
    assert "the same command goes on" in result.stderr


def test_other_commands_end(cli, monkeypatch, lost):
    monkeypatch.setattr("tasks.extraction.extract", lost)
    result = cli("extract", "mlp")
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 130), result.output  # typer's, by its version


def test_who_cleans_up_is_left_alone():
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.insistent():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            try:
                raise OSError
            except OSError:
                time.sleep(5 * interrupts.REPEAT_S)
            time.sleep(5 * interrupts.REPEAT_S)
            done.append(True)
    assert done


def test_a_second_ctrl_c_ends_what_cleans_up():
    with pytest.raises(KeyboardInterrupt), interrupts.insistent():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            go_on()


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_what_others_do_with_it_stays(handler):
    signal.signal(signal.SIGINT, handler)
    with interrupts.insistent():
        assert signal.getsignal(signal.SIGINT) is handler
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(3 * interrupts.REPEAT_S)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_have_no_handlers():
    found = []

    def run():
        with interrupts.insistent():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_prefect_has_python_s_own():
    with interrupts.insistent():
        ours = signal.getsignal(signal.SIGINT)
        with interrupts.usual():
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGINT) is ours
    with interrupts.usual():
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
