"""Forms are kept after the first answer: beside runs, at the end, and under whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilework.session import ModuleCache, Session, later
from tilework.session.entry import write_entry

TARGET = "llvm -mcpu=native -num-cores=1"
X = {"x": np.ones((2, 3), np.float32)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWORK_NO_PACKAGES", "1")
    yield tmp_path / "cache"
    later.finish()


def dense(scale: float = 1.0) -> onnx.ModelProto:
    """The rows of x times a matrix of ones, scaled."""
    info = helper.make_tensor_value_info
    w = np.full((3, 4), scale, np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "dense",
        [info("x", TensorProto.FLOAT, [2, 3])], [info("y", TensorProto.FLOAT, [2, 4])],
        [onnx.numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def entries(folder):
    return sorted(folder.glob("*.entry"))


class Gate:
    """Entries are begun, and then not written before it opens."""

    def __init__(self, monkeypatch):
        self.reached, self.opened = threading.Event(), threading.Event()
        monkeypatch.setattr("tilework.session.cache.write_entry", self.write)

    def write(self, out, key, image):
        out.write(b"half")
        out.flush()
        self.reached.set()
        assert self.opened.wait(60)
        out.seek(0)
        write_entry(out, key, image)


@pytest.fixture
def gate(monkeypatch):
    made = Gate(monkeypatch)
    yield made
    made.opened.set()


def test_an_answer_does_not_wait_for_what_is_kept(folder, gate):
    session = Session(dense(), target=TARGET)
    assert not gate.reached.is_set()  # it begins when an answer is there
    (y,) = session.run(None, X)
    assert np.allclose(y, 3)
    assert gate.reached.wait(10) and not entries(folder)
    gate.opened.set()
    later.finish()
    assert len(entries(folder)) == 1 and not list(folder.glob(".*.part"))


def test_without_an_answer_it_is_kept_soon(folder):
    Session(dense(), target=TARGET)
    until = time.monotonic() + 10
    while not entries(folder) and time.monotonic() < until:
        time.sleep(0.02)
    assert len(entries(folder)) == 1


def test_what_is_kept_is_what_was_compiled_whatever_runs_meanwhile(folder, gate):
    session = Session(dense(), target="llvm -mcpu=native -num-cores=2")
    constants = session.module.image.constants.copy()
    session.run(None, X)
    assert gate.reached.wait(10)
    for scale in range(50):
        session.run(None, {"x": np.full((2, 3), scale, np.float32)})
    session.module.set_threads(1)
    gate.opened.set()
    later.finish()
    (path,) = entries(folder)
    kept = ModuleCache(folder).get(path.stem)
    assert kept.num_threads == 2
    assert np.array_equal(kept.image.constants, constants)
    assert np.allclose(kept.run(X)[0], 3)


def test_one_form_at_a_time_waits_to_be_kept(folder, gate):
    Session(dense(), target=TARGET).run(None, X)
    assert gate.reached.wait(10)
    made = []
    thread = threading.Thread(target=lambda: made.append(Session(dense(2.0), target=TARGET)))
    thread.start()
    time.sleep(0.3)
    assert not made and len(later._writing) == 1
    gate.opened.set()
    thread.join()
    assert len(entries(folder)) == 1 and made[0].run(None, X)
    later.finish()
    assert len(entries(folder)) == 2


def test_a_full_disk_is_told_once_and_runs_go_on(folder, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tilework.session.cache.write_entry", full)
    session = Session(dense(), target=TARGET)
    session.run(None, X)
    later.finish()
    assert np.allclose(session.run(None, X)[0], 3)
    assert [r.getMessage() for r in caplog.records if "could not be kept" in r.getMessage()] == [
        f"compiled forms could not be kept in {folder}: [Errno 28] No space left on device"
    ]
    assert not entries(folder) and not list(folder.glob(".*.part"))


def test_where_no_thread_can_be_started_it_is_kept_at_once(folder, monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(later, "_PATIENCE_S", 60.0)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        session = Session(dense(), target=TARGET)
    assert len(entries(folder)) == 1 and np.allclose(session.run(None, X)[0], 3)


def run(path, more, slowly=False, **options):
    """A process that opens a session of a model, and what it does with it then.

    Args:
        slowly: half of the form is written a second before the rest.
    """
    code = f"""
        import os, signal, time
        import numpy as np
        from tilework.session import Session, cache, later
        from tilework.session.entry import write_entry

        signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell ignore it
        later._PATIENCE_S = 60.0
        x = {{"x": np.ones((2, 3), np.float32)}}

        def slowly(out, key, image):
            out.write(b"half")
            out.flush()
            os.write(1, b"half\\n")
            time.sleep(1)
            out.seek(0)
            write_entry(out, key, image)

        cache.write_entry = slowly if {slowly} else write_entry
        session = Session({str(path)!r}, target={TARGET!r})
        """
    text = textwrap.dedent(code) + textwrap.dedent(more)
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        **options,
    )  # fmt: skip


@pytest.fixture
def path(tmp_path):
    onnx.save(dense(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("more", ["", "session.run(None, x)"])
@pytest.mark.parametrize("slowly", [False, True])
def test_a_process_that_ends_waits(folder, path, more, slowly):
    _, err = run(path, more, slowly).communicate(timeout=60)
    assert not err
    assert len(entries(folder)) == 1 and not list(folder.glob(".*.part"))
    assert ModuleCache(folder).get(entries(folder)[0].stem) is not None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_stopped_leaves_nothing_that_is_read(folder, path, how):
    """An interrupted one ends by its error, and waits as any other."""
    process = run(path, "session.run(None, x)\nwhile True: time.sleep(0.01)", slowly=True)
    assert process.stdout.readline() == "half\n"
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert err.count("KeyboardInterrupt") == 1 and err.strip().endswith("KeyboardInterrupt")
        assert len(entries(folder)) == 1
    else:
        assert process.returncode == -how and not entries(folder)
    assert np.allclose(Session(path, target=TARGET).run(None, X)[0], 3)
    later.finish()
    assert len(entries(folder)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_has_no_part_in_it(folder, path):
    """It ends at once, and holds no lock when its parent has ended."""
    fork = """
        session.run(None, x)
        while not later._writing:
            time.sleep(0.01)
        if not os.fork():
            later.finish()
            assert np.allclose(session.run(None, x)[0], 3)
            os.write(1, b"child\\n")
            os.close(1), os.close(2)
            time.sleep(60)
            os._exit(0)
        """
    process = run(path, fork, slowly=True, start_new_session=True)
    try:
        lines = process.stdout.read().splitlines()
        assert sorted(lines) == ["child", "half"]
        assert process.wait(60) == 0 and not process.stderr.read()
        assert len(entries(folder)) == 1
        for name in "0123456789abcdef":
            with ModuleCache(folder).making(name * 64) as waited:
                assert not waited
    finally:
        os.killpg(process.pid, signal.SIGKILL)
