"""Register tiles in AMX: which they are, what code they become, and that they compute the sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts import x86
from tests.kinds.cpu.guards import run_at
from tests.lower.check import (
    NATIVE,
    check_row,
    interpreted,
    random_inputs,
    task_of,
    unit_rows,
)
from tests.lower.test_bfloat16 import SEEDS, examples
from tests.lower.test_bytes import numbers, requantised
from tilework import ops, te
from tilework.index.symbols import symbol
from tilework.kinds.cpu.build import BUILDER, generate
from tilework.kinds.cpu.instructions import INSTRUCTIONS
from tilework.kinds.cpu.kernel_call import load_kernel
from tilework.kinds.cpu.llvm.assembler import emit_assembly
from tilework.kinds.cpu.llvm.matrix_unit import Assigned
from tilework.model.drafted import draft_schedule
from tilework.space import SearchSpace
from tilework.space.matrix_unit import in_unit
from tilework.target import Target
from tilework.te.points import at_point

AMX = x86("sapphirerapids", 1)
TYPES = {"uint8": "int8", "bfloat16": "bfloat16"}
needs_tiles = pytest.mark.skipif(
    not {"amx-int8", "amx-bf16"} <= Target("llvm").features,
    reason="this CPU lacks AMX, or the system does not let it be used",
)


def finished(out, inputs, kind, epilogue):
    if epilogue and kind == "uint8":
        return requantised(out, inputs)
    return ops.relu(out) if epilogue else out


def dense(m, n, k, kind="uint8", epilogue=True):
    inputs = [te.placeholder((m, k), "a", kind), te.placeholder((n, k), "b", TYPES[kind])]
    sums = {"sums": "int32"} if kind == "uint8" else {}
    out = ops.dense(*inputs, layout_free=True, **sums)
    out = finished(out, inputs, kind, epilogue)  # which adds inputs
    return te.ComputeDAG([*inputs, out])


def convolution(shape, window, n, kind="uint8", strides=(1, 1)):
    weights = te.placeholder((window, window, shape[-1], n), "w", TYPES[kind])
    inputs = [te.placeholder(shape, "x", kind), weights]
    pads, more = (window // 2,) * 4, {"sums": "int32", "fill": 117} if kind == "uint8" else {}
    out = ops.conv(*inputs, strides, pads, (1, 1), layout_free=True, **more)
    out = finished(out, inputs, kind, True)
    return te.ComputeDAG([*inputs, out])


def some(task, rng, count):
    """A few rows of each sketch in the unit."""
    for sketch in SearchSpace.of(task).sketches:
        rows = unit_rows(sketch, sketch.sample(rng, 400))
        for row in rows[rng.permutation(len(rows))[:count]]:
            yield sketch, row


def test_large_tiles_are_the_units():
    (block,) = (
        SearchSpace.of(task_of(dense(64, 128, 128, epilogue=False), AMX)).sketches[-1].blocks
    )
    rows, columns = (np.array(n) for n in zip(
        (1, 64), (8, 32), (23, 16), (16, 32), (31, 16), (32, 32), (13, 40), (32, 64), (64, 64),
        strict=True,
    ))  # fmt: skip
    assert in_unit(block, [rows, columns]).tolist() == [
        False, False, False, True, True, True, True, False, False,
    ]  # fmt: skip


def test_what_has_no_unit():
    lacks = x86("sapphirerapids -mattr=-amx-tile", 1)
    assert not {f for f in Target(lacks).features if f.startswith("amx")}
    padded = convolution((1, 9, 40, 64), 3, 32)
    for dag, target in ((dense(64, 64, 64), lacks), (dense(64, 64, 64, "bfloat16"), lacks)):
        blocks = [b for s in SearchSpace.of(task_of(dag, target)).sketches for b in s.blocks]
        assert all(b.matrix is None for b in blocks)
    blocks = [b for s in SearchSpace.of(task_of(padded, AMX)).sketches for b in s.blocks]
    assert any(b.matrix for b in blocks)  # of padding that is copied, not of tests at the border
    assert not any(b.matrix and b.bounds for b in blocks)


@pytest.mark.parametrize("instruction", [i for i in INSTRUCTIONS if i.rows > 1])
def test_no_register_is_two_things(instruction):
    for shape in (
        (1, 32, 32, 16), (1, 32, 24, 3), (1, 20, 9, 16), (1, 16, 64, 16), (1, 7, 72, 4),
        (1, 48, 16, 16), (2, 14, 32, 16), (2, 20, 16, 16), (3, 7, 16, 16),
    ):  # fmt: skip
        to = Assigned.of(instruction, shape)
        sums = {to.sums(i, j) for i in range(len(to.rows)) for j in range(len(to.columns))}
        assert len(sums) == len(to.rows) * len(to.columns)
        operands = (*to.left, *to.right)
        assert sums.isdisjoint(operands) and set(to.left).isdisjoint(to.right)
        assert max((*sums, *operands)) < 8
        waiting = to.left if len(to.rows) <= len(to.columns) else to.right
        assert len(set(waiting)) == len(waiting)
        table = to.table(shape[-1])
        assert [table[48 + r] for r in to.left] == list(to.rows)
        assert [table[16 + 2 * r] for r in to.right] == [4 * n for n in to.columns]


@pytest.mark.parametrize(("kind", "name"), [("uint8", "tdpbusd"), ("bfloat16", "tdpbf16ps")])
def test_the_draft_gives_many_rows_to_the_unit_and_one_to_vectors(kind, name):
    for m, used in ((128, True), (1, False)):
        task = task_of(dense(m, 768, 768, kind), AMX)
        choice = draft_schedule(task)
        sketch = SearchSpace.of(task).sketch(choice.sketch_id)
        assert (f"in {name}" in sketch.describe(choice.row)) == used
        source = generate(task, choice.sketch_id, choice.row)
        code = "".join(emit_assembly(part.text, task.target) for part in source.modules)
        assert (f"\t{name}\t" in code) == used
        assert code.count("tilerelease") == code.count("\ttilerelease") == used
        assert ("ldtilecfg" in code) == used


@pytest.mark.parametrize("kind", TYPES)
def test_what_the_unit_does_is_told_by_the_program(kind):
    rng = np.random.default_rng(0)
    dag = dense(20, 40, 64, kind)
    task, inputs = task_of(dag, AMX), random_inputs(dag, rng)
    want = te.evaluate(dag, inputs) if kind == "uint8" else te.evaluate(dag, inputs, "float64")
    for sketch, row in some(task, rng, 1):
        for outputs in interpreted(sketch, row, inputs):
            for got, expected in zip(outputs, want, strict=True):
                np.testing.assert_allclose(got, expected, 1e-5, 1e-5)


@st.composite
def computations(draw):
    kind = draw(st.sampled_from(sorted(TYPES)))
    n = draw(st.sampled_from([1, 17, 24, 40, 64, 72, 96]))
    if draw(st.booleans()):
        m, k = draw(st.integers(7, 70)), draw(st.sampled_from([16, 36, 64, 80, 128, 192, 240]))
        return dense(m, n, k, kind, draw(st.booleans()))
    channels, window = draw(st.sampled_from([16, 64, 80, 128])), draw(st.sampled_from([1, 1, 3]))
    shape = (draw(st.integers(1, 2)), draw(st.integers(3, 6)), draw(st.integers(5, 40)), channels)
    return convolution(shape, window, n, kind, draw(st.sampled_from([(1, 1), (2, 2)])))


@needs_tiles
@examples(60)
@given(computations(), st.sampled_from([NATIVE, "llvm -num-cores=1"]), SEEDS, st.booleans())
def test_the_unit_computes_the_sums(dag, target, seed, extremes):
    rng, exact = np.random.default_rng(seed), dag.inputs[0].dtype == "uint8"
    inputs = numbers(dag, rng, extremes) if exact else random_inputs(dag, rng)
    want = te.evaluate(dag, inputs) if exact else te.evaluate(dag, inputs, "float64")
    task = task_of(dag, target)
    for sketch, row in some(task, rng, 1):
        assert "@llvm.x86.tdp" in generate(task, sketch.id, row).text
        check_row(task, sketch, row, inputs, want, threads=(1, 2), with_interpreter=False)


@needs_tiles
@pytest.mark.parametrize("kind", TYPES)
def test_rows_that_a_run_decides(kind):
    """Nothing behind the arrays is read, though registers have room for more rows."""
    dag = dense(symbol("rows", 1, 90, (50,)), 40, 128, kind)
    task, rng, (rows,) = task_of(dag), np.random.default_rng(3), dag.symbols
    for sketch, row in some(task, rng, 2):
        loaded = load_kernel(BUILDER.build(task, sketch.id, row))
        for n in (1, 2, 15, 16, 17, 33, 64, 90):
            static = at_point(dag, {rows: n})
            inputs = random_inputs(static, rng)
            want = te.evaluate(static, inputs, None if kind == "uint8" else "float64")
            for got, expected in zip(
                run_at(loaded, {rows: n}, inputs, 2, True), want, strict=True
            ):
                np.testing.assert_allclose(got, expected, 1e-5, 1e-5)
