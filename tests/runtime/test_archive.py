"""Module files: what is saved runs elsewhere, and what cannot run is refused in clear words."""

from __future__ import annotations

import dataclasses
import io
import json
import pickletools
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tilework
from tests.compiler import symbolic_plan as rows
from tests.hosts import x86
from tests.runtime.files import rewrite
from tilework import Target, load_module
from tilework import compile as compile_network
from tilework.errors import ModuleError
from tilework.runtime import Module, archive

MODULES = Path(__file__).parents[1] / "data" / "modules"


@pytest.fixture
def saved(mlp_module, tmp_path):
    path = tmp_path / "mlp.tw"
    mlp_module.save(path)
    return path


def test_round_trip(mlp_module, saved, image):
    loaded = load_module(saved)
    assert np.array_equal(loaded.run(image)[0], mlp_module.run(image)[0])
    assert loaded.report == mlp_module.report
    assert loaded.summary() == mlp_module.summary()
    assert loaded.num_threads == mlp_module.num_threads


def test_the_number_of_threads_is_saved(mlp, target, tmp_path):
    compile_network(mlp, target, num_threads=1).save(tmp_path / "one.tw")
    assert load_module(tmp_path / "one.tw").num_threads == 1


def test_a_loaded_module_saves_the_same_file(saved, tmp_path):
    load_module(saved).save(tmp_path / "again.tw")
    with zipfile.ZipFile(saved) as a, zipfile.ZipFile(tmp_path / "again.tw") as b:
        assert a.namelist() == b.namelist()
        assert all(a.read(n) == b.read(n) for n in a.namelist())


def test_nothing_is_pickled(saved):
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist():
            assert name == "manifest.json" or name.endswith((".o", ".npy"))
            with pytest.raises(ValueError):
                pickletools.dis(archive.read(name), out=io.StringIO())


def test_saving_replaces_whole_files_and_leaves_no_others(mlp_module, saved, image):
    mlp_module.save(saved)
    assert [p.name for p in saved.parent.iterdir()] == ["mlp.tw"]
    assert load_module(saved).run(image)


def test_a_path_that_cannot_be_written(mlp_module, tmp_path):
    with pytest.raises(ModuleError, match="cannot write"):
        mlp_module.save(tmp_path / "missing" / "mlp.tw")


def test_no_such_file(tmp_path):
    with pytest.raises(ModuleError, match="there is no file"):
        load_module(tmp_path / "none.tw")
    with pytest.raises(ModuleError, match="cannot read"):
        load_module(tmp_path)


@pytest.mark.parametrize("text", [b"", b"not a zip", b"PK\x03\x04 nearly"])
def test_not_a_module(tmp_path, text):
    path = tmp_path / "odd.tw"
    path.write_bytes(text)
    with pytest.raises(ModuleError, match="not a Tilework module"):
        load_module(path)


def test_another_zip(tmp_path):
    path = tmp_path / "odd.tw"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(ModuleError, match=r"no manifest.json"):
        load_module(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_cut_short(saved, share):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModuleError, match="cut short"):
        load_module(saved)


def test_flipped_bits(saved):
    data = bytearray(saved.read_bytes())
    data[len(data) // 2] ^= 1
    saved.write_bytes(data)
    with pytest.raises(ModuleError, match=r"cut short|damaged"):
        load_module(saved)


def test_a_replaced_member(saved):
    rewrite(saved, replace={"code/run.o": b"evil"})
    with pytest.raises(ModuleError, match=r"code/run.o has a wrong checksum"):
        load_module(saved)


@pytest.mark.parametrize("lost", ["image", "sha256", "platform", "engine_version"])
def test_an_incomplete_manifest(saved, lost):
    rewrite(saved, lambda m: (m if lost in m else m["image"]).pop(lost))
    with pytest.raises(ModuleError, match="damaged"):
        load_module(saved)


def test_another_engine_version(saved, mlp_module, image):
    """It stands in the file for people: what counts is the version of the ABI."""
    rewrite(saved, lambda m: m.update(engine_version="0.0.1"))
    assert np.array_equal(load_module(saved).run(image)[0], mlp_module.run(image)[0])


@pytest.mark.parametrize("abi", [99, None, "3", [3]])
def test_another_abi_version(saved, abi):
    rewrite(saved, lambda m: m.update(engine_version="0.0.1", abi_version=abi))
    told = rf"0\.0\.1 with ABI version .*{tilework.__version__} with ABI version.*compile"
    with pytest.raises(ModuleError, match=told):
        load_module(saved)


def test_a_file_from_before_the_abi_had_a_version(saved):
    rewrite(saved, lambda m: (m.pop("abi_version"), m.update(format_version=2)))
    with pytest.raises(ModuleError, match="ABI version before 4"):
        load_module(saved)


def test_another_platform(saved):
    rewrite(saved, lambda m: m["image"].update(platform="plan9 vax"))
    with pytest.raises(ModuleError, match="plan9 vax"):
        load_module(saved)


def test_a_cpu_that_lacks_features(saved):
    rewrite(saved, lambda m: m["image"].update(needs=["avx9000", "sse2"]))
    with pytest.raises(ModuleError, match=r"needs avx9000.*native"):
        load_module(saved)


def test_features_of_the_target_are_in_the_file(mlp, tmp_path):
    path = tmp_path / "mlp.tw"
    compile_network(mlp, Target(x86("core-avx2", 1))).save(path)
    with zipfile.ZipFile(path) as file:
        needed = set(json.loads(file.read("manifest.json"))["image"]["needs"])
    assert {"avx2", "fma"} <= needed
    assert "avx512f" not in needed


def test_a_module_for_another_cpu_may_be_saved_but_not_run(mlp_module, tmp_path, image):
    foreign = dataclasses.replace(
        mlp_module.image, target="llvm -mcpu=znver99 -num-cores=1", needs=("avx9000",)
    )
    module = Module(foreign)
    module.save(tmp_path / "other.tw")
    with pytest.raises(ModuleError, match=r"znver99.*needs avx9000.*native"):
        module.run(image)


def test_format_names(saved):
    with zipfile.ZipFile(saved) as file:
        manifest = json.loads(file.read("manifest.json"))
    assert manifest["format"] == archive.FORMAT
    assert manifest["image"]["target"].startswith("llvm -mcpu=")


def test_a_file_of_each_version_that_is_read():
    """For the interpreter, as the versions of these ABIs wrote them: a dense layer, and `rows`."""
    rng = np.random.default_rng(0)
    w = rng.integers(-3, 4, (4, 6)).astype(np.float32)
    x = np.arange(-6, 6, dtype=np.float32).reshape(2, 6)
    module = load_module(MODULES / "abi4.tw")
    assert np.array_equal(module.run(x)[0], np.maximum(x @ w.T, 0))
    assert not module.symbols
    symbolic = load_module(MODULES / "abi5.tw")
    assert [s.name for s in symbolic.symbols] == ["past", "seq"]
    for past, seq in ((1, 1), (13, 17), (40, 67)):
        given = rows.inputs(past, seq)
        for got, wanted in zip(symbolic.run(*given), rows.expected(*given), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_symbols_in_a_file_of_abi_4(tmp_path):
    path = tmp_path / "odd.tw"
    path.write_bytes((MODULES / "abi5.tw").read_bytes())
    rewrite(path, lambda m: m.update(abi_version=4))
    with pytest.raises(ModuleError, match=r"is damaged: symbols beside ABI version 4"):
        load_module(path)
