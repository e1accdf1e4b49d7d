"""CUDA C of programs made by hand: vectors, shared memory, names, launches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kinds.cuda.harness import Case, run_cases
from tilework import te
from tilework.errors import ScheduleError
from tilework.kinds.cuda.launches import launches_from_json, launches_to_json
from tilework.kinds.cuda.source.printer import print_program
from tilework.lower import ir
from tilework.lower.common import const, load, weighted_sum
from tilework.te.expr import Axis, Binary, Const, IfThenElse, binary, compare

N = 64


def var(name, extent):
    return Axis("int32", name, extent, "loop")


def copy(value, n=N, size=4, inputs=("a",), out_shape=(N,), guard=None, name="t"):
    """out[size*t + v] = value(buffers, index, v) for each thread t, v in a vector loop."""
    thread, lane = var(name, n // size), var("v", size)
    buffers = [ir.Buffer(i, (n,), "float32", "input") for i in inputs]
    out = ir.Buffer("out", out_shape, "float32", "output")
    at = weighted_sum([(thread, size), (lane, 1)])
    store = ir.Store(out, (at,), value(*buffers, at))
    body = store if guard is None else ir.If(guard(at), store)
    region = ir.Region("r", (), ir.For(lane, size, "vector", body), (thread,))
    return ir.Program(tuple(buffers), (out,), (), (region,))


def text(program):
    return print_program(program).text


def test_neighbours_are_one_access():
    found = text(copy(lambda a, i: load(a, (i,)) + load(a, (i,))))
    assert found.count("TW_LD4(") == 1
    assert found.count("TW_ST4(") == 1
    assert "TW_LD(" not in found


def test_what_is_not_aligned_is_loaded_by_itself():
    def shifted(a, i):
        return IfThenElse("float32", i < N - 1, load(a, (i + 1,)), Const("float32", 0.0))

    found = text(copy(shifted))
    assert "TW_LD4(" not in found
    assert found.count("TW_LD(") == 4
    assert "TW_ST4(" in found


def test_arguments_inside_larger_arrays_may_begin_anywhere():
    program = copy(lambda a, i: load(a, (i,)))
    (a,), (out,) = program.inputs, program.outputs
    inside = ir.Buffer("a", a.shape, a.dtype, "input", own_strides=(1,))
    (region,) = program.regions
    loop = region.body
    store = ir.Store(out, loop.body.indices, load(inside, loop.body.indices))
    moved = ir.Region("r", (), ir.For(loop.var, 4, "vector", store), region.threads)
    found = text(ir.Program((inside,), (out,), (), (moved,)))
    assert "TW_LD4(" not in found
    assert "TW_ST4(" in found


@pytest.mark.parametrize(("bound", "once"), [(N - 8, True), (N - 6, False)])
def test_a_condition_is_asked_once_where_no_vector_is_cut(bound, once):
    found = text(copy(lambda a, i: load(a, (i,)), guard=lambda i: compare("<", i, const(bound))))
    assert found.count("if (") == (1 if once else 4)
    assert ("TW_ST4(" in found) == once


@pytest.mark.usefixtures("needs_compiler")
def test_vectors_compute_what_they_say():
    """Guards on one side, on both, of loads and of stores; all sizes and positions."""
    zero, rng = Const("float32", 0.0), np.random.default_rng(0)
    values = {
        "plain": lambda a, b, i: load(a, (i,)) * load(b, (i,)),
        "guarded": lambda a, b, i: IfThenElse(
            "float32", te.all(i >= 8, i < 56), load(a, (i - 8,)), zero
        ),
        "cut": lambda a, b, i: IfThenElse("float32", i < 50, load(a, (i + 14,)), zero),
        "sides": lambda a, b, i: IfThenElse(
            "float32", i < 32, load(a, (i + 32,)), load(b, (i - 32,))
        ),
        "nested": lambda a, b, i: IfThenElse(
            "float32", i < 60, IfThenElse("float32", i >= 4, load(a, (i - 4,)), zero), zero
        ),
        "turned": lambda a, b, i: load(a, (const(N - 1) - i,)),
        "divided": lambda a, b, i: load(a, (Binary("int32", "//", i, const(2)),)) + load(b, (i,)),
    }
    a, b = rng.standard_normal((2, N)).astype(np.float32)
    i = np.arange(N)
    pick = np.where
    expected = {
        "plain": a * b,
        "guarded": pick((i >= 8) & (i < 56), a[(i - 8) % N], 0),
        "cut": pick(i < 50, a[(i + 14) % N], 0),
        "sides": pick(i < 32, a[(i + 32) % N], b[(i - 32) % N]),
        "nested": pick((i < 60) & (i >= 4), a[(i - 4) % N], 0),
        "turned": a[::-1],
        "divided": a[i // 2] + b,
    }
    cases, wanted = [], []
    for name, value in values.items():
        for size in (2, 4):
            cases.append(Case(copy(value, size=size, inputs=("a", "b")), [a, b]))
            wanted.append((name, expected[name]))
    for case in cases:  # what is not read is no parameter
        case.source = print_program(case.program)
    for (name, right), (found,) in zip(wanted, run_cases(cases), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6, err_msg=name)


def shared_program(elements, dtype="float32"):
    """Each thread writes an element of shared memory and reads its neighbour's."""
    thread = var("t", 64)
    a, out = ir.Buffer("a", (64,), dtype, "input"), ir.Buffer("b", (64,), dtype, "output")
    s = ir.Buffer("s", (elements,), dtype, "block")
    other = binary("-", const(63), thread)
    body = ir.seq(
        ir.Store(s, (thread,), load(a, (thread,))),
        ir.Barrier(),
        ir.Store(out, (thread,), load(s, (other,))),
    )
    return ir.Program((a,), (out,), (s,), (ir.Region("r", (), body, (thread,)),))


