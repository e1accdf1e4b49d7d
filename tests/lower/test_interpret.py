"""The interpreter itself: it must notice what it is there to notice."""

from __future__ import annotations

import numpy as np
import pytest

from tilework.lower.interpret import Meter, interpret, poisoned
from tilework.lower.interpret_places import ProgramError
from tilework.lower.ir import Buffer, For, If, Load, Program, Region, Seq, Store
from tilework.te.expr import Axis, Const, IfThenElse, binary, compare

A = Buffer("A", (8,), "float32", "input")
OUT = Buffer("out", (8,), "float32", "output")
N, J = Axis("int32", "i", 8, "loop"), Axis("int32", "j", 4, "loop")
X = np.arange(8, dtype=np.float32)
ONE = Const("float32", 1.0)


def load(buffer, *indices):
    return Load(buffer.dtype, buffer, indices)


def run(body, parallel=(), temporaries=(), **options):
    program = Program((A,), (OUT,), temporaries, (Region("r", parallel, body),))
    return interpret(program, [X], **options)[0]


@pytest.mark.parametrize("kind", ["serial", "unroll", "vector"])
def test_loop_kinds_agree(kind):
    got = run(For(N, 8, kind, Store(OUT, (N,), binary("+", load(A, N), ONE))))
    np.testing.assert_array_equal(got, X + 1)


@pytest.mark.parametrize("kind", ["serial", "vector"])
@pytest.mark.parametrize("shift", [-1, 1])
def test_access_out_of_bounds(kind, shift):
    moved = binary("+", N, Const("int32", shift))
    with pytest.raises(ProgramError, match=r"A\[8\] is accessed at"):
        run(For(N, 8, kind, Store(OUT, (N,), load(A, moved))))
    with pytest.raises(ProgramError, match=r"out\[8\] is accessed at"):
        run(For(N, 8, kind, Store(OUT, (moved,), load(A, N))))


@pytest.mark.parametrize("kind", ["serial", "vector"])
def test_the_side_not_taken_is_not_evaluated(kind):
    inside = compare("<", N, Const("int32", 7))
    ahead = load(A, binary("+", N, Const("int32", 1)))
    got = run(For(N, 8, kind, Store(OUT, (N,), IfThenElse("float32", inside, ahead, ONE))))
    np.testing.assert_array_equal(got, [*X[1:], 1])


def test_loop_longer_than_declared():
    with pytest.raises(ProgramError, match="loop j: 5 > 4 iterations"):
        run(For(J, Const("int32", 5), "serial", Store(OUT, (J,), ONE)))


def test_store_of_another_type():
    with pytest.raises(ProgramError, match="store to out of float64, not float32"):
        run(For(N, 8, "vector", Store(OUT, (N,), Const("float64", 1.0))))


def test_parallel_iterations_in_chunks():
    body = Store(OUT, (N,), load(A, N))
    for threads in (1, 3, 20):
        for reverse in (False, True):
            got = run(body, parallel=(N,), threads=threads, reverse=reverse)
            np.testing.assert_array_equal(got, X)


def test_races_are_reported():
    whole = For(N, 8, "vector", Store(OUT, (N,), load(A, N)))
    with pytest.raises(ProgramError, match="element of out is written in parallel iteration 1"):
        run(whole, parallel=(J,))
    first = Const("int32", 0)
    reads = Seq((Store(OUT, (N,), load(A, N)), Store(OUT, (N,), load(OUT, first))))
    with pytest.raises(ProgramError, match="is read in parallel iteration 1"):
        run(reads, parallel=(N,))


def test_what_a_thread_leaves_behind_does_not_reach_the_next():
    kept = Buffer("kept", (1,), "float32", "thread")
    zero = Const("int32", 0)
    only_first = If(compare("==", N, zero), Store(kept, (zero,), ONE))
    body = Seq((only_first, Store(OUT, (N,), load(kept, zero))))
    np.testing.assert_array_equal(run(body, (N,), (kept,)), np.ones(8))
    got = run(body, (N,), (kept,), threads=2)
    np.testing.assert_array_equal(np.isnan(got), [False] * 4 + [True] * 4)


def test_registers_start_poisoned():
    acc = Buffer("acc", (1,), "float32", "register")
    assert np.isnan(run(For(N, 8, "vector", Store(OUT, (N,), load(acc, Const("int32", 0)))))).all()


def test_inputs_are_checked():
    program = Program((A,), (OUT,), (), ())
    with pytest.raises(ValueError, match=r"input A: expected float32\[8\], got float64\[8\]"):
        interpret(program, [X.astype("float64")])
    with pytest.raises(ValueError, match=r"got float32\[4\]"):
        interpret(program, [X[:4]])


def test_poison_spoils_results():
    assert np.isnan(poisoned((2,), "float32")).all()
    assert (poisoned((2,), "int32") > 10**8).all()
    assert poisoned((2,), "bool").all()


@pytest.mark.parametrize(("kind", "steps"), [("serial", 16), ("unroll", 16), ("vector", 1)])
def test_steps_are_iterations_and_stores(kind, steps):
    meter = Meter()
    run(For(N, 8, kind, Store(OUT, (N,), load(A, N))), meter=meter)
    assert (meter.regions, meter.steps) == (1, steps)


@pytest.mark.parametrize(("threads", "steps"), [(1, 8), (2, 4), (3, 3), (8, 1)])
def test_the_longest_thread_counts(threads, steps):
    meter = Meter()
    run(Store(OUT, (N,), load(A, N)), parallel=(N,), threads=threads, meter=meter)
    assert (meter.regions, meter.steps) == (1, steps)
