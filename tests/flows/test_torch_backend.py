"""The entry point of PyTorch's compiler: stores, tuning, and its name."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import tilework.compiler as tilework_compiler
from flows.torch_backend import compile_network, tilework
from tilework.errors import StoreError, TileworkError
from tilework.graph import Builder
from tilework.index.symbols import symbol
from tilework.torch import Settings


def _network(rows=2):
    b = Builder("small")
    x = b.input("x", (rows, 8))
    weight = b.constant(np.ones((4, 8), np.float32))
    return b.finish([b.op("relu", b.op("dense", x, weight))])


def test_the_entry_point_is_the_function():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    named = project["project"]["entry-points"]["torch_dynamo_backends"]["tilework"]
    module, _, name = named.partition(":")
    assert getattr(import_module(module), name) is tilework


def test_a_store_that_is_named_has_to_be_there(tmp_path):
    settings = Settings(target="reference", store=str(tmp_path / "nothing"))
    with pytest.raises(StoreError):
        compile_network(_network(), settings)


def test_options_are_checked_before_anything_is_compiled():
    with pytest.raises(TileworkError, match="no option speed"):
        tilework(None, [], options={"speed": 11})


def test_another_range_is_another_network():
    settings = Settings(target="reference")
    for high in (16, 64, 16):
        module = compile_network(_network(symbol("n", 2, high, [4])), settings)
        assert [s.high for s in module.symbols] == [high]


def test_tuning_fills_the_store_which_the_next_compilation_uses(tmp_path, monkeypatch):
    store = str(tmp_path / "records")
    tuned = compile_network(_network(), Settings(target="reference", store=store, trials=4))
    used = Settings(target="reference", store=store)
    again = compile_network(_network(), used)
    monkeypatch.setattr(tilework_compiler, "compile", None)  # the cache has it
    assert compile_network(_network(), used).report == tuned.report
    monkeypatch.undo()
    plain = compile_network(_network(), Settings(target="reference"))
    assert all(r.tuned for r in (*tuned.report, *again.report))
    assert not any(r.tuned for r in plain.report)
    assert again.report == tuned.report
