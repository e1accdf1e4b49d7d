"""Kernels and choices on disk: found again where they belong, and nowhere else."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import tilework as tw
from tilework import kept
from tilework.compiler.kernels import Kernels, kernel_files
from tilework.deferred import Helpers
from tilework.errors import TileworkError
from tilework.graph import Builder, plan
from tilework.kinds.cpu.build import BUILDER
from tilework.model.drafted import draft_schedule, forget_choices
from tilework.record import MemoryHistory
from tilework.space import SearchSpace
from tilework.task import SearchTask

TARGET = "llvm -mcpu=native -num-cores=1"


def branches(width=16):
    """Convolutions, one fit for Winograd, that write into a concatenation; one that reads it."""
    rng = np.random.default_rng(0)
    b = Builder("branches")

    def conv2d(x, taps, inputs, outputs):
        weight = rng.standard_normal((taps, taps, inputs, outputs)) / (taps * inputs**0.5)
        pads = (taps // 2,) * 4
        return b.op(
            "conv2d", x, b.constant(weight.astype("float32")), layout="NHWC", strides=(1, 1),
            pads=pads, dilation=(1, 1),
        )  # fmt: skip

    x = b.input("x", (1, 14, 14, width))
    y = b.op("relu", conv2d(x, 3, width, width))
    joined = b.op("concat", y, conv2d(x, 1, width, width), axis=3)
    return b.finish([conv2d(joined, 1, 2 * width, 8)])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def no_builder(monkeypatch):
    """From here on nothing can be built or drafted."""

    def refuse(*_args, **_kwargs):
        raise AssertionError("it was kept")

    def now():
        forget_choices()
        monkeypatch.setattr(type(BUILDER), "build", refuse)
        monkeypatch.setattr("tilework.model.drafted.best_drafted", refuse)

    return now


def files_of(folder, ending):
    return sorted((folder / "kernels").glob(f"*{ending}"))


def task_of(target=TARGET):
    (call,) = plan(tw.zoo.get("mlp", batch=2)).calls[:1]
    return SearchTask(call.dag, tw.Target(target), call.desc)


def test_the_next_compile_finds_all_kernels_and_choices(folder, no_builder):
    first = tw.compile(branches(), TARGET, cache=folder)
    no_builder()
    second = tw.compile(branches(), TARGET, cache=folder)
    assert second.image.code == first.image.code
    assert second.summary() == first.summary()
    assert np.array_equal(second.image.constants, first.image.constants)
    x = np.random.default_rng(1).standard_normal((1, 14, 14, 16)).astype("float32")
    assert np.array_equal(first.run(x)[0], second.run(x)[0])


def test_they_serve_another_network_with_some_of_the_same_layers(folder, monkeypatch):
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET, cache=folder)
    built = []
    build = BUILDER.build
    monkeypatch.setattr(
        type(BUILDER), "build", lambda _, *a, **k: built.append(a[0].desc) or build(*a, **k)
    )
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET, cache=folder)
    assert not built
    tw.compile(tw.zoo.get("mlp", batch=3), TARGET, cache=folder)
    assert built


def test_without_a_cache_nothing_is_kept(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TILEWORK_CACHE", raising=False)
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET, cache=False)
    monkeypatch.setenv("TILEWORK_CACHE", "off")
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET)
    kept = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert kept <= {"device.json"}, "which machine this is, if no test before has asked"
    monkeypatch.delenv("TILEWORK_CACHE")
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET)
    assert list((tmp_path / "tilework" / "kernels").glob("*.kernel"))


def test_any_damage_is_a_miss(folder):
    task = task_of()
    choice = draft_schedule(task)
    files = kernel_files(folder)
    with Helpers() as helpers:
        made = Kernels(task.target, files)
        kernel = made.kernel(task, choice, None, helpers)
        made.keep()
    (path,) = files_of(folder, ".kernel")
    whole, rng = path.read_bytes(), random.Random(0)

    def found():
        return Kernels(task.target, files)._find(task, choice, None)[1]

    again = found()
    assert again.objects == kernel.objects and again.args == kernel.args
    assert again.overwritable == kernel.overwritable
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        assert found() is None
    for length in (0, 1, 64, 65, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert found() is None
    path.unlink()
    path.mkdir()
    assert found() is None


def test_an_entry_serves_what_it_was_made_for_alone(folder):
    task, files = task_of(), kernel_files(folder)
    choice = draft_schedule(task)
    with Helpers() as helpers:
        made = Kernels(task.target, files)
        made.kernel(task, choice, None, helpers)
        made.keep()

    def found(task=task, choice=choice, strides=None):
        return Kernels(task.target, files)._find(task, choice, strides)[1]

    assert found() is not None
    assert found(strides={2: (64, 1)}) is None
    assert found(choice=choice._replace(sketch_id=choice.sketch_id + 1)) is None
    assert found(task_of("llvm -mcpu=native -num-cores=2")) is None
    assert found(task_of("llvm -mcpu=x86-64-v3 -num-cores=1")) is None
    (path,) = files_of(folder, ".kernel")
    other = Kernels(task.target, files)._find(task, choice, {2: (64, 1)})[0]
    path.rename(path.with_name(f"{other}.kernel"))
    assert found(strides={2: (64, 1)}) is None


def test_another_compiler_or_engine_makes_another_key(folder, monkeypatch):
    task, files = task_of(), kernel_files(folder)
    choice = draft_schedule(task)

    def key():
        return Kernels(task.target, files)._find(task, choice, None)[0]

    keys = {key()}
    with monkeypatch.context() as m:
        m.setattr("tilework.kinds.cpu.build.LEFT_OUT", {})
        keys.add(key())
    monkeypatch.setattr("tilework.compiler.kernels.code_version", lambda: "another")
    assert len(keys | {key()}) == 3


def test_a_choice_follows_from_what_is_known_of_the_machine(folder, monkeypatch):
    task, files = task_of(), kernel_files(folder)
    choice, asked = draft_schedule(task), []

    def chosen():
        return one.choice("draft", task, [False], lambda: asked.append(1) or choice)

    one = Kernels(task.target, files)
    assert chosen() == choice
    one.keep()
    assert chosen() == choice and len(asked) == 1
    from tilework.kinds.cpu.draft import CpuDraft

    machine = CpuDraft.machine
    slower = lambda *a: {**machine(*a), "clock_hz": 1e9}  # noqa: E731
    with monkeypatch.context() as m:
        m.setattr(CpuDraft, "machine", slower)
        assert chosen() == choice and len(asked) == 2
    (path,) = files_of(folder, ".note")
    for told in ("[]", "null", '{"choice": 3}', '{"choice": ["x", [], "untuned", null]}'):
        path.write_bytes(kept.with_digest(told.encode(), path.stem))
        asked.clear()
        assert chosen() == choice and asked == [1]


class Known(MemoryHistory):
    """A history that says what it is, and counts questions."""

    asked = 0

    def __init__(self, text):
        super().__init__([])
        self.text = text

    def state(self):
        return self.text

    def best(self, *args):
        Known.asked += 1
        return super().best(*args)


def test_what_records_decide_is_kept_as_long_as_they_say_the_same(folder):
    net = tw.zoo.get("mlp", batch=2)
    first = tw.compile(net, TARGET, records=Known("a"), cache=folder)
    asked = Known.asked
    assert asked
    again = tw.compile(net, TARGET, records=Known("a"), cache=folder)
    assert Known.asked == asked and again.summary() == first.summary()
    tw.compile(net, TARGET, records=Known("b"), cache=folder)
    assert Known.asked > asked
    for _ in range(2):  # nobody can tell
        asked = Known.asked
        tw.compile(net, TARGET, records=Known(None), cache=folder)
        assert Known.asked > asked


def test_what_weights_become_is_known_of_a_kept_kernel(folder):
    for call in plan(branches()).calls:
        task = SearchTask(call.dag, tw.Target(TARGET), call.desc)
        kernels = Kernels(task.target, kernel_files(folder))
        for sketch in SearchSpace.of(task).sketches:
            rows = sketch.sample(np.random.default_rng(0), 1)
            choice = draft_schedule(task)._replace(
                sketch_id=sketch.id, row=tuple(rows[0].tolist())
            )
            with Helpers() as helpers:
                kernels.kernel(task, choice, None, helpers)
            kernels.keep()
            again = Kernels(task.target, kernel_files(folder))
            assert again._find(task, choice, None)[1] is not None
            assert again.transforms(task, choice) == sketch.transforms


def test_a_full_disk_is_told_once_and_the_compile_goes_on(folder, monkeypatch, caplog):
    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    module = tw.compile(tw.zoo.get("mlp", batch=2), TARGET, cache=folder)
    assert module.run(np.zeros(module.inputs["data"].shape, "float32"))
    assert caplog.text.count("kernels could not be kept") == 1
    assert not list((folder / "kernels").iterdir())


def test_a_folder_that_others_may_write_is_not_used(folder, caplog, no_builder):
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET, cache=folder)
    (folder / "kernels").chmod(0o770)
    forget_choices()
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET, cache=folder)
    assert caplog.text.count("others may write there") == 1
    no_builder()
    with pytest.raises(AssertionError):
        tw.compile(tw.zoo.get("mlp", batch=2), TARGET, cache=folder)


def test_a_folder_of_all_users_is_read_where_its_owner_is_trusted(
    tmp_path, monkeypatch, no_builder
):
    shared = tmp_path / "shared"
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET, cache=shared)
    forget_choices()
    monkeypatch.setenv("TILEWORK_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("TILEWORK_CACHE_SHARED", str(shared))
    me = os.geteuid()
    monkeypatch.setattr("tilework.kept.os.geteuid", lambda: me + 1)  # another user reads
    if me:
        assert "another user" in kernel_files().refused(shared / "kernels")
    monkeypatch.setenv("TILEWORK_CACHE_OWNER", str(me))
    assert not kernel_files().refused(shared / "kernels")
    no_builder()
    tw.compile(tw.zoo.get("mlp", batch=2), TARGET)
    assert not (tmp_path / "own").exists()


def test_kernels_have_a_share_of_what_a_cache_may_hold(folder, monkeypatch):
    monkeypatch.setenv("TILEWORK_CACHE_BYTES", str(32 * 20_000))
    tw.compile(branches(), TARGET, cache=folder)
    old = {p.name for p in (folder / "kernels").iterdir()}
    time.sleep(0.01)
    tw.compile(branches(32), TARGET, cache=folder)
    now = list((folder / "kernels").iterdir())
    assert sum(p.stat().st_size for p in now) <= 20_000
    assert {p.name for p in now} - old
    monkeypatch.setenv("TILEWORK_CACHE_BYTES", "-1")
    with pytest.raises(TileworkError, match="TILEWORK_CACHE_BYTES must be a number"):
        kernel_files(folder)


def test_eight_processes_share_a_folder_while_they_are_killed(folder):
    code = f"""
        import tilework as tw
        from tilework.kept import KeptFiles
        from tilework.model.drafted import forget_choices

        net = tw.zoo.get("mlp", batch=2)
        tw.compile(net, {TARGET!r}, cache={str(folder)!r})
        print("ready", flush=True)
        while True:
            import os
            for path in os.scandir({str(folder / "kernels")!r}):
                try: os.unlink(path)
                except OSError: pass
            tw.compile(net, {TARGET!r}, cache={str(folder)!r})
        """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(7)]
    net = tw.zoo.get("mlp", batch=2)
    expected = tw.compile(net, TARGET, cache=False).image.code
    try:
        for one in others:
            one.stdout.readline()
        for i in range(14):
            assert tw.compile(net, TARGET, cache=folder).image.code == expected
            if i % 2:
                others[i // 2].kill()
    finally:
        for one in others:
            one.kill()
            one.wait()
