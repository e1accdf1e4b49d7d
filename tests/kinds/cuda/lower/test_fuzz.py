"""Random computations of many kinds, in checked mode and in two orders of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kinds.cuda.harness import case_of, run_cases
from tests.lower import computations, element_types, gathers
from tests.lower.check import random_inputs
from tilework import te
from tilework.dtypes import is_float
from tilework.lower.protocol import lowering_of
from tilework.space import SearchSpace
from tilework.target import Target

A100 = Target("cuda -model=a100")
FAMILIES = {
    **{
        name: (getattr(computations, name), random_inputs)
        for name in (
            "convolutions", "winograd_convolutions", "depthwise_convolutions", "windows",
            "products", "pools", "reductions", "softmaxes", "elementwise", "integers", "networks",
        )
    },
    "gathers": (gathers.gathers, lambda dag, rng: gathers.index_inputs(dag, 1)),
    "typed": (element_types.typed, lambda dag, rng: element_types.typed_inputs(dag, 1)),
    "typed_reductions": (
        element_types.typed_reductions,
        lambda dag, rng: element_types.typed_inputs(dag, 1),
    ),
}  # fmt: skip
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2}


def right(got: np.ndarray, want: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Which elements are near the value in double precision, or equal to the evaluator's."""
    if not is_float(str(got.dtype)):
        return got == want
    a, b = got.astype(np.float64), np.asarray(exact, np.float64)
    finite = np.isfinite(b)
    scale = max(1.0, float(np.abs(b[finite]).max(initial=0)))
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= TOLERANCE.get(str(got.dtype), 1e-4) * scale
        return near | (a == b) | (np.isnan(a) & np.isnan(b)) | (a == want.astype(np.float64))


@pytest.mark.cuda_full
@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("family", FAMILIES)
def test_random_computations(family):
    computation, arrays = FAMILIES[family]

    @settings(max_examples=16, deadline=None, suppress_health_check=list(HealthCheck))
    @given(computation(), st.integers(0, 2**16))
    def run(found, seed):
        dag = found[0] if isinstance(found, tuple) else found
        rng = np.random.default_rng(seed)
        inputs = arrays(dag, rng)
        sketches = SearchSpace.derive(dag, A100).sketches
        chosen = rng.permutation(len(sketches))[:2]
        rows = [(sketches[i], row) for i in chosen for row in sketches[i].sample(rng, 1)]
        assert rows
        cases = [case_of(lowering_of(A100).lower(s, row), inputs) for s, row in rows]
        want, exact = te.evaluate(dag, inputs), te.evaluate(dag, inputs, "float64")
        for (sketch, row), outputs in zip(rows, run_cases(cases), strict=True):
            for got, w, e in zip(outputs, want, exact, strict=True):
                good = right(got, np.asarray(w), e)
                assert good.all(), f"{sketch.name} {list(map(int, row))}"

    run()
