"""The runtime of threads: results, budget, concurrency, and what comes and goes.

Everything runs in processes of their own, since a process has one budget of cores for good. What
they run is compiled once, here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tilework as tw
from tilework.graph import Builder
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.kinds.cpu.llvm.pool import SYMBOLS, plainest_target, pool_object, pool_text

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads of Linux")

BEGIN = """
    import gc, os, sys, threading
    import numpy as np
    import tilework as tw

    def helpers(others=1):
        return len(os.listdir("/proc/self/task")) - others

    def made(threads, batch=64):
        return tw.load_module(f"{sys.argv[1]}/{threads}-{batch}.tw")

    def given(module):
        value = module.inputs["data"]
        return np.random.default_rng(0).standard_normal(value.shape).astype("float32")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Modules of the MLP by threads and batch, and one of a single product."""
    found = tmp_path_factory.mktemp("modules")
    for threads, batch in ((2, 64), (4, 64), (4, 32), (4, 8), (8, 64)):
        net = tw.zoo.get("mlp", batch=batch)
        tw.compile(net, f"llvm -num-cores={threads}").save(found / f"{threads}-{batch}.tw")
    b = Builder("dense")
    w = b.constant(np.ones((256, 128), np.float32), "w")
    net = b.finish([b.op("dense", b.input("data", (64, 128)), w)])
    tw.compile(net, "llvm -num-cores=2").save(found / "dense.tw")
    return found


def run(script, folder, cores=4, beside=0):
    """Lines that a script prints in a process that may use so many cores."""
    text = textwrap.dedent(BEGIN) + textwrap.dedent(script)
    variables = {**os.environ, "TILEWORK_CORES": str(cores), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", text, str(folder)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
        for _ in range(1 + beside)
    ]
    outs = [process.communicate(timeout=600)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started)
    assert len(set(outs)) == 1
    return outs[0].split("\n")


@linux
@pytest.mark.parametrize("cores", [1, 7])
def test_any_number_of_threads_computes_the_same_bits(cores, folder):
    out = run(
        """
        module = made(8)
        x = given(module)
        module.set_threads(1)
        right = module.run(x)[0]
        for threads in (2, 3, 8):
            module = made(8)  # its first run is shared out, however slow that is on a busy machine
            module.set_threads(threads)
            print(all(np.array_equal(module.run(x)[0], right) for _ in range(50)))
        print(helpers())
        """,
        folder,
        cores,
    )
    assert out[:4] == ["True"] * 3 + [str(cores - 1)]  # never more than there are cores


@linux
def test_runs_at_once_share_the_cores(folder):
    """Six callers on four cores: nobody waits for ever, and there are never more helpers."""
    out = run(
        """
        modules = [made(4), made(4, batch=32), made(4, batch=8)]
        expected = [m.run(given(m))[0] for m in modules]
        found = []

        def work(k):
            m, right = modules[k % 3], expected[k % 3]
            call = m.bind()
            call.inputs["data"][...] = given(m)
            found.append(all(np.array_equal(call()[0], right) for _ in range(100)))

        callers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for c in callers: c.start()
        for c in callers: c.join()
        comm = [open(f"/proc/self/task/{t}/comm").read() for t in os.listdir("/proc/self/task")]
        print(found, comm.count("tilework\\n"))
        """,
        folder,
    )
    assert out[0] == f"{[True] * 6} 3"


@linux
def test_ten_processes_at_once(folder):
    out = run(
        """
        module = made(2)
        x, right = given(module), None
        for _ in range(100):
            found = module.run(x)[0]
            assert right is None or np.array_equal(found, right)
            right = found
        print(right.shape)
        """,
        folder,
        cores=2,
        beside=9,
    )
    assert out[0] == "(64, 10)"


@linux
def test_loads_and_unloads_leave_nothing(folder):
    """Hundreds of them: code, constants (128 KiB), contexts and threads."""
    out = run(
        """
        x = np.ones((64, 128), np.float32)

        def resident():
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

        def maps():
            with open("/proc/self/maps") as file:
                return len(file.readlines())

        def load():
            module = tw.load_module(f"{sys.argv[1]}/dense.tw")
            module.run(x)
            module.bind()()

        for _ in range(50):
            load()
        gc.collect()
        before, held = resident(), maps()
        for _ in range(300):
            load()
        print(resident() - before < 4, maps() - held < 20, helpers() <= 1)
        """,
        folder,
    )
    assert out[0] == "True True True"


@linux
def test_a_stopped_pool_starts_again(folder):
    out = run(
        """
        from ctypes import CFUNCTYPE
        from tilework.kinds.cpu.team import load_team

        module = made(4)
        x = given(module)
        right = module.run(x)[0]
        stop = CFUNCTYPE(None)(load_team()["tw_pool_stop"])
        stop(), stop()
        print(helpers())
        print(np.array_equal(module.run(x)[0], right), helpers())
        """,
        folder,
    )
    assert out[:2] == ["0", "True 3"]


@pytest.mark.parametrize("platform", ["linux x86_64", "linux aarch64"])
def test_every_machine_of_a_platform_can_run_the_object(platform):
    target = plainest_target(platform)
    assert pool_object(target)[:4] == b"\x7fELF"
    text = emit_assembly(pool_text(platform), target)
    assert all(f"\n{symbol}:" in text for symbol in SYMBOLS)


def test_other_systems_run_regions_on_their_caller():
    assert "@pthread_create" not in pool_text("darwin aarch64")
    assert all(f"@{symbol}(" in pool_text("win32 x86_64") for symbol in SYMBOLS)
