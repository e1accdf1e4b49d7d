"""Files that are no libraries, damaged, or not where they should be: one clear line each."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess

import pytest

import tilework as tw
import tilework_runtime
from tests.library.conftest import run_without_tilework
from tilework.errors import ModuleError
from tilework.kinds.cpu.library import linker


def refusal(path):
    with pytest.raises(tilework_runtime.LibraryError) as told:
        tilework_runtime.load(path)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_what_is_no_library(tmp_path, mlp_library):
    path = tmp_path / "net.so"
    assert "No such file" in refusal(path)
    assert "Is a directory" in refusal(tmp_path)
    path.write_text("not a library")
    assert "is no shared library" in refusal(path)
    path.write_bytes(b"")
    assert "is no shared library" in refusal(path)
    path.write_bytes(b"\x7fELF")
    assert "is damaged" in refusal(path)
    source = tmp_path / "empty.c"
    source.write_text("int nothing;\n")
    subprocess.run(["cc", "-c", "-o", path, source], check=True)
    assert "an object file or a program" in refusal(path)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True)
    assert "no network that Tilework compiled" in refusal(path)


def test_damaged_and_foreign_libraries(tmp_path, mlp_library):
    whole = mlp_library.path.read_bytes()
    path = tmp_path / "net.so"
    for size in (70, 500, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:size])
        assert "is damaged" in refusal(path)
    foreign = bytearray(whole)
    struct.pack_into("<H", foreign, 18, 243)
    path.write_bytes(foreign)
    assert "is for riscv64, this machine is" in refusal(path)


def test_weights_beside_a_library(tmp_path, mlp, image):
    written = tw.write_library(mlp, tmp_path / "net.so", weights="beside")
    assert written.weights == tmp_path / "net.weights"
    expected = mlp.run(image)[0]
    assert tilework_runtime.load(tmp_path / "net.so").run(image)[0].tobytes() == expected.tobytes()

    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copy(tmp_path / "net.so", moved)
    told = refusal(moved / "net.so")
    assert "cannot open the weights in" in told and "keep that file beside the library" in told
    weights = (tmp_path / "net.weights").read_bytes()
    (moved / "net.weights").write_bytes(weights[:-64])
    assert "has not the weights of this library" in refusal(moved / "net.so")
    (moved / "net.weights").write_bytes(b"")
    assert "has not the weights of this library" in refusal(moved / "net.so")
    (moved / "net.weights").write_bytes(weights[64:])
    assert "it has" in refusal(moved / "net.so")
    (moved / "net.weights").write_bytes(weights)
    assert tilework_runtime.load(moved / "net.so").run(image)[0].tobytes() == expected.tobytes()


def test_a_library_finds_its_weights_from_anywhere(tmp_path, mlp):
    tw.write_library(mlp, tmp_path / "net.so", weights="beside")
    code = """
    import os, ctypes
    os.chdir(sys.argv[1])
    library = ctypes.CDLL("./net.so")
    os.chdir("/")
    context = ctypes.c_void_p()
    print(library.tw_net_create(1, ctypes.byref(context)))
    """
    assert run_without_tilework(code, tmp_path).split() == ["0"]


def test_no_linker_is_one_line(tmp_path, mlp, monkeypatch):
    monkeypatch.setattr(linker.shutil, "which", lambda name: None)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        linker.importlib.util, "find_spec", lambda n: None if n == "ziglang" else found(n)
    )
    with pytest.raises(ModuleError, match=r"needs a C compiler as linker: .*'tilework\[clib\]'"):
        tw.write_library(mlp, tmp_path / "net.so")


def test_places_and_names_that_cannot_be(tmp_path, mlp):
    with pytest.raises(ModuleError, match=r"cannot write the library .*No such file"):
        tw.write_library(mlp, tmp_path / "no" / "net.so")
    with pytest.raises(ModuleError, match="has no letters or digits"):
        tw.write_library(mlp, tmp_path / "-.so")
    gpu = tw.runtime.library.libraries_of
    with pytest.raises(ModuleError, match="cannot become a shared library"):
        gpu("cuda -model=a100")


def test_a_library_that_fails_its_check_is_not_kept(tmp_path, mlp, monkeypatch):
    from tilework.kinds.cpu.library import build

    def wrong(*_):
        raise ModuleError("the new library computes something else")

    place = tmp_path / "net.so"
    place.write_text("what was there")
    monkeypatch.setattr(build, "try_level", wrong)
    with pytest.raises(ModuleError, match="something else"):
        tw.write_library(mlp, place, header=tmp_path / "net.h")
    assert place.read_text() == "what was there"
    assert [p.name for p in tmp_path.iterdir()] == ["net.so"]


def test_a_thousand_loads_and_unloads_leave_nothing(tmp_path, mlp):
    tw.write_library(mlp, tmp_path / "inside.so")
    tw.write_library(mlp, tmp_path / "beside.so", weights="beside")
    code = """
    from pathlib import Path
    import numpy as np
    import tilework_runtime

    def memory():
        fields = Path("/proc/self/statm").read_text().split()
        maps = len(Path("/proc/self/maps").read_text().splitlines())
        return int(fields[1]) * 4096, maps, len(list(Path("/proc/self/task").iterdir()))

    x = np.ones((2, 28, 28, 1), np.float32)
    marks = []
    for i in range(1001):
        name = "inside" if i % 2 else "beside"
        path = f"{sys.argv[1]}/{name}.so"
        with tilework_runtime.load(path, threads=2 if i % 7 == 0 else 1) as library:
            library.run(x)
        if i in (200, 1000):
            marks.append(memory())
    (begin, maps, tasks), (end, maps_after, tasks_after) = marks
    print(end - begin, maps_after - maps, tasks_after - tasks)
    """
    grown, maps, tasks = map(int, run_without_tilework(code, tmp_path).split())
    assert grown < 1 << 20
    assert maps <= 2 and tasks <= 0


def test_a_closed_library(mlp_library, image):
    library = tilework_runtime.load(mlp_library.path)
    call = library.bind()
    library.close()
    with pytest.raises(tilework_runtime.LibraryError, match="was closed: load it again"):
        library.run(image)
    call()  # has the library for itself
