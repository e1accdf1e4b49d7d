"""Forked children: their parent's threads are gone, and no run may wait for them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

BEGIN = """
    import os, sys, threading, warnings
    import numpy as np
    import tilework as tw
    from tilework.errors import ModuleError

    def child(work):
        '''What ``work`` returns in a forked child.'''
        here, there = os.pipe()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            pid = os.fork()
            if pid == 0:
                result = "raised"
                try:
                    result = str(work())
                finally:
                    texts = [str(w.message) for w in told if w.category is RuntimeWarning]
                    os.write(there, "\\n".join([result, *texts]).encode())
                    os._exit(0)
        os.waitpid(pid, 0)
        return os.read(here, 10000).decode().split("\\n")

    module = tw.compile(tw.zoo.get("mlp", batch=2), "llvm -num-cores=2")
    x = np.random.default_rng(0).standard_normal(module.inputs["data"].shape).astype("float32")
    bound = module.bind()
    bound.inputs["data"][...] = x
"""


def run(script):
    """The output of a script in a process of its own; it must end by itself."""
    text = textwrap.dedent(BEGIN) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_runs_fall_back_to_one_thread_and_say_so():
    out = run("""
        right = module.run(x)[0]
        print(*child(lambda: np.array_equal(module.run(x)[0], right)), sep="|")
        print(*child(lambda: np.array_equal(bound()[0], right)), sep="|")
        print(*child(lambda: len(module.profile(repeat=2))), sep="|")
        print(np.array_equal(module.run(x)[0], right))
    """)
    told = "forked from one that had run kernels on several threads"
    assert out[0].startswith("True|") and told in out[0]
    assert out[1].startswith("True|") and told in out[1]
    assert out[2].startswith("4|")
    assert out[3] == "True"


def test_a_child_of_a_parent_that_ran_nothing_has_its_own_threads():
    out = run("""
        print(*child(lambda: module.run(x)[0].shape == module.outputs[0].shape), sep="|")
        print(*child(lambda: bound()[0].shape == module.outputs[0].shape), sep="|")
    """)
    assert out[:2] == ["True", "True"]


def test_tasks_fall_back_too():
    out = run("""
        task = tw.extract_tasks(tw.zoo.get("mlp", batch=2), "llvm -num-cores=2")[0][0]
        function = tw.compile_task(task)
        given = [np.ones(t.shape, np.float32) for t in task.compute_dag.inputs]
        right = function(*given)[0]
        print(*child(lambda: np.array_equal(function(*given)[0], right)), sep="|")
    """)
    assert out[0].startswith("True|") and "forked" in out[0]


def test_measured_kernels_are_refused():
    """A time of one thread under the name of two would be wrong."""
    out = run("""
        from tilework.kinds.cpu.kernel_call import load_kernel
        from tilework.runtime.arrays import aligned_empty

        task = tw.extract_tasks(tw.zoo.get("mlp", batch=2), "llvm -num-cores=2")[0][0]
        kernel = tw.compile_task(task).kernel
        arrays = [aligned_empty(a.shape, a.dtype) for a in kernel.args]
        space = aligned_empty((kernel.workspace_bytes(2),), "uint8")
        loaded = load_kernel(kernel)
        loaded(arrays, space, 2)

        def work():
            loaded(arrays, space, 1)
            try:
                loaded(arrays, space, 2)
            except ModuleError as e:
                return e

        print(*child(work))
    """)
    assert "forked from one that had run kernels on several threads" in out[0]


def test_a_run_of_another_thread_leaves_no_lock_behind():
    out = run("""
        stop = threading.Event()

        def work():
            while not stop.is_set():
                bound()

        other = module.bind(threads=1)
        worker = threading.Thread(target=work)
        worker.start()
        print(*{child(lambda: (bound(), module.run(x), other()) and "done")[0] for _ in range(20)})
        stop.set()
        worker.join()
    """)
    assert out[0] == "done"


def test_a_parent_that_was_calibrated_has_a_team_too():
    out = run("""
        from tilework.errors import ModuleError
        from tilework.kinds.cpu.calibrate import throughput

        throughput._REPEATS = 1
        code = throughput._Code(tw.Target("llvm -num-cores=2"))
        throughput._fork_seconds(code, 2)
        print(*child(lambda: module.run(x)[0].shape == module.outputs[0].shape), sep="|")

        def again():
            try:
                throughput._fork_seconds(code, 2)
            except ModuleError as e:
                return e

        print(*child(again))
    """)
    assert out[0].startswith("True|") and "forked" in out[0]
    assert "forked from one that had run kernels on several threads" in out[1]
