"""Updates of registers by products: a shorter way to the same text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hosts import x86
from tests.te.workloads import conv2d_relu, matmul
from tilework import te
from tilework.kinds.cpu.llvm.expressions import Expressions
from tilework.kinds.cpu.llvm.program import generate_program
from tilework.kinds.cpu.llvm.updates import Updates
from tilework.kinds.cpu.lowering import LOWERING
from tilework.space import SearchSpace
from tilework.target import Target


def depthwise():
    data, weight = te.placeholder((1, 9, 9, 20), name="p0"), te.placeholder((3, 3, 20), name="p1")
    ry, rx = te.reduce_axis(3, "ry"), te.reduce_axis(3, "rx")
    out = te.compute(
        (1, 7, 7, 20),
        lambda n, y, x, c: te.sum(data[n, y + ry, x + rx, c] * weight[ry, rx, c], axis=[ry, rx]),
        name="out",
    )
    return [data, weight, out]


WORKLOADS = {
    "matmul": matmul(13, 64, 40, free=True),
    "conv": conv2d_relu(1, 6, 6, 8, 24),
    "depthwise": depthwise(),
}


def texts(dag, target):
    rng = np.random.default_rng(0)
    for sketch in SearchSpace.derive(dag, target).sketches:
        for row in sketch.sample(rng, 2):
            yield generate_program(LOWERING.lower(sketch, row).program, target).text


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_their_text_is_that_of_any_statement(name, level, monkeypatch):
    dag, target = te.ComputeDAG(WORKLOADS[name]), Target(x86(level, 2))
    asked = [0]
    value = Expressions.value

    def counted(self, e):
        asked[0] += 1
        return value(self, e)

    monkeypatch.setattr(Expressions, "value", counted)
    short, few = [*texts(dag, target)], asked[0]
    for way in ("emitted", "nest"):
        monkeypatch.setattr(Updates, way, lambda self, *_: False)
    asked[0] = 0
    assert short == [*texts(dag, target)]
    assert few < 0.8 * asked[0]
