"""Programs whose extents a run decides, interpreted at many points of their ranges."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check import any_rows, assert_close, random_inputs
from tests.lower.open_families import FAMILIES
from tilework import te
from tilework.index.symbols import Symbol
from tilework.lower.interpret import interpret
from tilework.lower.protocol import lowering_of
from tilework.lower.serial import program_from_json, program_to_json
from tilework.space import SearchSpace, Sketch
from tilework.target import Target
from tilework.task import SearchTask
from tilework.te.points import at_point

TARGETS = ("reference -num-cores=2", "llvm -num-cores=2 -mcpu=skylake-avx512")
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)


def any_value(symbol: Symbol, rng: np.random.Generator) -> int:
    """An end of the range, a prime, or near a multiple of a tile."""
    near = rng.choice([4, 8, 16, 32, 48]) + rng.integers(-1, 2)
    found = [symbol.low, symbol.high, rng.choice(PRIMES), near, rng.integers(1, symbol.high + 1)]
    return int(min(max(rng.choice(found), symbol.low), symbol.high))


def check_points(sketch: Sketch, row, dag: te.ComputeDAG, rng, n: int) -> None:
    """A row's program against the computation at some points."""
    lowered = lowering_of(sketch.target).lower(sketch, row)
    program = program_from_json(program_to_json(lowered.program))
    for _ in range(n):
        at = {s: any_value(s, rng) for s in dag.symbols}
        static = at_point(dag, at)
        inputs = random_inputs(static, rng)
        want = te.evaluate(static, inputs, "float64")
        packed = [lowered.packing[i].apply(a) if i in lowered.packing else a
                  for i, a in enumerate(inputs)]  # fmt: skip
        what = f"{dag}sketch {sketch.id} ({sketch.name}) row {[int(x) for x in row]} at {at}"
        try:
            got = interpret(program, packed, at=at, threads=2, reverse=True)
        except Exception as error:
            raise AssertionError(what) from error
        assert_close(got, want, what, 1e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_one_program_is_right_at_every_point(family, target):
    dag, rng = family(), np.random.default_rng(5)
    space = SearchSpace.of(SearchTask(dag, Target(target)))
    chosen = rng.permutation(len(space.sketches))[:4]
    for sketch in (space.sketches[i] for i in chosen):
        rows = np.concatenate([sketch.sample(rng, 1), any_rows(sketch, rng, 1)])
        assert len(rows)
        for row in rows:
            check_points(sketch, row, dag, rng, 2)
