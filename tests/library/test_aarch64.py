"""Code for AArch64, run by an emulator on this machine: libraries, and the kernels of modules."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tilework as tw
from benchmarks._encoder import encoder
from tests.compiler.test_targets import network
from tests.hosts import HOST_ARCH
from tests.library import shaped
from tilework.errors import ModuleError
from tilework.graph import plan
from tilework.kinds.cpu.library.linker import find_linker
from tilework.kinds.cpu.llvm.pool import plainest_target, pool_object
from tilework.te import evaluate

PLATFORM = "linux aarch64"
SYSTEM = Path("/usr/aarch64-linux-gnu")
"""Where Debian's package libc6-arm64-cross puts that machine's C library."""
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
SPACES = {"arena": 0, "constant": 1, "io": 2}
NETWORKS = {
    "mlp": partial(tw.zoo.get, "mlp", batch=3),
    "convolutions of odd shapes": network,
    "a layer of a transformer": lambda: tw.from_onnx(encoder(1, 24, 2, 7)),
}
CPUS = {"cortex-a53": "cortex-a53", "neoverse-v1": "max"}
"""CPUs that code is made for, and the emulator's that runs it: the second ones have SVE."""
ARM = "llvm -mtriple=aarch64-linux-gnu"


def _missing() -> str:
    if HOST_ARCH == "aarch64":
        return "code for AArch64 runs here without an emulator"
    if EMULATOR is None:
        return "there is no qemu-aarch64 (Debian: qemu-user)"
    if not (SYSTEM / "lib" / "ld-linux-aarch64.so.1").exists():
        return "there is no C library of AArch64 (Debian: libc6-arm64-cross)"
    try:
        find_linker(PLATFORM)
    except ModuleError as e:
        return str(e)
    return ""


pytestmark = [pytest.mark.skipif(bool(_missing()), reason=_missing()), pytest.mark.extras]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program that runs both, and the folder that it lies in."""
    folder = tmp_path_factory.mktemp("emulated")
    tiny = tw.compile(tw.zoo.get("mlp"), "llvm -mtriple=aarch64-linux-gnu -num-cores=1")
    tw.write_library(tiny, folder / "network.so", header=folder / "network.h")
    source = Path(__file__).with_name("emulated.c")
    words = [*find_linker(PLATFORM).command, "-O1", f"-I{folder}", source, "-ldl"]
    subprocess.run([*words, "-o", folder / "program"], check=True, timeout=300)
    return folder / "program"


@pytest.fixture(scope="module", params=NETWORKS)
def net(request):
    return NETWORKS[request.param]()


@pytest.fixture(scope="module")
def inputs(net):
    rng = np.random.default_rng(7)
    return {n: rng.standard_normal(t.shape).astype(t.dtype) for n, t in net.inputs.items()}


@pytest.fixture(scope="module")
def wanted(net, inputs):
    """Outputs that NumPy computes of the network's expressions."""
    planned = plan(net)
    values = {**planned.constants, **inputs}

    def value(name):
        found = values[planned.views.get(name, name)]
        return found.reshape(planned.values[name].shape)

    for call in planned.calls:
        (values[call.output],) = evaluate(call.dag, [value(name) for name in call.inputs])
    return [value(name) for name in planned.outputs]


def write_case(image, inputs, threads, path):
    """What the program reads: see its beginning."""
    buffers = [0] * len(image.io_values)
    for value in (*image.inputs, *image.outputs):
        buffers[value.io] = value.nbytes
    refs = [ref for step in image.steps for ref in step.args]
    numbers = [len(image.inputs), len(buffers), len(refs), image.arena_bytes]
    numbers += [image.constants.nbytes, image.workspace_bytes(threads), *buffers]
    numbers += [n for ref in refs for n in (SPACES[ref.space], ref.at)]
    given = [inputs[v.name].tobytes() for v in sorted(image.inputs, key=lambda v: v.io)]
    words = np.array(numbers, np.uint64).tobytes()
    path.write_bytes(b"".join([words, image.constants.tobytes(), *given]))


def emulated(program, code, image, inputs, threads, cpu) -> tuple[list[np.ndarray], str]:
    """The outputs of a file of code, by their buffers; and the level that ran."""
    folder = code.parent
    write_case(image, inputs, threads, folder / "in")
    words = [EMULATOR, "-L", SYSTEM, "-cpu", cpu, program, code, folder / "in", folder / "out"]
    done = subprocess.run([*words, str(threads)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found, out = (folder / "out").read_bytes(), []
    for value in sorted(image.outputs, key=lambda v: v.io):
        array, found = found[: value.nbytes], found[value.nbytes :]
        out.append(np.frombuffer(array, value.dtype).reshape(value.shape))
    assert not found
    return out, done.stdout


def linked(module, path):
    """The object files of a module and the runtime of threads as one file."""
    pool = pool_object(plainest_target(PLATFORM))
    files = []
    for name, data in {**module.image.code, "pool.o": pool}.items():
        files.append(path.parent / name)
        files[-1].write_bytes(data)
    find_linker(PLATFORM).link(path, files, ["-lm", "-lpthread"], path.name)


def test_kernels_and_libraries_compute_what_numpy_does(program, net, inputs, wanted, tmp_path):
    modules = {cpu: tw.compile(net, f"{ARM} -mcpu={cpu} -num-cores=2") for cpu in CPUS}
    library = tmp_path / "library.so"
    tw.write_library(list(modules.values()), library)
    for cpu, module in modules.items():
        linked(module, tmp_path / "kernels.so")
        for code, level in ((tmp_path / "kernels.so", ""), (library, cpu)):
            for threads in (1, 2):
                found, said = emulated(program, code, module.image, inputs, threads, CPUS[cpu])
                assert said == level
                for ours, right in zip(found, wanted, strict=True):
                    assert np.ptp(right) > 0
                    assert np.max(np.abs(ours - right)) <= 1e-5 * np.max(np.abs(right))


def test_a_library_at_many_shapes(tmp_path):
    """Masks of SVE, halves of NEON; two threads."""
    modules, others = zip(*(shaped.encoder(f"{ARM} -mcpu={cpu} -num-cores=2") for cpu in CPUS),
                          strict=True)  # fmt: skip
    library = tmp_path / "network.so"
    tw.write_library(list(modules), library, header=library.with_suffix(".h"))
    source, program = Path(__file__).with_name("shapes.c"), tmp_path / "program"
    words = [*find_linker(PLATFORM).command, "-O1", f"-I{tmp_path}", source, "-ldl"]
    subprocess.run([*words, "-o", program], check=True, timeout=300)
    given = [shaped.feeds(*point) for point in shaped.POINTS]
    runs = [(n % 3, p, list(f.values()))
            for n, (p, f) in enumerate(zip(shaped.POINTS, given, strict=True))]  # fmt: skip
    for cpu in CPUS.values():
        command = [EMULATOR, "-L", SYSTEM, "-cpu", cpu, program]
        found, _ = shaped.run(command, library, runs, ["float32"] * 2, 2, tmp_path)
        for outputs, f in zip(found, given, strict=True):
            for got, right in zip(outputs, others[0].run(None, f), strict=True):
                np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)
