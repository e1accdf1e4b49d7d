"""Random products on tensor cores, with random rows: right in checked mode, in two orders."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda.harness import assert_near, case_of, random_inputs, run_cases
from tests.kinds.cuda.mma.declared import A100, conv, einsum, matmul, sketches
from tilework.lower.protocol import lowering_of
from tilework.te.evaluate import evaluate

KINDS = ("bf16", "f16", "tf32")


def drawn(rng):
    """A random declaration; its result is stored in float32, so that nothing hides its error."""
    kind = str(rng.choice(KINDS))
    piece = 4 if kind == "tf32" else 8

    def some(*extents):
        return int(rng.choice(extents))

    match some(0, 1, 2, 3):
        case 0 | 1:
            shape = (some(1, 2), some(3, 6, 9, 13), some(4, 7, 10), piece * some(1, 2, 3, 5, 8))
            free = bool(rng.integers(2))
            co = some(8, 16, 51, 72) if free else 8 * some(1, 3, 6)
            k, d = some(1, 2, 3), some(1, 1, 2)
            pad = some(0, 1, 2) if (k - 1) * d < 3 else 2
            return conv(kind, shape, co, k, some(1, 1, 2), pad, d, free, out="float32")
        case 2:
            turned = str(rng.choice(["NN", "NT", "TN", "TT"]))
            m, n, k = piece * some(1, 4, 9), piece * some(1, 3, 8), piece * some(2, 5, 11)
            k += some(0, 0, 1, piece - 1)  # rows that are no whole pieces
            m = m if turned[0] == "T" else m + some(0, 1)
            n = n if turned[1] == "N" else n + some(0, 3)
            return matmul(kind, m, n, k, *turned, residual=bool(rng.integers(2)), out="float32")
        case _:
            heads, s, t, d = some(1, 3), some(9, 16), piece * some(2, 3), piece * some(2, 4)
            t += some(0, 1, 3)
            if rng.integers(2):
                return einsum(kind, "bshd,bthd->bhst", (2, s, heads, d), (2, t, heads, d))
            return einsum(kind, "bhst,bthd->bshd", (2, heads, s, t), (2, t, heads, d))


@pytest.mark.cuda_full
@pytest.mark.parametrize("seed", range(4))
def test_random_products_are_right(needs_compiler, seed):
    rng = np.random.default_rng(seed)
    cases, told = [], []
    while len(cases) < 40:
        dag = drawn(rng)
        for sketch in sketches(dag):
            for row in sketch.sample(rng, 2):
                inputs = random_inputs(dag)
                cases.append(case_of(lowering_of(A100).lower(sketch, row), inputs))
                told.append((f"{dag}{sketch.name} {row.tolist()}", evaluate(dag, inputs)[0]))
    for case, (found,), (what, want) in zip(cases, run_cases(cases), told, strict=True):
        assert_near(found, want, 1e-5, f"{what}\n{case.source.text}")
