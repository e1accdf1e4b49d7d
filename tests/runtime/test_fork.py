"""Forked children: their parent's threads are gone; they make their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

BEGIN = """
    import os, threading
    import numpy as np
    import tilework as tw

    def child(work):
        '''What ``work`` returns in a forked child.'''
        here, there = os.pipe()
        pid = os.fork()
        if pid == 0:
            result = "raised"
            try:
                result = str(work())
            finally:
                os.write(there, result.encode())
                os._exit(0)
        os.waitpid(pid, 0)
        return os.read(here, 10000).decode()

    def tasks():
        return len(os.listdir("/proc/self/task"))

    def helpers():
        '''Threads that this process has for kernels, beside those that call.'''
        return tasks() - (others if os.getpid() == parent else 1)

    module = tw.compile(tw.zoo.get("mlp", batch=2), "llvm -num-cores=2")
    x = np.random.default_rng(0).standard_normal(module.inputs["data"].shape).astype("float32")
    bound = module.bind()
    bound.inputs["data"][...] = x
    parent, others = os.getpid(), tasks()
"""


def run(script):
    """The output of a script in a process of its own that may use two cores; it must end."""
    text = textwrap.dedent(BEGIN) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "TILEWORK_CORES": "2", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_a_child_makes_threads_of_its_own():
    out = run("""
        right = module.run(x)[0]
        print(helpers())

        def work(run):
            before, same = helpers(), all(np.array_equal(run()[0], right) for _ in range(100))
            return before, same, helpers()

        for one in (lambda: module.run(x), bound):
            print(child(lambda: work(one)))
        print(child(lambda: len(module.profile(repeat=2))))
        print(np.array_equal(module.run(x)[0], right), helpers())
    """)
    assert out[:5] == ["1", "(0, True, 1)", "(0, True, 1)", "4", "True 1"]


def test_a_child_of_a_parent_that_ran_nothing():
    out = run("""
        print(helpers(), child(lambda: (module.run(x)[0].shape, helpers())))
        print(helpers(), child(lambda: (bound()[0].shape, helpers())))
    """)
    assert out[:2] == ["0 ((2, 10), 1)"] * 2


def test_grandchildren():
    out = run("""
        right = module.run(x)[0]
        print(child(lambda: (bound(), child(lambda: (np.array_equal(bound()[0], right))))[1]))
    """)
    assert out[0] == "True"


def test_measured_kernels_have_their_helpers():
    out = run("""
        from tilework.kinds.cpu.kernel_call import load_kernel
        from tilework.runtime.arrays import aligned_empty

        task = tw.extract_tasks(tw.zoo.get("mlp", batch=2), "llvm -num-cores=2")[0][0]
        kernel = tw.compile_task(task).kernel
        arrays = [aligned_empty(a.shape, a.dtype) for a in kernel.args]
        space = aligned_empty((kernel.workspace_bytes(2),), "uint8")
        loaded = load_kernel(kernel)
        loaded(arrays, space, 2)
        print(child(lambda: (loaded(arrays, space, 2), helpers())[1]))
    """)
    assert out[0] in ("0", "1")  # as the schedule has parallel loops


def test_a_run_of_another_thread_leaves_no_lock_behind():
    out = run("""
        stop = threading.Event()

        def work():
            while not stop.is_set():
                bound()

        other = module.bind(threads=1)
        worker = threading.Thread(target=work)
        worker.start()
        print(*{child(lambda: (bound(), module.run(x), other()) and "done") for _ in range(20)})
        stop.set()
        worker.join()
    """)
    assert out[0] == "done"


def test_a_parent_that_was_calibrated():
    out = run("""
        from tilework.kinds.cpu.calibrate import throughput

        throughput._REPEATS = 1
        code = throughput._Code(tw.Target("llvm -num-cores=2"))
        throughput._fork_seconds(code, 2)
        print(child(lambda: (throughput._fork_seconds(code, 2) > 0, helpers())))
    """)
    assert out[0] == "(True, 1)"
