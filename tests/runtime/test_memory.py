"""What loading costs: a module's weights are in memory once."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tilework import compile as compile_network
from tilework.graph import Builder

MIB = 1 << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss in KiB")
def test_loading_takes_the_memory_of_the_weights(tmp_path):
    b = Builder("wide")
    w = b.constant(np.random.default_rng(0).standard_normal((4096, 6144), np.float32), "w")
    net = b.finish([b.op("dense", b.input("x", (1, 6144)), w)])
    path = tmp_path / "wide.tw"
    compile_network(net, "llvm -num-cores=1").save(path)
    weights = 4 * 4096 * 6144
    assert path.stat().st_size > weights
    script = f"""
        import resource
        import numpy, tilework, tilework.runtime, tilework.kinds.cpu.executor
        from tilework.kinds.cpu.jit import llvm

        def peak():
            return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        llvm()
        before = peak()
        module = tilework.load_module({str(path)!r})
        print(peak() - before, module.image.constants.nbytes)
    """
    run = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=600)
    grown, held = map(int, done.stdout.split())
    assert held >= weights
    assert grown < held + 24 * MIB  # before: more than twice the weights
