"""Rows that mean the same have the same text, and other rows have another one."""

from __future__ import annotations

import numpy as np

import tilework as tw
from tests.kinds.cuda.harness import print_schedule
from tests.kinds.cuda.nests import A100
from tests.kinds.cuda.test_tiled import tiled
from tests.kinds.cuda.tiled_cases import CASES
from tilework.space import SearchSpace


def sketches():
    """Of every form that rows may be redundant in."""
    yield from (tiled(name, A100)[1] for name in CASES)
    tasks, _ = tw.extract_tasks(tw.zoo.get("mobilenet", batch=1), A100)
    for task in (tasks[0], tasks[1], tasks[-2], tasks[-1]):
        yield from SearchSpace.of(task).sketches


def test_canonical_rows_print_the_same_text_and_others_another():
    for seed, sketch in enumerate(sketches()):
        rows = sketch.sample(np.random.default_rng(seed), 3)
        plain = sketch.canonical(rows)
        other = sketch.mutate(np.random.default_rng(seed), rows)
        for a, b, c, d in zip(rows, plain, other, sketch.canonical(other), strict=True):
            text = print_schedule(sketch, a).code_hash
            assert print_schedule(sketch, b).code_hash == text, (sketch.name, a, b)
            assert (print_schedule(sketch, c).code_hash == text) == (b == d).all(), (a, c)
