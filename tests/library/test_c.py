"""Libraries as C programs use them, with no Python about."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

import tilework as tw
from tests.library.conftest import ROOT, run_without_tilework

FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-parentheses")


def compiled(folder: Path, source: Path, library: str) -> Path:
    program = folder / "program"
    words = ["cc", *FLAGS, f"-I{folder}", "-o", program, source, folder / library]
    subprocess.run([*words, "-ldl", "-Wl,-rpath,$ORIGIN"], check=True, timeout=600)
    return program


def test_a_c_program_gets_what_the_module_returns(mlp, mlp_library, image, tmp_path):
    program = compiled(mlp_library.path.parent, Path(__file__).with_name("program.c"), "mlp.so")
    (tmp_path / "in").write_bytes(image.tobytes())
    done = subprocess.run(
        [program, tmp_path / "in", tmp_path / "out"],
        env={},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    expected = mlp.run(image)[0].tobytes()
    assert (tmp_path / "out").read_bytes() == 6 * expected
    said = done.stdout.splitlines()
    assert len(said) == 16 and all(line.startswith("mlp: ") for line in said)
    for line, wanted in zip(
        said[:7],
        [
            r"input data has another shape than float32\[2,28,28,1\]",
            "elements of another type than float32",
            "lies in no CPU's memory",
            "is not dense",
            "input data is NULL",
            "share memory",
            "there is no context",
        ],
        strict=True,
    ):
        assert re.search(wanted, line)
    assert "-1 threads" in said[-2]
    assert "there is no level i486 here; levels are" in said[-1]


def test_only_the_functions_of_the_header_can_be_seen(mlp_library):
    done = subprocess.run(
        ["nm", "-D", "--defined-only", mlp_library.path], capture_output=True, text=True
    )
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    own = {f"tw_mlp_{w}" for w in ("create", "create_at", "run", "run_tensors", "level",
                                   "destroy", "describe", "last_error")}  # fmt: skip
    assert names == own | {"tilework_library", "__tvm_ffi_run"}


def test_the_library_needs_nothing_but_the_c_library(mlp_library):
    done = subprocess.run(["ldd", mlp_library.path], capture_output=True, text=True, env={})
    needed = {line.split()[0].rpartition("/")[2] for line in done.stdout.splitlines()}
    allowed = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2",
               "ld-linux-aarch64.so.1", "linux-vdso.so.1"}  # fmt: skip
    assert needed <= allowed


def test_headers_of_several_networks_go_into_one_program(mlp, mlp_library, tmp_path):
    tw.write_library(mlp, tmp_path / "other.so", header=tmp_path / "other.h")
    (tmp_path / "mlp.h").write_text((mlp_library.path.parent / "mlp.h").read_text())
    source = tmp_path / "both.c"
    source.write_text(
        '#include "mlp.h"\n#include "other.h"\n#include "mlp.h"\n'
        "int main(void) { return tw_mlp_describe() == tw_other_describe(); }\n"
    )
    for command in (["cc", *FLAGS], ["c++", "-xc++"]):
        subprocess.run([*command, "-fsyntax-only", source], check=True, timeout=600)


def test_the_example_fits_its_header(mlp, tmp_path):
    tw.write_library(mlp, tmp_path / "resnet18.so", header=tmp_path / "resnet18.h")
    example = ROOT / "examples" / "c" / "resnet18.c"
    assert compiled(tmp_path, example, "resnet18.so").exists()


def test_contexts_in_threads(mlp_library, mlp, image):
    import threading

    import tilework_runtime

    library = tilework_runtime.load(mlp_library.path, threads=1)
    expected = mlp.run(image)[0]
    wrong = []

    def work():
        call = library.bind()
        call.inputs["data"][...] = image
        for _ in range(30):
            if not np.array_equal(call()[0], expected):
                wrong.append(1)
            if not np.array_equal(library.run(image)[0], expected):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_after_a_fork(mlp_library, mlp, image, tmp_path):
    np.save(tmp_path / "in.npy", image)
    code = """
    import os
    import numpy as np
    import tilework_runtime

    image = np.load(sys.argv[2])
    library = tilework_runtime.load(sys.argv[1], threads=2)
    expected = library.run(image)[0]
    for _ in range(3):
        child = os.fork()
        if not child:
            good = np.array_equal(library.run(image)[0], expected)
            good &= np.array_equal(library.bind().inputs["data"].shape, image.shape)
            os._exit(not good)
        assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(library.run(image)[0], expected)
    print("well")
    """
    assert run_without_tilework(code, mlp_library.path, tmp_path / "in.npy") == "well\n"
