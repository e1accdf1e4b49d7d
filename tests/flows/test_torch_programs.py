"""Random PyTorch programs, as `benchmarks/fuzz` makes them, through the entry point."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def path():
    folder = str(Path(__file__).parents[2] / "benchmarks" / "fuzz")
    sys.path.insert(0, folder)
    try:
        from _torch_path import PATH
    finally:
        sys.path.remove(folder)
    return PATH


def test_a_program_gives_what_pytorch_gives(path, tmp_path):
    case = path.load(path.save(path.make(3027), tmp_path, "one"))
    assert case == path.make(3027)
    assert path.check(case).kind == "same"


def test_a_wrong_converter_is_found_and_the_program_made_small(path, monkeypatch):
    from tilework.graph.aten.convert import CONVERTERS

    wrong = CONVERTERS["neg"]
    monkeypatch.setitem(CONVERTERS, "neg", lambda c, x: wrong(c, wrong(c, x)))
    case = next(
        found for found in map(path.make, range(200)) if "neg" in path.describe(found).split()
    )
    assert path.check(case).kind == "wrong"
    small = path.smaller(case, lambda other: path.check(other).kind == "wrong")
    assert len(small.lines) <= 2 and "neg" in small.text