@pytest.mark.usefixtures("needs_compiler")
def test_much_shared_memory_is_asked_for_at_launch():
    a = np.arange(64, dtype=np.float32)
    small, large = shared_program(64), shared_program(20_000)
    cases = [Case(small, [a]), Case(large, [a])]
    for (found,) in run_cases(cases):
        np.testing.assert_array_equal(found, a[::-1])
    first, second = (c.source.entries[0] for c in cases)
    assert (first.shared_static, first.shared_dynamic) == (256, 0)
    assert (second.shared_static, second.shared_dynamic) == (0, 80_000)
    assert cases[1].source.launches[0].shared == 80_000


@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_lanes_combine(kind):
    """Within warps and across them, twice with the same scratch."""
    cases, wanted = [], []
    for lanes in (2, 8, 32, 64, 256):
        thread, i = var("t", 256), var("i", 2)
        a = ir.Buffer("a", (2, 256), "float32", "input")
        out = ir.Buffer("out", (2, 256), "float32", "output")
        acc = ir.Buffer("acc", (2,), "float32", "register")
        scratch = ir.Buffer("p", (16,), "float32", "block") if lanes > 32 else None
        one = ir.Store(acc, (i,), load(a, (i, thread)))
        less = ir.Store(acc, (i,), ir.Load("float32", acc, (i,)) * Const("float32", 0.5))
        last = ir.Store(out, (i, thread), load(acc, (i,)))
        join = ir.Combine(acc, kind, lanes, scratch)
        body = ir.seq(ir.For(i, 2, "unroll", one), join, ir.For(i, 2, "unroll", less), join,
                   ir.For(i, 2, "unroll", last))  # fmt: skip
        data = np.random.default_rng(lanes).integers(-9, 9, (2, 256)).astype(np.float32)
        program = ir.Program((a,), (out,), (), (ir.Region("r", (), body, (thread,)),))
        cases.append(Case(program, [data.reshape(-1)]))
        groups = data.reshape(2, -1, lanes)
        joined = groups.sum(2) * 0.5 * lanes if kind == "sum" else groups.max(2) * 0.5
        wanted.append(np.repeat(joined, lanes, axis=1))
    for (found,), right in zip(run_cases(cases), wanted, strict=True):
        np.testing.assert_allclose(found, right)


