"""The CUDA C of schedules as `tilework explain` shows it."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
from tests.te.workloads import matmul
from tilework.kinds.cuda import listing
from tilework.kinds.cuda.features.terms import TERMS
from tilework.lower.listing import listing_of
from tilework.space import SearchSpace
from tilework.target import Target
from tilework.task import SearchTask


@pytest.fixture(scope="module")
def split():
    """A product in two kernels, and a row of it."""
    task = SearchTask(tw.ComputeDAG(matmul(16, 64, 2048)), Target("cuda -model=a100"))
    sketch = next(s for s in SearchSpace.of(task).sketches if len(s.blocks) == 2)
    return sketch, sketch.sample(np.random.default_rng(0), 16)[0]


@pytest.mark.usefixtures("needs_nvrtc")
def test_two_launches_are_told_one_after_the_other(split):
    found = listing_of(*split)
    assert found.language == "CUDA C" and found.text.count("__global__") == 2
    assert found.text.index("// launch 1: ") < found.text.index("// launch 2: ")
    for heading in ("launches", "registers", "shared memory", "occupancy", "machine code"):
        assert found.facts[heading].count(";") == 1, heading
    assert found.facts["bound by (draft)"].count("%") == 2
    assert " an SM, " in found.facts["occupancy"]


def test_without_a_compiler_it_says_what_to_install(split, monkeypatch):
    monkeypatch.setattr(listing.nvrtc, "available", lambda: "pip install 'tilework[cuda13]'")
    found = listing_of(*split)
    assert found.facts["registers"] == "not known: pip install 'tilework[cuda13]'"
    assert "occupancy" not in found.facts and "__global__" in found.text


def test_every_term_has_words():
    assert set(listing._WORDS) == set(TERMS)


def test_other_kinds_list_nothing():
    task = SearchTask(tw.ComputeDAG(matmul(8, 8, 8)), Target("reference -num-cores=1"))
    sketch = SearchSpace.of(task).sketches[0]
    assert listing_of(sketch, sketch.sample(np.random.default_rng(0), 1)[0]) is None
