"""Damaged module files end in one clear message: never in a traceback or a dead process."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from tests.runtime.files import rewrite
from tilework import load_module
from tilework.errors import ModuleError
from tilework.target import HOST_PLATFORM


@pytest.fixture
def saved(mlp_module, tmp_path):
    path = tmp_path / "mlp.tw"
    mlp_module.save(path)
    return path


def put(value, *keys):
    """A change of a manifest: ``put(5, "image", "steps", 0)`` sets ``image.steps[0]``."""

    def change(manifest):
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = value

    return change


ODD = {
    "a list for a digest": put([1], "sha256", "code/run.o"),
    "digests in a list": put([], "sha256"),
    "no digest of the constants": lambda m: m["sha256"].pop("constants.npy"),
    "a digest of another path": put("0" * 64, "sha256", "../run.o"),
    "a list for the image": put([], "image"),
    "an unknown field": put(1, "image", "more"),
    "a text for a number": put("7", "image", "arena_bytes"),
    "a number with a fraction": put(1.5, "image", "arena_bytes"),
    "a truth value for a number": put(True, "image", "num_threads"),
    "a number for a text": put(3, "image", "target"),
    "not a number of operations": put(float("nan"), "image", "steps", 0, "flops"),
    "an unknown element type": put("float31", "image", "inputs", 0, "dtype"),
    "a list for a name": put([], "image", "inputs", 0, "name"),
    "three values for a reference": put(["io", 0, 8, 8], "image", "steps", 0, "args", 0),
    "another space": put(["heap", 0, 8], "image", "steps", 0, "args", 0),
    "another kind of machine": put("vax -num-cores=1", "image", "target"),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_manifests(saved, odd):
    rewrite(saved, ODD[odd])
    with pytest.raises(ModuleError, match=r"is damaged|nothing here runs modules for 'vax"):
        load_module(saved)


OUT_OF_RANGE = {
    "behind the arena": (["arena", 1 << 40, 4], "arena"),
    "before the arena": (["arena", -64, 4], "arena"),
    "over the end of the arena": (["arena", 0, 1 << 40], "arena"),
    "behind the constants": (["constant", 1 << 40, 4], "constant"),
    "an odd constant": (["constant", 4, 4], "multiple of 64"),
    "less than nothing": (["io", 0, -4], "io"),
    "another io buffer": (["io", 2, 4], "io buffer 2 of 2"),
    "before the io buffers": (["io", -1, 4], "io buffer -1 of 2"),
    "more than an io buffer holds": (["io", 1, 1 << 20], "io"),
}


@pytest.mark.parametrize("where", OUT_OF_RANGE)
def test_references_out_of_range(saved, where):
    ref, told = OUT_OF_RANGE[where]
    rewrite(saved, put(ref, "image", "steps", 1, "args", 0))
    with pytest.raises(ModuleError, match=rf"damaged: step 1 .* refers to .*{told}"):
        load_module(saved)


@pytest.mark.parametrize(
    "change, told",
    [
        (put(-1, "image", "arena_bytes"), "arena of -1"),
        (put([[-8, 0]], "image", "workspaces"), "workspaces of"),
        (put([[0, 1 << 60]], "image", "workspaces"), "workspaces of"),
        (put(0, "image", "num_threads"), "0 threads"),
        (put(10**9, "image", "cores"), "cores"),
        (put(7, "image", "steps", 0, "task"), "task 7"),
        (put(3, "image", "inputs", 0, "io"), "io buffers"),
        (put(5, "image", "outputs", 0, "io"), "io buffers"),
        (put([-3, 5], "image", "inputs", 0, "shape"), "shape"),
        (put([1] * 99, "image", "outputs", 0, "shape"), "shape"),
        (put("tw_nowhere", "image", "steps", 0, "symbol"), "no function tw_nowhere"),
    ],
)
def test_parts_that_do_not_fit(saved, change, told):
    rewrite(saved, change)
    with pytest.raises(ModuleError, match=rf"is damaged: .*{told}"):
        load_module(saved)


def test_deep_json(saved):
    rewrite(saved, replace={"manifest.json": b"[" * 100_000})
    with pytest.raises(ModuleError, match="is damaged"):
        load_module(saved)


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"{", b"null", b"9" * 5000])
def test_manifests_that_are_none(saved, text):
    rewrite(saved, replace={"manifest.json": text})
    with pytest.raises(ModuleError, match=r"is damaged|is not a Tilework module"):
        load_module(saved)


def test_compressed_members(saved):
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ModuleError, match="compressed"):
        load_module(saved)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x93NUMPY",
        np.lib.format.magic(3, 0) + bytes(200),
        "float",
        "short",
        "long",
        "deep",
    ],
)
def test_constants_that_are_none(saved, block, tmp_path):
    with zipfile.ZipFile(saved) as archive:
        right = archive.read("constants.npy")
    if block == "float":
        np.save(tmp_path / "x.npy", np.zeros(10, np.float32))
        block = (tmp_path / "x.npy").read_bytes()
    made = {"short": right[:-1], "long": right + b"x", "deep": right.replace(b"{", b"(" * 50, 1)}
    rewrite(saved, replace={"constants.npy": made.get(block, block)}, digests=True)
    with pytest.raises(ModuleError, match="is damaged"):
        load_module(saved)


elf = pytest.mark.skipif(not HOST_PLATFORM.startswith("linux"), reason="objects of Linux")


@elf
@pytest.mark.parametrize("code", [b"", b"evil", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(500)])
def test_code_that_is_none(saved, code):
    rewrite(saved, replace={"code/run.o": code}, digests=True)
    with pytest.raises(ModuleError, match=r"damaged: object file run.o is damaged"):
        load_module(saved)


@elf
def test_a_missing_object(saved):
    with zipfile.ZipFile(saved) as archive:
        name = next(n for n in archive.namelist() if n.startswith("code/tw_r"))
    rewrite(saved, lambda m: m["sha256"].pop(name))
    with pytest.raises(ModuleError, match=r"calls tw_r\w+.*, which nothing here defines"):
        load_module(saved)


@elf
def test_unresolved_symbols_are_told_when_objects_are_loaded():
    from tilework import Target
    from tilework.kinds.cpu.llvm.assembler import emit_object
    from tilework.kinds.cpu.object_code import ObjectCode

    text = (
        "declare void @tw_nowhere()\ndefine void @f() {\n  call void @tw_nowhere()\n  ret void\n}"
    )
    with pytest.raises(ModuleError, match="calls tw_nowhere, which nothing here defines"):
        ObjectCode(emit_object(text, Target()))


@elf
def test_objects_with_flipped_bits_are_refused_or_load(saved):
    """In a process of its own: LLVM ends it where an object makes no sense to it."""
    script = f"""
        import dataclasses, random
        import tilework
        from tilework.errors import ModuleError
        from tilework.kinds.cpu.executor import EXECUTOR

        image = tilework.load_module({str(saved)!r}).image
        rng = random.Random(0)
        refused = loaded = 0
        for _ in range(400):
            name = rng.choice(list(image.code))
            code = bytearray(image.code[name])
            for _ in range(rng.choice((1, 1, 2, 4))):
                # tables stand at the beginning and in the last part
                first = 0 if rng.random() < 0.3 else len(code) // 2
                code[rng.randrange(first, len(code))] ^= 1 << rng.randrange(8)
            damaged = dataclasses.replace(image, code={{**image.code, name: bytes(code)}})
            try:
                EXECUTOR.check_code(damaged)
                EXECUTOR.load(damaged)
                loaded += 1
            except ModuleError:
                refused += 1
        print(refused, loaded)
    """
    run = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    refused, loaded = map(int, done.stdout.split())
    assert refused > 100 and loaded > 10


def test_a_manifest_survives_json(mlp_module):
    from tilework.runtime.manifest import image_from_json, image_to_json

    text = json.dumps(image_to_json(mlp_module.image))
    again = image_from_json(json.loads(text))
    assert image_to_json(again) == image_to_json(mlp_module.image)
    assert again.steps == mlp_module.image.steps and again.report == mlp_module.image.report