def test_equal_code_has_equal_names():
    first, second = (print_program(copy(lambda a, i: load(a, (i,)))) for _ in range(2))
    other = print_program(copy(lambda a, i: load(a, (i,)) + load(a, (i,))))
    assert first.symbol == second.symbol
    assert first.entries[0].name == second.entries[0].name
    assert other.entries[0].name != first.entries[0].name
    assert first.entries[0].name in first.entries[0].text
    assert launches_from_json(launches_to_json(first.launches)) == first.launches


def test_what_an_output_may_overwrite_is_not_restricted():
    found = text(copy(lambda a, i: load(a, (i,))))
    assert "TW_SAME(float, a" in found
    turned = text(copy(lambda a, i: load(a, (const(N - 1) - i,))))
    assert "TW_IN(float, a" in turned


def test_buffers_beyond_32_bits_are_refused():
    thread = var("t", 32)
    a, out = ir.Buffer("huge", (2**31,), "int8", "input"), ir.Buffer("b", (32,), "int8", "output")
    body = ir.Store(out, (thread,), load(a, (thread,)))
    with pytest.raises(ScheduleError, match="huge has 2147483648 elements"):
        print_program(ir.Program((a,), (out,), (), (ir.Region("r", (), body, (thread,)),)))


def test_temporaries_are_places_in_the_workspace():
    thread, again = var("t", 64), var("t", 64)
    a, out = ir.Buffer("a", (64,), "float32", "input"), ir.Buffer("b", (64,), "float32", "output")
    first, second = (ir.Buffer(n, (65,), "float32", "global") for n in ("x", "y"))
    regions = (
        ir.Region("r", (), ir.Store(first, (thread,), load(a, (thread,))), (thread,)),
        ir.Region("s", (), ir.seq(
            ir.Let(again, thread, ir.Store(second, (again,), load(first, (again,)))),
            ir.Store(out, (thread,), load(first, (thread,)))), (thread,)),
    )  # fmt: skip
    source = print_program(ir.Program((a,), (out,), (first, second), regions))
    assert source.workspace_bytes == 2 * 512
    assert source.launches[0].args == (("argument", 0), ("workspace", 0))
    assert set(source.launches[1].args) == {
        ("argument", 1), ("workspace", 0), ("workspace", 512),
    }  # fmt: skip
    assert "TW_TEMP(float, x" in source.entries[0].text
    assert "TW_IN(float, x" in source.entries[1].text


@pytest.mark.usefixtures("needs_compiler")
def test_lanes_of_a_maximum_are_an_instruction_each():
    """A register that holds the most so far is never NaN; every other maximum keeps a NaN."""
    thread, lane, again = var("t", 1), var("v", 4), var("w", 4)
    a = ir.Buffer("a", (8,), "float32", "input")
    out = ir.Buffer("out", (4,), "float32", "output")
    most = ir.Buffer("most", (4,), "float32", "register")
    low = Const("float32", float("-inf"))
    steps = []
    for first in (0, 4):
        v = var("v", 4)
        larger = binary("max", load(most, (v,)), load(a, (v + first,)))
        steps.append(ir.For(v, 4, "vector", ir.Store(most, (v,), larger)))
    kept = binary("max", load(most, (again,)), Const("float32", 1.0))
    body = ir.seq(
        ir.For(lane, 4, "vector", ir.Store(most, (lane,), low)),
        *steps,
        ir.For(again, 4, "vector", ir.Store(out, (again,), kept)),
    )
    program = ir.Program((a,), (out,), (), (ir.Region("r", (), body, (thread,)),))
    found = text(program)
    assert (found.count("fmaxf("), found.count("TW_LD4")) == (8, 2)
    nan = np.nan
    x = np.array([2, nan, nan, 0, nan, 3, nan, -1], np.float32)
    ((result,),) = run_cases([Case(program, [x])])
    np.testing.assert_array_equal(result, [2, 3, 1, 1])
