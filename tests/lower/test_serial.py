"""Loop programs as text: what was written is what is read, and nothing else is accepted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given

from tests.lower import computations as c
from tests.lower.check import random_inputs, task_of
from tests.lower.test_programs import ANY, SEEDS, examples
from tilework.kinds.cpu.instructions import instructions_of
from tilework.lower.interpret import interpret
from tilework.lower.ir import Buffer, Dot, For, Load, Program, Region, Store
from tilework.lower.protocol import lowering_of
from tilework.lower.serial import ProgramFormatError, program_from_json, program_to_json
from tilework.space import SearchSpace
from tilework.te.expr import Axis, Const, binary


def check(dag, seed, target):
    """A random schedule's program, written and read, is the same program."""
    task, rng = task_of(dag, target), np.random.default_rng(seed)
    sketches = SearchSpace.of(task).sketches
    sketch = sketches[int(rng.integers(len(sketches)))]
    (row,) = sketch.sample(rng, 1)
    lowered = lowering_of(task.target).lower(sketch, row)
    text = program_to_json(lowered.program)
    again = program_from_json(text)
    assert program_to_json(again) == text
    inputs = [
        lowered.packing[i].apply(a) if i in lowered.packing else a
        for i, a in enumerate(random_inputs(dag, rng))
    ]
    for got, want in zip(
        interpret(again, inputs, threads=2),
        interpret(lowered.program, inputs, threads=2),
        strict=True,
    ):
        assert got.tobytes() == want.tobytes()


@examples(25)
@given(ANY, SEEDS)
def test_programs_for_cpus_and_for_the_interpreter(dag, seed):
    check(dag, seed, "reference -num-cores=2")
    check(dag, seed, "llvm -num-cores=2")


@examples(4)
@given(c.winograd_convolutions(), SEEDS)
def test_constant_transforms(dag, seed):
    check(dag, seed, "llvm -num-cores=2")


def scale(factor=2.0):
    """``B[i] = A[i] * factor``."""
    i = Axis("int32", "i", 8, "spatial")
    a, b = (Buffer(n, (8,), "float32", s) for n, s in (("A", "input"), ("B", "output")))
    value = binary("*", Load("float32", a, (i,)), Const("float32", factor))
    body = For(i, 8, "vector", Store(b, (i,), value))
    return Program((a,), (b,), (), (Region("B", (), body),))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 1e-45, 0.1])
def test_literals_of_any_value(value):
    again = program_from_json(program_to_json(scale(value)))
    (got,) = interpret(again, [np.ones(8, np.float32)])
    np.testing.assert_array_equal(got, np.full(8, value, np.float32))


def test_an_expression_of_any_depth_and_what_is_shared_is_written_once():
    i = Axis("int32", "i", 8, "spatial")
    out = Buffer("out", (8,), "float32", "output")
    value = Const("float32", 1.0)
    for _ in range(5000):
        value = binary("+", value, value)
    text = program_to_json(Program((), (out,), (), (Region("r", (), Store(out, (i,), value)),)))
    assert len(json.loads(text)["nodes"]) == 5002
    assert program_to_json(program_from_json(text)) == text


def test_an_instruction_is_written_as_what_it_means():
    (pairs,) = instructions_of(())
    i = Axis("int32", "i", 8, "spatial")
    a, b = (Buffer(n, (8, 2), "bfloat16", "input") for n in "AB")
    out = Buffer("out", (8,), "float32", "output")
    left, right = ([Load(x.dtype, x, (i, Const("int32", k))) for k in (0, 1)] for x in (a, b))
    dot = Dot.of(pairs, Load("float32", out, (i,)), left, right)
    body = For(i, 8, "serial", Store(out, (i,), binary("max", dot, Const("float32", 0.0))))
    text = program_to_json(Program((a, b), (out,), (), (Region("out", (), body),)))
    assert program_to_json(program_from_json(text)) == text


def broken(change):
    document = json.loads(program_to_json(scale()))
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="tilework-program-0"), "its format is 'tilework-program-0'"),
        (lambda d: d.update(nodes=None), "at nodes: a list is expected"),
        (lambda d: d["nodes"].insert(0, ["load", 0, 0]), "node 0: 0 is no whole number"),
        (lambda d: d["nodes"].__setitem__(0, ["read", 0, 1]), "node 0: tag 'read'"),
        (lambda d: d["nodes"].__setitem__(0, ["eval", "bool"]), "node 0: tag 'eval'"),
        (lambda d: d["nodes"].__setitem__(0, []), "node 0: an expression is expected"),
        (lambda d: d["buffers"][0].__setitem__(1, [2**30, 2**30]), "buffers 0: the buffer is too"),
        (lambda d: d["buffers"][0].__setitem__(1, [-1]), "buffers 0: -1 is no whole number"),
        (lambda d: d["buffers"][0].__setitem__(2, "float8"), "buffers 0: 'float8' is no element"),
        (lambda d: d["buffers"][0].__setitem__(3, "secret"), "buffers 0: 'secret' is unknown"),
        (lambda d: d["regions"][0].__setitem__(2, ["exec", 0]), "regions 0: tag 'exec'"),
        (lambda d: d["regions"][0][2].__setitem__(3, "wild"), "regions 0: 'wild' is unknown"),
        (lambda d: d["regions"][0][2].__setitem__(1, 7), "regions 0: 7 is no whole number"),
        (lambda d: d.update(inputs=[9]), "at inputs: 9 is no whole number"),
    ],
)
def test_a_document_that_is_wrong_says_where(change, message):
    with pytest.raises(ProgramFormatError, match=message.replace("[", r"\[")):
        program_from_json(broken(change))


@pytest.mark.parametrize("text", ["", "[", "[]", "[" * 100_000, b"\xff\x00"])
def test_what_is_no_document(text):
    with pytest.raises(ProgramFormatError):
        program_from_json(text)


def test_a_statement_nested_too_deeply():
    nested = ["seq", ["store", 1, [0], 3]]
    for _ in range(300):
        nested = ["seq", nested]
    with pytest.raises(ProgramFormatError, match="nested too deeply"):
        program_from_json(broken(lambda d: d["regions"][0].__setitem__(2, nested)))
