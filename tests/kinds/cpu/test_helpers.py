"""Where helpers run, and what is counted of them; regions are Python functions.

Everything runs in processes of their own, since a process has one budget of cores for good.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads of Linux")
several = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="more than one core",
)

BEGIN = """
    import ctypes, os, threading, time
    from tilework.kinds.cpu.jit import LinkedObjects
    from tilework.kinds.cpu.llvm.pool import pool_object
    from tilework.kinds.cpu.target import CpuTarget
    from tilework.kinds.cpu.team import counts, load_team

    I64 = ctypes.c_int64
    REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, I64, I64, I64)
    libc = ctypes.CDLL(None)
    cores = os.sched_getaffinity(0)

    def pool(address):
        parallel = ctypes.CFUNCTYPE(None, REGION, ctypes.c_void_p, I64, ctypes.c_int32)(address)

        def share(work, extent=32, threads=2):
            '''Who computed what; each iteration is somebody's.'''
            who = [[] for _ in range(extent)]

            def region(bases, start, stop, thread):
                for i in range(start, stop):
                    who[i].append(thread)
                work(thread)

            parallel(REGION(region), None, extent, threads)
            assert all(len(found) == 1 for found in who), who
            return {found[0] for found in who}

        return share

    share = pool(load_team()["tw_parallel"])

    def comm(task):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                return file.read()
        except OSError:  # it has just ended
            return ""

    def named(least):
        '''Threads of the runtime; they name themselves when they first run.'''
        found = []
        while len(found) < least:
            tasks = os.listdir("/proc/self/task")
            found = [int(t) for t in tasks if comm(t) == "tilework\\n"]
        return found

    def patient(thread):
        '''A caller who gives helpers time to come.'''
        time.sleep(0.001)
"""


def run(script, cores=2):
    """Lines that a script prints in a process that believes in so many cores."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(BEGIN) + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "TILEWORK_CORES": str(cores), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_what_is_counted():
    out = run("""
        print(sum(counts()))
        regions = 0
        while not counts().woken:  # it sleeps soon, if the machine lets it
            share(patient)
            time.sleep(0.02)
            regions += 1
        found = counts()
        print(found.shared == regions, found.taken_back <= regions, found.waited_ns >= 0)
        share(patient, threads=1)
        print(counts().shared == regions)
    """)
    assert out[:3] == ["0", "True True True", "True"]


def test_a_mask_of_one_core():
    """Nobody goes anywhere: what helpers do not do their caller does."""
    out = run("""
        core = min(cores)
        os.sched_setaffinity(0, {core})
        for _ in range(20):
            share(lambda thread: None)
            time.sleep(0.002)
        print(counts().shared, counts().moved)
        print(all(os.sched_getaffinity(t) == {core} for t in named(1)))
    """)
    assert out[:2] == ["20 0", "True"]


@several
def test_a_helper_on_its_callers_core_goes_elsewhere():
    out = run("""
        share(patient)
        (helper,) = named(1)
        before = counts().moved
        for _ in range(1000):
            os.sched_setaffinity(helper, {libc.sched_getcpu()})
            share(lambda thread: None)
            if counts().moved > before:
                break
        print(counts().moved - before)
        mask = os.sched_getaffinity(helper)
        print(mask < cores, len(cores) - len(mask))
    """)
    assert out[:2] == ["1", "True 1"]


@several
def test_a_mask_that_changes_counts_from_now_on():
    """First all threads lose the other cores, then they get them back."""
    out = run("""
        def everybody(mask):
            for task in os.listdir("/proc/self/task"):
                os.sched_setaffinity(int(task), mask)

        def often():
            for _ in range(20):
                share(lambda thread: None)
                time.sleep(0.002)

        often()
        core, moved = min(cores), counts().moved
        everybody({core})
        often()
        print(counts().moved - moved, all(os.sched_getaffinity(t) == {core} for t in named(1)))
        everybody(cores)
        often()
        for helper in named(1):
            print(len(cores) - len(os.sched_getaffinity(helper)) <= 1)
    """)
    assert out[:2] == ["0 True", "True"]


@several
def test_a_helpers_own_mask_does_not_outlive_a_change():
    """Some time after it has set one, a helper asks again what its caller may use."""
    out = run("""
        share(patient)
        (helper,) = named(1)
        while not counts().moved:
            os.sched_setaffinity(helper, {libc.sched_getcpu()})
            share(lambda thread: None)
        os.sched_setaffinity(helper, {max(cores)})  # as if the others had not been there then
        time.sleep(1.1)
        while len(cores) - len(os.sched_getaffinity(helper)) != 1:
            share(patient)
        print(os.sched_getaffinity(helper) < cores)
    """)
    assert out[0] == "True"


@several
def test_a_helper_that_makes_no_headway_gets_its_callers_core():
    """It sleeps, which looks the same: it has no CPU time. What it does counts all the same."""
    out = run("""
        def work(thread):
            time.sleep(0.05 if thread else 0.001)

        while not counts().lent:  # the first time may be over before it comes
            share(work, extent=16)
        print(counts().waited >= 1, counts().waited_ns > 1e6)
        (helper,) = named(1)
        print(len(cores) - len(os.sched_getaffinity(helper)))  # and leaves it when it is done
        while share(patient) != {0, 1}:
            pass
    """)
    assert out[:2] == ["True True", "1"]


def test_a_child_counts_from_zero():
    out = run("""
        share(patient)
        here, there = os.pipe()
        if not os.fork():
            before = sum(counts())
            share(patient)
            os.write(there, f"{before} {counts().shared} {len(named(1))}".encode())
            os._exit(0)
        os.wait()
        print(os.read(here, 100).decode())
        print(counts().shared)
    """)
    assert out[:2] == ["0 1 1", "1"]


def test_several_pools_at_once():
    """As several libraries have them; each has its helpers and counts for itself."""
    out = run("""
        codes = [LinkedObjects(pool_object(CpuTarget("llvm -num-cores=1"))) for _ in range(2)]
        shares = [pool(code.address("tw_parallel")) for code in codes]

        def often(one):
            for _ in range(50):
                one(lambda thread: None)

        callers = [threading.Thread(target=often, args=(one,)) for one in [*shares, share]]
        for caller in callers: caller.start()
        for caller in callers: caller.join()
        print(len(named(3)), counts().shared)
    """)
    assert out[0] == "3 50"
