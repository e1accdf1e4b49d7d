"""What is asked of LLVM."""

from __future__ import annotations

import mmap
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite.binding
import pytest

from tilework import compile as compile_network
from tilework import deferred, zoo
from tilework.kinds.cpu import build
from tilework.kinds.cpu.llvm.assembler import emit_object
from tilework.kinds.cpu.passes import SWITCHES
from tilework.kinds.cpu.target import CpuTarget


@pytest.mark.parametrize("switch", SWITCHES)
def test_llvm_has_the_switches(switch: str) -> None:
    # one that it does not know is passed over without a word
    folder = Path(llvmlite.binding.__file__).parent
    (library,) = folder.glob("libllvmlite.*")
    name = b"\0" + switch[1:].encode() + b"\0"
    with library.open("rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
        assert data.find(name) >= 0


def test_code_does_not_depend_on_what_was_made_before() -> None:
    wide, narrow = CpuTarget("llvm -mcpu=skylake-avx512"), CpuTarget("llvm -mcpu=core-avx2")
    first = [emit_object(_LOOP, target) for target in (wide, narrow)]
    again = [emit_object(_LOOP, target) for target in (narrow, wide)]
    assert again == first[::-1]
    assert emit_object(_LOOP, wide) == first[0]


def _emitted_by(threads: int, jobs: list[tuple[str, CpuTarget]]) -> list[bytes]:
    """Objects of the jobs, which as many threads take in turns."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda job: emit_object(*job), jobs))


def test_threads_make_the_same_objects_in_any_order() -> None:
    targets = [CpuTarget(f"llvm -mcpu={cpu}") for cpu in ("skylake-avx512", "core-avx2")]
    arm = CpuTarget("llvm -mtriple=aarch64-linux-gnu")
    texts = [_LOOP.replace("@f(", f"@f{i}(").replace("[5 x", f"[{i + 2} x") for i in range(12)]
    jobs = [(text, target) for text in texts for target in (*targets, arm)]
    right = [emit_object(*job) for job in jobs]
    assert len(set(right)) == len(jobs)
    order = random.Random(0).sample(range(len(jobs)), len(jobs))
    assert _emitted_by(4, jobs) == right
    assert _emitted_by(3, [jobs[i] for i in order]) == [right[i] for i in order]


def test_what_llvm_says_reaches_the_caller() -> None:
    target = CpuTarget("llvm -mcpu=core-avx2")
    jobs = [(text, target) for text in (_LOOP, "define nonsense", _LOOP)]
    with ThreadPoolExecutor(3) as pool:
        first, wrong, last = (pool.submit(emit_object, *job) for job in jobs)
        assert first.result() == last.result()
        with pytest.raises(RuntimeError, match=r"parsing error(.|\n)*define nonsense"):
            wrong.result()


def test_a_compiled_network_is_the_same_with_helpers_and_without(monkeypatch) -> None:
    codes = []
    for cores in (1, 3):
        monkeypatch.setattr(deferred, "available_cores", lambda cores=cores: cores)
        build._OBJECTS.clear()
        codes.append(compile_network(zoo.get("mlp", batch=2), "llvm -num-cores=1").image.code)
    assert codes[0] == codes[1]


def test_an_error_of_a_kernel_reaches_who_compiles(monkeypatch) -> None:
    def fail(text: str, target: CpuTarget, *, calls_only: bool = False) -> bytes:
        raise RuntimeError("LLVM does not want it")

    build._OBJECTS.clear()
    monkeypatch.setattr(deferred, "available_cores", lambda: 3)
    monkeypatch.setattr(build, "emit_object", fail)
    with pytest.raises(RuntimeError, match="does not want it"):
        compile_network(zoo.get("mlp", batch=2), "llvm -num-cores=1")
    monkeypatch.undo()
    compile_network(zoo.get("mlp", batch=2), "llvm -num-cores=1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_child_forked_beside_threads_that_emit() -> None:
    target, over = CpuTarget("llvm -mcpu=core-avx2"), threading.Event()
    right = emit_object(_LOOP, target)

    def emit() -> None:
        while not over.is_set():
            emit_object(_LOOP, target)

    threads = [threading.Thread(target=emit) for _ in range(2)]
    for one in threads:
        one.start()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0 if emit_object(_LOOP, target) == right else 1)
        assert os.waitpid(child, 0)[1] == 0
    over.set()
    for one in threads:
        one.join()


def test_ctrl_c_ends_a_process_that_compiles() -> None:
    script = """
        import os, signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell ignore it
        from tilework import compile, deferred, zoo
        from tilework.kinds.cpu import build
        deferred.available_cores = lambda: 3
        emit = build.emit_object
        sent = []
        def emitted(*args, **given):
            if not sent:
                sent.append(0)
                os.kill(os.getpid(), signal.SIGINT)
            return emit(*args, **given)
        build.emit_object = emitted
        try:
            compile(zoo.get("mlp", batch=2), "llvm -num-cores=1")
        finally:
            print(threading.active_count())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGINT and done.stdout == "1\n", done.stderr
    assert "KeyboardInterrupt" in done.stderr


_LOOP = """
define void @f(ptr %x, ptr %y, i64 %n) {
entry:
  br label %l
l:
  %i = phi i64 [0, %entry], [%j, %l]
  %a = getelementptr [5 x float], ptr %x, i64 %i
  %v = load float, ptr %a
  %b = getelementptr [3 x float], ptr %y, i64 %i
  store float %v, ptr %b
  %j = add i64 %i, 1
  %c = icmp slt i64 %j, %n
  br i1 %c, label %l, label %e
e:
  ret void
}
"""
