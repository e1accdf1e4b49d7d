"""Products of packed weights and data of bytes: sums of integers, scaled a block at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import runs, runs_x86, x86
from tests.kinds.cpu.guards import run_at
from tests.lower.check import NATIVE, check_any_schedule, check_row, interpreted, task_of
from tests.lower.test_bfloat16 import SEEDS, examples
from tests.lower.test_matrix_unit import AMX, needs_tiles, some
from tests.lower.test_scaled import numbers
from tilework import te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.build import BUILDER, generate
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.measure.inputs import draw_inputs
from tilework.model.drafted import draft_schedule
from tilework.ops.packed import byte_dense, byte_order, counts_from
from tilework.space import SearchSpace
from tilework.te.points import at_point
from tilework.te.tensor import Tensor

CPUS = ("icelake-server", "skylake-avx512", "haswell")
TARGETS = [NATIVE, *(x86(cpu, 2) for cpu in CPUS if runs(cpu))]


def product(m, blocks: int, words: int, n: int, bits: int, zeros: str) -> te.ComputeDAG:
    inputs: list[Tensor] = [te.placeholder((blocks, m, words * 32 // bits), "x", "int8")]
    inputs += [te.placeholder((m, blocks), name) for name in ("scales", "totals")]
    inputs.append(te.placeholder((n, blocks, words), "q", "int32"))
    inputs.append(te.placeholder((n, blocks), "s"))
    if zeros:
        inputs.append(te.placeholder((n, blocks), "z", zeros))
    return te.ComputeDAG([*inputs, byte_dense(*inputs, bits=bits, layout_free=True)])


def drawn(dag: te.ComputeDAG, rng: np.random.Generator) -> list[np.ndarray]:
    """Inputs; totals are those of the data where zero points may be taken from either."""
    x, scales, totals, q, *others = numbers(dag, rng)
    start = counts_from(32 * q.shape[2] // x.shape[2], "uint8")
    if start is not None and others[-1].dtype == np.uint8:
        totals = (-start * x.sum(2).T * scales).astype(np.float32)
    return [x, scales, totals, q, *others]


@st.composite
def products(draw, rows=(1, 2, 5, 13), words=(1, 2, 4, 6), columns=(1, 3, 16, 17, 40)):
    sizes = [draw(st.sampled_from(c)) for c in (rows, [1, 2, 3, 8], words)]
    zeros = draw(st.sampled_from(["", "uint8", "float32"]))
    return product(*sizes, draw(st.sampled_from(columns)), draw(st.sampled_from([4, 8])), zeros)


@runs_x86
@examples(24)
@given(products(), st.sampled_from(TARGETS), SEEDS)
def test_any_schedule_is_right(dag, target, seed):
    check_any_schedule(dag, target, seed, drawn)


@needs_tiles
@examples(16)
@given(products((7, 20, 33, 64), (4, 8, 16, 20), (1, 17, 24, 64, 72)), SEEDS)
def test_the_matrix_unit_is_right(dag, seed):
    rng = np.random.default_rng(seed)
    task, inputs = task_of(dag, NATIVE), drawn(dag, rng)
    want = te.evaluate(dag, inputs, "float64")
    for sketch, row in some(task, rng, 1):
        assert "@llvm.x86.tdpbsud" in generate(task, sketch.id, row).text
        check_row(task, sketch, row, inputs, want, threads=(1, 2), with_interpreter=False)


@pytest.mark.parametrize("bits", [4, 8])
def test_what_the_unit_does_is_told_by_the_program(bits):
    rng = np.random.default_rng(0)
    dag = product(20, 4, bits, 40, bits, "uint8")
    task, inputs = task_of(dag, AMX), drawn(dag, rng)
    want = te.evaluate(dag, inputs, "float64")
    rows = list(some(task, rng, 1))
    assert rows
    for sketch, row in rows:
        for outputs in interpreted(sketch, row, inputs):
            for got, expected in zip(outputs, want, strict=True):
                scale = np.abs(expected).max()
                np.testing.assert_allclose(got / scale, expected / scale, 0, 1e-5)


@runs_x86
def test_rows_that_a_run_decides():
    dag = product(symbol("rows", 1, 70, (40,)), 4, 4, 40, 4, "uint8")
    task, rng, (rows,) = task_of(dag), np.random.default_rng(3), dag.symbols
    sketches = SearchSpace.of(task).sketches
    chosen = [(s, s.sample(rng, 1)[0]) for s in sketches] + list(some(task, rng, 1))
    for sketch, row in chosen:
        loaded = load_kernel(BUILDER.build(task, sketch.id, row))
        for n in (1, 2, 16, 17, 33, 70):
            static = at_point(dag, {rows: n})
            inputs = drawn(static, rng)
            want = te.evaluate(static, inputs, "float64")
            for got, expected in zip(
                run_at(loaded, {rows: n}, inputs, 2, True), want, strict=True
            ):
                scale = np.abs(expected).max()
                np.testing.assert_allclose(got / scale, expected / scale, 0, 1e-5)


def test_one_row_that_is_left_over_stays_with_vectors():
    """Its weights would be unpacked to memory for it alone."""
    task = task_of(product(symbol("rows", 1, 70, (40,)), 4, 8, 64, 4, ""), AMX)
    rows = list(some(task, np.random.default_rng(0), 1))
    assert rows
    for sketch, row in rows:
        text = generate(task, sketch.id, row).text
        assert "tdpbsud" in text and "vpdpbusd" in text


@pytest.mark.parametrize(
    ("cpu", "rows", "instruction"),
    [
        ("icelake-server", 1, "vpdpbusd"),
        ("icelake-server", 64, "vpdpbusd"),
        ("sapphirerapids", 1, "vpdpbusd"),
        ("sapphirerapids", 64, "tdpbsud"),
        ("haswell", 4, "vpmaddwd"),
    ],
)
@pytest.mark.parametrize("bits", [4, 8])
def test_the_draft_takes_instructions_of_bytes(cpu, rows, instruction, bits):
    task = task_of(product(rows, 8, bits, 64, bits, ""), x86(cpu, 1))
    choice = draft_schedule(task)
    source = generate(task, choice.sketch_id, choice.row)
    code = "".join(emit_assembly(m.text, task.target) for m in source.modules)
    assert f"\t{instruction}\t" in code and "vpmulld" not in code


@pytest.mark.parametrize(("rows", "added"), [(1, False), (64, True)])
def test_zero_points_of_4_bits_are_in_the_weights_of_many_rows(rows, added):
    task = task_of(product(rows, 8, 4, 64, 4, "uint8"), x86("icelake-server", 1))
    choice = draft_schedule(task)
    source = generate(task, choice.sketch_id, choice.row)
    code = "".join(emit_assembly(m.text, task.target) for m in source.modules)
    assert ("\tvpaddb\t" in code, "\tvmulps\t" in code) == (added, not added)


def test_a_search_draws_totals_of_its_data():
    x, scales, totals, *_ = draw_inputs(product(2, 3, 4, 8, 4, "uint8"), 1, -1.0, {})
    np.testing.assert_allclose(totals, -15 * x.sum(2).T * scales, rtol=1e-6)
    assert np.abs(totals).max() > 1


def test_numbers_of_four_bits_are_ordered():
    """Element t in byte t % 4, the first four in the lower bits."""
    rng = np.random.default_rng(0)
    words = rng.integers(-(2**31), 2**31, (3, 5, 4)).astype(np.int32)
    got, kept = byte_order(words, 4).view(np.uint32), words.view(np.uint32)
    for t in range(8):
        np.testing.assert_array_equal(got >> (8 * (t % 4) + t // 4 * 4) & 15, kept >> 4 * t & 15)
    np.testing.assert_array_equal(byte_order(words, 8), words)


@pytest.mark.parametrize(("bits", "instruction"), [(4, "vpmaddubsw"), (8, "vpmaddwd")])
def test_weights_of_4_bits_fit_sums_of_16(bits, instruction):
    task = task_of(product(8, 4, 8, 64, bits, ""), x86("haswell", 1))
    choice = draft_schedule(task)
    source = generate(task, choice.sketch_id, choice.row)
    code = "".join(emit_assembly(m.text, task.target) for m in source.modules)
    assert f"\t{instruction}\t" in code
    assert bits == 4 or "pmaddubsw" not in code
