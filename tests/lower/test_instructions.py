"""Instructions as data: a row and an emitter are all that another one takes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.check import check_row, reference, task_of
from tilework import te
from tilework.kinds.cpu import instructions
from tilework.kinds.cpu.build import generate
from tilework.kinds.cpu.llvm import instructions as emitters
from tilework.kinds.cpu.llvm import matrix_unit
from tilework.kinds.cpu.llvm.ssa import vector_type
from tilework.lower.ir import Dot
from tilework.space import SearchSpace
from tilework.space.instructions import Instruction
from tilework.target import Target
from tilework.te.expr import Const

BYTES = Instruction(
    "of_a_test", "uint8", "int8", "int32", terms=4, needs="avx512vnni", widths=(4, 8, 16)
)


def emit_bytes(arith, row, acc, left, right):
    groups, words = vector_type("int8", 4 * acc.width), vector_type("int32", acc.width)
    a, b = (arith.fn.emit(f"bitcast {groups} {v} to {words}") for v in (left, right))
    return emitters._called(arith, row, "llvm.x86.avx512.vpdpbusd", acc, a, b, "int32", 1)


def product(m, n, k, *, swapped=False):
    a, w = te.placeholder((m, k), "a", "uint8"), te.placeholder((k, n), "w", "int8")
    at = te.reduce_axis(k, "k")

    def point(i, j):
        factors = te.cast("int32", a[i, at]), te.cast("int32", w[at, j])
        return te.sum(factors[swapped] * factors[not swapped], at)

    return te.ComputeDAG([a, w, te.compute((m, n), point, "c", {"layout_free": ("w",)})])


def test_every_row_has_an_emitter():
    names = {i.name for i in instructions.INSTRUCTIONS}
    assert names == emitters.INSTRUCTIONS.keys() | matrix_unit.PRODUCTS.keys()


def test_the_first_row_that_a_target_has_is_offered():
    assert [i.name for i in instructions.instructions_of(())] == ["bfloat16_pairs"]
    both = instructions.instructions_of({"avx512bf16", "sse2"})
    words = ["vpmaddwd", "vpmaddwd_quads", "vpmaddwd_pairs"]
    assert [i.name for i in both] == ["vdpbf16ps", "bfloat16_pairs", *words]
    vex = instructions.instructions_of({"avxvnni", "sse2"})
    assert [i.name for i in vex] == ["bfloat16_pairs", "vpdpbusd_vex", *words]


def test_factors_are_found_in_either_order_and_of_these_types_alone():
    a, b = Const("uint8", 3), Const("int8", -2)
    wide = [te.cast("int32", e) for e in (a, b)]
    source = te.expr.Binary("int32", "*", *wide)
    assert BYTES.factors(source) == (a, b)
    assert BYTES.factors(te.expr.Binary("int32", "*", *wide[::-1])) == (a, b)
    assert BYTES.factors(te.expr.Binary("int32", "*", wide[0], wide[0])) is None
    assert BYTES.factors(te.expr.Binary("int32", "+", *wide)) is None


def test_a_rewritten_dot_stays_one():
    acc, a, b = Const("int32", 1), Const("uint8", 3), Const("int8", -2)
    dot = Dot.of(BYTES, acc, [a] * 4, [b] * 4)
    other = te.expr.substitute(dot, lambda e: Const("uint8", 5) if e is a else None)
    assert isinstance(other, Dot)
    assert [e.value for e in other.operands[0]] == [5] * 4
    assert dot.meaning is dot.meaning


@pytest.mark.skipif(
    "avx512vnni" not in Target("llvm").features, reason="this CPU lacks avx512vnni"
)
@pytest.mark.parametrize(
    "dag", [product(5, 33, 20), product(7, 16, 4), product(6, 40, 24, swapped=True)]
)
def test_a_row_and_an_emitter_are_all_that_products_of_bytes_take(dag, monkeypatch):
    monkeypatch.setattr(instructions, "INSTRUCTIONS", (BYTES,))
    monkeypatch.setitem(emitters.INSTRUCTIONS, BYTES.name, emit_bytes)
    task, rng = task_of(dag), np.random.default_rng(0)
    low = [np.iinfo(t.dtype).min for t in dag.inputs]
    inputs = [
        rng.integers(at, at + 256, t.shape).astype(t.dtype)
        for at, t in zip(low, dag.inputs, strict=True)
    ]
    want = reference(dag, inputs)
    for sketch in SearchSpace.of(task).sketches:
        assert any(b.dots is not None and b.dots.instruction is BYTES for b in sketch.blocks)
        for row in sketch.sample(rng, 3):
            check_row(task, sketch, row, inputs, want)
            assert "vpdpbusd" in generate(task, sketch.id, row).text
