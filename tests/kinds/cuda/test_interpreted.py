"""Programs for GPUs mean what is declared: the interpreter runs blocks of threads in NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kinds.cuda import families
from tests.kinds.cuda.block_machine import BlockMachine
from tests.kinds.cuda.harness import assert_near, case_of, random_inputs
from tests.kinds.cuda.mma.declared import A100, row_of, sketches
from tests.kinds.cuda.mma.test_kernels import CASES, ROUNDING, SUMS
from tilework import te
from tilework.kinds.cuda.mma.instructions import INSTRUCTIONS
from tilework.lower import ir
from tilework.lower.interpret import interpret
from tilework.lower.interpret_places import ProgramError
from tilework.lower.protocol import lowering_of
from tilework.space import SearchSpace
from tilework.te.evaluate import evaluate


def run(program, inputs):
    return interpret(program, inputs, machine=BlockMachine)


def lowered(name):
    dag, which, wanted = CASES[name]
    sketch = sketches(dag)[which]
    return dag, case_of(
        lowering_of(A100).lower(sketch, row_of(sketch, **wanted)), random_inputs(dag)
    )


@pytest.mark.parametrize("name", CASES)
def test_tensor_cores(name):
    dag, case = lowered(name)
    (found,) = run(case.program, case.inputs)
    (want,) = evaluate(dag, random_inputs(dag))
    assert_near(found, want, max(SUMS, ROUNDING[str(found.dtype)]), name)


OTHERS = {
    "windows": families.depthwise(h=7, c=5, s=2), "pool": families.avg_pool(),
    "softmax": families.softmax(5, 100), "rows": families.layer_norm(6, 96),
    "whole map": families.global_pool(), "columns": families.columns(te.max, 40, 210),
    "gathered": families.gathered(), "bytes": families.elementwise("uint8", 6, 4),
    "Winograd": families.conv(h=6, ci=16),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_forms(name):
    dag = te.ComputeDAG(OTHERS[name])
    inputs, rng = random_inputs(dag), np.random.default_rng(0)
    want = evaluate(dag, inputs)
    for sketch in SearchSpace.derive(dag, A100).sketches:
        (row,) = sketch.sample(rng, 1)
        case = case_of(lowering_of(A100).lower(sketch, row), inputs)
        for a, b in zip(run(case.program, case.inputs), want, strict=True):
            assert_near(a, b, 1e-4, sketch.name)


def changed(program, change):
    """The program with statements replaced; None keeps one."""

    def visit(s):
        new = change(s)
        if new is not None:
            return new
        match s:
            case ir.Seq():
                return ir.Seq(tuple(map(visit, s.stmts)))
            case ir.For() | ir.Let():
                return replace(s, body=visit(s.body))
            case ir.If():
                return replace(s, then=visit(s.then), orelse=s.orelse and visit(s.orelse))
        return s

    regions = tuple(replace(r, body=visit(r.body)) for r in program.regions)
    return replace(program, regions=regions)


def test_copies_are_not_there_before_they_are_waited_for():
    _, case = lowered("3x3")
    program = changed(
        case.program, lambda s: ir.Wait(s.left + 1) if isinstance(s, ir.Wait) else None
    )
    (found,) = run(program, case.inputs)
    assert np.isnan(found).any()


def test_the_meaning_is_what_runs():
    dag, case = lowered("3x3")
    other = replace(INSTRUCTIONS["bf16"], meaning=lambda acc, left, right: acc)

    def change(s):
        multiplies = isinstance(s, ir.Intrinsic) and s.instruction is INSTRUCTIONS["bf16"]
        return replace(s, instruction=other) if multiplies else None

    (found,) = run(changed(case.program, change), case.inputs)
    *_, bias, residual = random_inputs(dag)
    np.testing.assert_allclose(found, np.maximum(bias + residual.astype(np.float32), 0), 1e-6)


def of_threads(body, out):
    thread = te.expr.Axis("int32", "thread", 64, "loop")
    region = ir.Region("r", (), body(thread), (thread,))
    return ir.Program((), (out,), (), (region,))


def test_a_barrier_that_some_threads_miss_is_an_error():
    out = ir.Buffer("out", (64,), "int32", "output")
    program = of_threads(
        lambda t: ir.Seq((ir.If(t < 32, ir.Barrier()), ir.Store(out, (t,), t))), out
    )
    with pytest.raises(ProgramError, match="32 of 64 threads"):
        run(program, [])


def test_threads_that_store_different_values_to_one_element_are_an_error():
    out = ir.Buffer("out", (64,), "int32", "output")
    with pytest.raises(ProgramError, match="different values"):
        run(of_threads(lambda t: ir.Store(out, (t // 2,), t), out), [])
