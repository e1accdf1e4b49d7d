"""Staged tiles compute what the evaluator says: checked accesses, two orders of threads."""

from __future__ import annotations

import numpy as np
import pytest

import tilework as tw
from tests.kinds.cuda.harness import check_all, print_schedule
from tests.kinds.cuda.tiled_cases import CASES
from tilework.kinds.cuda.staging import shared_bytes
from tilework.kinds.cuda.tiling import form_of
from tilework.space import SearchSpace
from tilework.te import ComputeDAG

A100 = tw.Target("cuda -model=a100 -run=emulated")
OLD = tw.Target("cuda -arch=sm_75 -run=emulated")


def tiled(name, target=A100):
    """The DAG of a case, and its sketch of one tiled block."""
    dag = ComputeDAG(CASES[name]())
    for sketch in SearchSpace.derive(dag, target).sketches:
        if [form_of(b) for b in sketch.blocks] == ["tiled"]:
            return dag, sketch
    raise AssertionError(f"{name} has no tiled sketch")


@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("target", [A100, OLD], ids=["sm_80", "sm_75"])
def test_random_rows(target):
    wanted = []
    for seed, name in enumerate(CASES):
        dag, sketch = tiled(name, target)
        count = 3 if target is A100 else 1
        wanted.append((dag, sketch, sketch.sample(np.random.default_rng(seed), count)))
    assert check_all(wanted) == sum(len(rows) for _, _, rows in wanted)


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("target", [A100, OLD], ids=["sm_80", "sm_75"])
def test_many_random_rows(target):
    wanted = []
    for seed, name in enumerate(CASES):
        dag, sketch = tiled(name, target)
        wanted.append((dag, sketch, sketch.sample(np.random.default_rng(seed + 100), 24)))
    check_all(wanted)


def test_shared_memory_is_what_limits_and_features_count():
    for name in CASES:
        _, sketch = tiled(name)
        rows = sketch.sample(np.random.default_rng(5), 12)
        predicted = shared_bytes(sketch.nests(rows)[0])
        for row, nbytes in zip(rows, predicted, strict=True):
            (entry,) = print_schedule(sketch, row).entries
            assert entry.shared_static + entry.shared_dynamic == nbytes
