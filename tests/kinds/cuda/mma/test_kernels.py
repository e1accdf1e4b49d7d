"""Kernels on tensor cores compute what is declared: checked threads in two orders."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda.harness import assert_near, case_of, random_inputs, run_one
from tests.kinds.cuda.mma.declared import A100, conv, einsum, matmul, row_of, sketches
from tilework.kinds.cuda.emulate.compile import compile_text
from tilework.kinds.cuda.emulate.run import Emulated
from tilework.kinds.cuda.features.population import block_counts
from tilework.kinds.cuda.mma.tile import Tiles
from tilework.kinds.cuda.source.printer import print_program
from tilework.lower.protocol import lowering_of
from tilework.te.evaluate import evaluate

SUMS = 1e-5
"""Of the largest element: products are exact, and sums are of float32 whatever their order."""

# name, declaration, which sketch (0: the whole sum), columns of the row
CASES = {
    "3x3": (conv("bf16", (1, 9, 9, 16), 32, out="float32"), 0,
            {"block_m": 32, "block_n": 32, "warp_m": 16, "warp_n": 16, "stages": 3}),
    "strided, ragged": (conv("f16", (2, 11, 10, 24), 40, s=2, out="float32"), 0,
                        {"block_m": 32, "block_n": 64, "warp_n": 32, "block_k": 32}),
    "dilated": (conv("tf32", (1, 10, 10, 12), 24, d=2, p=2), 0,
                {"block_m": 64, "warp_m": 32, "block_k": 16, "stages": 4}),
    "1x1": (conv("bf16", (1, 8, 8, 64), 51, k=1), 0,
            {"block_m": 64, "block_n": 64, "warp_m": 32, "block_k": 64, "stages": 2}),
    "weights that are no constants": (conv("tf32", (1, 7, 7, 16), 36, free=False), 0,
                                      {"block_m": 32, "block_n": 32, "warp_m": 32, "warp_n": 16}),
    "the same, 16 bits": (conv("f16", (1, 7, 7, 16), 40, free=False, out="float32"), 0,
                          {"block_n": 64, "warp_n": 32, "block_m": 16, "stages": 5}),
    "in parts": (conv("bf16", (1, 5, 5, 128), 32, out="float32"), 1,
                 {"block_m": 32, "block_n": 32, "warp_m": 16, "block_k": 64}),
    "in parts, tf32": (conv("tf32", (1, 5, 5, 128), 32), 1, {"block_m": 32, "block_k": 32}),
    "NT": (matmul("bf16", 40, 24, 72, b="T", residual=True), 0, {"block_m": 32, "block_k": 32}),
    "NT, constant": (matmul("tf32", 24, 20, 32, b="T", free=True), 0, {"stages": 2}),
    "NN": (matmul("tf32", 20, 44, 36), 0, {"block_n": 64, "warp_n": 32, "block_k": 8}),
    "TN": (matmul("tf32", 32, 20, 24, a="T", b="T"), 0, {"block_m": 32, "warp_m": 32}),
    "TN, 16 bits": (matmul("f16", 48, 40, 16, a="T", out="float32"), 0,
                    {"block_m": 64, "warp_m": 32, "block_n": 32, "block_k": 16}),
    "batches": (einsum("bf16", "bshd,bthd->bhst", (2, 24, 2, 16), (2, 17, 2, 16)), 0, {}),
    "batches, NN": (einsum("tf32", "bhst,bthd->bshd", (1, 2, 24, 20), (1, 20, 2, 16)), 0, {}),
}  # fmt: skip
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 0.0}


@pytest.fixture(scope="module")
def built(needs_compiler):
    """All cases by name, as (case, sketch, row), and a library of their kernels."""
    found, entries = {}, {}
    for name, (dag, which, wanted) in CASES.items():
        sketch = sketches(dag)[which]
        row = row_of(sketch, **wanted)
        case = case_of(lowering_of(A100).lower(sketch, row), random_inputs(dag))
        found[name] = case, sketch, row
    found[INSIDE] = inside()
    for case, _, _ in found.values():
        case.source = print_program(case.program)
        entries |= {e.name: e.text for e in case.source.entries}
    return found, Emulated(compile_text(list(entries.items()), checked=True))


@pytest.mark.parametrize("name", CASES)
def test_kernels_are_right_in_any_order_of_threads(built, name):
    case, sketch, _ = built[0][name]
    (found,), (again,) = (run_one(built[1], case, order) for order in (0, 1))
    assert found.tobytes() == again.tobytes()
    dag = CASES[name][0]
    (want,) = evaluate(dag, random_inputs(dag))
    bound = max(SUMS, ROUNDING[str(found.dtype)])
    assert_near(found, want, bound, f"{sketch.name}\n{case.source.text}")


INSIDE = "inside larger arrays"
"""Of a case whose first input and output have gaps between their rows."""


def test_operands_and_results_may_lie_in_larger_arrays(built):
    case, _, _ = built[0][INSIDE]
    dag, _, _ = CASES["3x3"]
    (want,) = evaluate(dag, random_inputs(dag))
    (found,) = run_one(built[1], case)
    (buffer,) = case.program.outputs
    assert_near(_seen(found, buffer), want, SUMS, INSIDE)


def _seen(array, buffer):
    """The elements of a buffer with gaps."""
    strides = [s * array.itemsize for s in buffer.strides]
    return np.lib.stride_tricks.as_strided(array, buffer.shape, strides)


def inside():
    """The first case with gaps behind the rows of data and result."""
    dag, which, wanted = CASES["3x3"]
    sketch = sketches(dag)[which]
    outputs = len(dag.inputs)
    apart = {i: (81 * n, 9 * n, n, 1) for i, n in ((0, 21), (outputs, 39))}
    lowered = lowering_of(A100).lower(sketch, row_of(sketch, **wanted), apart)
    inputs = random_inputs(dag)
    wide = np.zeros(lowered.program.inputs[0].reach, inputs[0].dtype)
    _seen(wide, lowered.program.inputs[0])[...] = inputs[0]
    found = case_of(lowered, [wide, *inputs[1:]])
    return found, sketch, None


def test_factors_of_tf32_are_rounded_and_float32_would_differ(built):
    dag = CASES["dilated"][0]
    (found,) = run_one(built[1], built[0]["dilated"][0])
    (exact,) = evaluate(dag, random_inputs(dag), "float64")  # nothing is rounded there
    error = np.abs(found - exact).max() / np.abs(exact).max()
    assert 2e-5 < error < 1e-3


class Traced:
    """A library that counts what kernels move instead of only running them."""

    def __init__(self, library):
        self.library, self.traffic = library, None

    def launch(self, name, grid, block, shared, pointers, order):
        self.traffic = self.library.trace(name, grid, block, shared, pointers)


@pytest.mark.parametrize("name", [n for n in CASES if "parts" not in n])
def test_wavefronts_of_shared_memory_are_as_counted(built, name):
    case, sketch, row = built[0][name]
    traced = Traced(built[1])
    run_one(traced, case)
    nest = sketch.nests(sketch.check(row))[0]
    counts, tiles = block_counts(nest, A100.limits), Tiles.of(nest)
    load, store = traced.traffic.shared_load, traced.traffic.shared_store
    assert load.instructions == counts.lds[0] * tiles.grid[0] * tiles.warps[0]
    assert load.units + store.units == counts.shared_wavefronts[0] * tiles.grid[0]
