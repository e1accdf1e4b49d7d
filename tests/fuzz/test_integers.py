"""A few of the problems that ``benchmarks/fuzz/run.py --path integers`` draws by the thousand."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.fuzz.integer_kernels import differences
from tests.fuzz.integer_problems import draw, make
from tests.hosts import runs_x86
from tilework.target import Target

CPUS = [
    "llvm", "llvm -mattr=-amx-tile,-amx-int8,-amx-bf16", "llvm -mcpu=haswell",
    "llvm -mcpu=x86-64",
]  # fmt: skip


@runs_x86
@pytest.mark.parametrize("part", range(2))
def test_every_bit_is_that_of_the_integers(part):
    wrong = {seed: differences(draw(seed, CPUS)) for seed in range(part, 20, 2)}
    assert not any(wrong.values()), wrong


def test_the_definition_is_the_standards():
    """Where the standard's own evaluator sums integers, it says the same."""
    seen = 0
    for seed in range(150):
        problem = draw(seed)
        if problem.form != "integer" or problem.channel or problem.data != "uint8":
            continue
        made = make(problem)
        feed = dict(zip((i.name for i in made.model.graph.input), made.inputs, strict=True))
        (got,) = ReferenceEvaluator(made.model).run(None, feed)
        np.testing.assert_array_equal(got, made.want[0])
        seen += 1
    assert seen > 5


@runs_x86
def test_problems_are_of_all_kinds():
    problems = [draw(seed) for seed in range(400)]
    features = [Target(p.target).features for p in problems[:40]]
    assert any("avx512vnni" in f for f in features) or "avx512f" not in Target("llvm").features
    for name in ("form", "rank", "data", "weight", "result", "computed", "bias", "tail", "ranged"):
        assert len({getattr(p, name) for p in problems}) > 1
    assert isinstance(make(problems[0]).model, onnx.ModelProto)
