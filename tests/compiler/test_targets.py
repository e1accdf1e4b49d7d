"""Every target: its kernels compute what the expressions say; foreign code is only saved."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from tests.hosts import HOST_ARCH, on_x86, x86
from tilework import Target, extract_tasks, load_module
from tilework import compile as compile_network
from tilework.compiler import compile_task
from tilework.errors import ModuleError
from tilework.graph import Builder
from tilework.kinds.cpu.build import generate
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.model.draft import draft_of
from tilework.space import SearchSpace
from tilework.te import evaluate

X86 = ("x86-64", "x86-64-v2", "core-avx2", "skylake-avx512", "znver4")
NEON = "llvm -mcpu=generic -mtriple=aarch64-linux-gnu"
foreign = pytest.mark.skipif(HOST_ARCH == "aarch64", reason="NEON code runs here")


def network():
    """A convolution, pooling, global pooling, dense and softmax, with odd extents."""
    rng = np.random.default_rng(0)
    b = Builder("mixed")
    x = b.input("x", (1, 13, 11, 5))
    w = b.constant(rng.standard_normal((3, 3, 5, 24), np.float32) / 7, "w")
    bias = b.constant(rng.standard_normal((1, 1, 1, 24), np.float32), "bias")
    window = {"pads": (1, 1, 1, 1), "dilation": (1, 1), "layout": "NHWC"}
    conv = b.op("conv2d", x, w, strides=(1, 1), groups=1, **window)
    y = b.op("relu", b.op("add", conv, bias))
    y = b.op("max_pool2d", y, kernel=(3, 3), strides=(2, 2), **window)
    y = b.op("reshape", b.op("global_avg_pool", y, layout="NHWC"), shape=(1, 24))
    v = b.constant(rng.standard_normal((37, 24), np.float32), "v")
    return b.finish([b.op("softmax", b.op("dense", y, v), axis=-1)])


@pytest.fixture(scope="module")
def net():
    return network()


@pytest.mark.parametrize("mcpu", [*on_x86(*X86), "native"])
def test_kernels_of_every_target(net, mcpu):
    target = Target(f"llvm -mcpu={mcpu} -num-cores=2")
    rng = np.random.default_rng(1)
    kinds = set()
    for task in extract_tasks(net, target)[0]:
        kinds.add(re.split(r"[+ ]", task.desc)[0])
        inputs = [rng.standard_normal(t.shape, np.float32) for t in task.compute_dag.inputs]
        expected = evaluate(task.compute_dag, inputs)
        sketches = SearchSpace.of(task).sketches
        schedules = [(s.id, r) for s in sketches[:3] for r in s.sample(rng, 2)]
        functions = [compile_task(task)]
        functions += [compile_task(task, sketch_id=i, row=r) for i, r in schedules]
        for function in functions:
            for threads in (1, 2):
                found = function(*inputs, threads=threads)
                for ours, right in zip(found, expected, strict=True):
                    assert np.max(np.abs(ours - right)) <= 1e-4 * np.max(np.abs(right))
    assert kinds == {"conv2d", "max_pool2d", "global_avg_pool", "dense", "softmax"}


def test_the_baseline_has_no_wide_or_fused_instructions(net):
    text = assembly(net, Target(x86("x86-64", 2)))
    assert "mulps" in text and "%xmm15" in text
    assert not re.search(r"\b(vfmadd\w+|%ymm\d+|%zmm\d+|roundps|blendvps)\b", text)


def test_neon_code_multiplies_and_adds_at_once_and_calls_no_library(net):
    text = assembly(net, Target(f"{NEON} -num-cores=2"))
    assert len(re.findall(r"\bfmla\tv\d+\.4s", text)) > 20
    assert re.search(r"\bv31\.4s", text)
    known = re.compile(r"tw_\w+|tw\.exp\.\d+")
    called = set(re.findall(r"\bbl?\t([A-Za-z_][\w.]*)", text)) - set(labels(text))
    assert called and all(known.fullmatch(name) for name in called), called


def assembly(net, target):
    """All kernels of a network, one schedule each."""
    out = []
    for task in extract_tasks(net, target)[0]:
        sketch = SearchSpace.of(task).sketches[0]
        row = min(
            sketch.sample(np.random.default_rng(0), 64),
            key=lambda r: draft_of(sketch.target).seconds(sketch, r[None]),
        )
        source = generate(task, sketch.id, row)
        out += [emit_assembly(m.text, target) for m in source.modules]
    return "\n".join(out)


def labels(text):
    return re.findall(r"^([.\w]+):", text, re.MULTILINE)


@foreign
def test_foreign_code_is_saved_and_not_run(net, tmp_path):
    module = compile_network(net, f"{NEON} -num-cores=4")
    path = tmp_path / "neon.tw"
    module.save(path)
    with zipfile.ZipFile(path) as file:
        manifest = json.loads(file.read("manifest.json"))
        objects = [n for n in file.namelist() if n.endswith(".o")]
        machines = {file.read(n)[18] for n in objects}  # e_machine of the ELF header
    assert manifest["image"]["platform"] == "linux aarch64"
    assert manifest["image"]["needs"] == ["neon"]
    assert len(objects) > 5 and machines == {0xB7}
    with pytest.raises(ModuleError, match=r"code for linux aarch64.*this is .*compile"):
        module.run(np.zeros((1, 13, 11, 5), np.float32))
    with pytest.raises(ModuleError, match=r"neon.tw has code for linux aarch64, this is"):
        load_module(path)


@foreign
def test_a_foreign_task_is_refused(net):
    task = extract_tasks(net, Target(NEON))[0][0]
    with pytest.raises(ModuleError, match="needs a machine with linux aarch64"):
        compile_task(task)


def test_code_for_one_core_takes_one_thread(net):
    module = compile_network(net, "llvm -num-cores=1")
    with pytest.raises(ModuleError, match=r"compiled for one core.*-num-cores=2"):
        module.set_threads(2)
    with pytest.raises(ModuleError, match="cannot use 3 threads"):
        module.bind(threads=3)
    several = compile_network(net, "llvm -num-cores=2", num_threads=1)
    x = np.random.default_rng(0).standard_normal((1, 13, 11, 5), np.float32)
    assert np.allclose(module.run(x)[0], several.run(x)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("cores, loaded", [(1, False), (2, True)])
def test_code_for_one_core_loads_no_thread_runtime(net, cores, loaded, tmp_path):
    path = tmp_path / "net.tw"
    compile_network(net, f"llvm -num-cores={cores}").save(path)
    script = f"""
        import numpy as np
        from tilework import load_module
        from tilework.kinds.cpu import team
        load_module({str(path)!r}).run(np.zeros((1, 13, 11, 5), np.float32))
        print(team._load_team.cache_info().currsize == 1)
    """
    run = [sys.executable, "-c", textwrap.dedent(script)]
    out = subprocess.run(run, capture_output=True, text=True, check=True, timeout=600)
    assert out.stdout.strip() == str(loaded)
