"""Shared libraries from the command line: tilework compile --output net.so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.graph import symbolic_models
from tests.hosts import runs_x86
from tilework.kinds.cpu.library import linker

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc)")
NET = ("compile", "mlp", "--output", "net.so")


@needs_cc
@runs_x86
def test_compile_writes_a_library_and_its_header(cli):
    result = cli(
        *NET, "--threads", "1", "--header", "net.h", "--levels", "v2,native", "--weights", "beside"
    )
    assert result.exit_code == 0, result.output
    assert "x86-64-v2" in result.output and "equal to the module" in result.output
    assert "functions tw_net_*" in result.output
    assert sorted(p.name for p in Path().iterdir()) == ["net.h", "net.so", "net.weights"]
    assert "int tw_net_create(int threads, tw_net **out);" in Path("net.h").read_text()


@needs_cc
def test_as_a_document(cli):
    document = cli.json(*NET, "--threads", "1")
    assert document["library"]["name"] == "net"
    (level,) = document["library"]["levels"]
    assert level["checked"] and level["weights_bytes"] > 0
    (check,) = document["checks"].values()
    assert check["max_rel_error"] < 1e-4


@needs_cc
def test_a_decoder_that_continues_its_past_in_place(cli):
    Path("decoder.onnx").write_bytes(symbolic_models.decoder(1, past=True).SerializeToString())
    ranges = [f"--shape={s}" for s in ("batch=1..2", "seq=1..5:1", "past=0..40:9")]
    words = ("compile", "./decoder.onnx", *ranges, "--threads", "1", "--in-place")
    assert cli(*words, "--output", "decoder.so", "--header", "decoder.h").exit_code == 0
    header = Path("decoder.h").read_text()
    assert "int tw_decoder_set_symbols(tw_decoder *context" in header
    assert "output 1  present_0  float32" in header  # as the file calls it
    for output in ("net.so", "net.tw"):
        told = cli.error("compile", "mlp", "--in-place", "--output", output)
        assert "mlp has no output that continues an input" in told


@pytest.mark.parametrize(
    "words, told",
    [
        (("--output", "net.tw", "--header", "net.h"), "--header belongs to a shared library"),
        (("--output", "net.tw", "--levels", "v2"), "--levels belongs to a shared library"),
        (("--weights", "beside"), "--weights belongs to a shared library"),
        (("--output", "net.so", "--levels", "v2,v9"), "'v9' is no level; write v2, v3, v4"),
        (("--output", "net.so", "--target", "cuda -model=a100"), "only that for CPUs"),
        (("--output", "no/net.so"), "cannot write the module"),
        (("--output", "net.so", "--header", "no/net.h"), "cannot write the module"),
    ],
)
def test_what_cannot_be(cli, words, told):
    if "v2,v9" in words and shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc)")
    assert told in cli.error("compile", "mlp", *words)
    assert not list(Path().iterdir())


def test_tuning_writes_modules(cli):
    told = cli.error("tune", "mlp", "--output", "net.so")
    assert "tilework compile NET --output NAME.so" in told
    assert not list(Path().iterdir())


def test_without_a_linker(cli, monkeypatch):
    monkeypatch.setattr(linker.shutil, "which", lambda name: None)
    monkeypatch.setattr(linker.importlib.util, "find_spec", lambda name: None)
    told = cli.error(*NET)
    assert "needs a C compiler as linker" in told and "tilework[clib]" in told
