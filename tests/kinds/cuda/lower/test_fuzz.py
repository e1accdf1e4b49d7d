"""Random computations of many kinds, in checked mode and in two orders of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kinds.cuda.harness import case_of, run_cases
from tests.lower import computations, element_types, gathers
from tests.lower.check import random_inputs
from tilework import ops, te
from tilework.dtypes import is_float
from tilework.lower.protocol import lowering_of
from tilework.space import SearchSpace
from tilework.target import Target

A100 = Target("cuda -model=a100")


@st.composite
def row_chains(draw):
    """Reductions along any axes of any shape, with what is made of them."""
    sizes = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64])
    shape = tuple(draw(st.lists(sizes, min_size=1, max_size=4)))
    places = st.integers(0, len(shape) - 1)
    x, axis, axes = te.placeholder(shape, "x"), draw(places), sorted({draw(places), draw(places)})
    match draw(st.sampled_from(["softmax", "log", "hard", "norm", "rms", "arg", "mean", "lse"])):
        case "softmax":
            mask = te.placeholder(tuple(draw(st.sampled_from([1, n])) for n in shape), "mask")
            return te.ComputeDAG([x, mask, ops.softmax(ops.relu(ops.add(x, mask)), axis)])
        case "log":
            y = ops.log_softmax(x, axis)
        case "hard":
            y = ops.hardmax(x, axis)
        case "norm":
            y = ops.normalize(x, axes, 1e-5)
        case "rms":
            y = ops.normalize(x, axes, 1e-5, center=False)
        case "arg":
            kind, last = draw(st.sampled_from(["max", "min"])), draw(st.booleans())
            y = ops.arg_extremum(x, kind, axis, draw(st.booleans()), last)
        case "mean":
            y = ops.subtract(x, ops.reduce(x, "mean", axes, True))
        case _:
            y = ops.reduce(x, "log_sum_exp", axes, draw(st.booleans()))
    return te.ComputeDAG([x, y])


FAMILIES = {
    **{
        name: (getattr(computations, name), random_inputs)
        for name in (
            "convolutions", "winograd_convolutions", "depthwise_convolutions", "windows",
            "products", "pools", "reductions", "softmaxes", "elementwise", "integers", "networks",
        )
    },
    "row_chains": (row_chains, random_inputs),
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
