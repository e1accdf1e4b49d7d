"""What loading costs: a module's weights are in memory once."""

from __future__ import annotations

import mmap
import subprocess
import sys
import textwrap

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tilework import compile as compile_network
from tilework.graph import Builder
from tilework.runtime.content import let_go, mapped

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


_A_SESSION = """
    import tilework as tw

    def resident(what):
        with open("/proc/self/status") as lines:
            return next(1024 * int(x.split()[1]) for x in lines if x.startswith(what))

    def session(path):
        return tw.Session(path, target="llvm -num-cores=1")

    session({small!r})
    before = resident("VmRSS")
    kept = session({large!r})
    print(resident("VmHWM") - before)
"""


MAPS = pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="files are read there")


@MAPS
@pytest.mark.parametrize("bits", [4, 32])
def test_a_session_compiles_in_the_memory_of_the_weights(bits, tmp_path, monkeypatch):
    """A large file is mapped, and goes as it is packed, as does what is computed of it."""
    monkeypatch.setenv("TILEWORK_CACHE", "off")
    rng, paths = np.random.default_rng(0), []
    for n in (64, 3072 if bits == 4 else 1536):
        nodes, tensors, x = [], [], "x"
        for i in range(16):
            if bits == 4:
                q = rng.integers(0, 256, (n, n // 32, 16), np.uint8)
                s = rng.random((n, n // 32), np.float32)
                given = {"K": n, "N": n, "bits": 4, "block_size": 32, "accuracy_level": 4}
                op, domain = "MatMulNBits", "com.microsoft"
            else:
                q, s, given = rng.random((n, n), np.float32), None, {}
                op, domain = "MatMul", ""
            own = [(f"q{i}", q), *([(f"s{i}", s)] if s is not None else [])]
            tensors += [numpy_helper.from_array(a, name) for name, a in own]
            names = [x, *(name for name, _ in own)]
            nodes.append(helper.make_node(op, names, [f"y{i}"], domain=domain, **given))
            x = f"y{i}"
        ends = (helper.make_tensor_value_info(v, 1, [1, n]) for v in ("x", x))
        graph = helper.make_graph(nodes, "g", *([end] for end in ends), tensors)
        sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        paths.append(tmp_path / f"{n}.onnx")
        onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=10), paths[-1])
    small, large = map(str, paths)
    script = textwrap.dedent(_A_SESSION.format(small=small, large=large))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600
    )
    assert int(done.stdout) < (1.5 if bits == 4 else 1.3) * paths[-1].stat().st_size


@MAPS
def test_bytes_of_a_mapped_file_are_there_after_they_were_let_go(tmp_path):
    path = tmp_path / "bytes"
    content = np.arange(50_000, dtype=np.uint16)
    path.write_bytes(b"abc" + content.tobytes())
    with open(path, "rb") as file:
        got = mapped(file, 3, content.nbytes)
    assert got is not None
    part = got.view(np.uint16)[7:40_000:3]
    for _ in range(2):
        np.testing.assert_array_equal(part, content[7:40_000:3])
        let_go(part)
    let_go(np.zeros(3))
