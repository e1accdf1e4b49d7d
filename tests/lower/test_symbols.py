"""Loop programs of symbols: what they mean at a point, and their forms as text and document."""

from __future__ import annotations

import numpy as np
import pytest

from tilework.index.symbols import Symbolic, symbol
from tilework.lower.interpret import interpret
from tilework.lower.interpret_places import ProgramError
from tilework.lower.ir import Buffer, For, If, Let, Load, Program, Region, Store
from tilework.lower.kernel import kernel_args
from tilework.lower.serial import ProgramFormatError, program_from_json, program_to_json
from tilework.lower.text import program_text
from tilework.te.expr import Axis, Const, Expr, binary, compare, wrap

SEQ = symbol("seq", 1, 100, [16])
assert isinstance(SEQ, Symbolic)
(ONE,) = SEQ.symbols


def axis(name: str, extent) -> Axis:
    return Axis("int32", name, extent, "loop")


def doubled(rest: Expr | None = None) -> Program:
    """``B[i, c] = 2 A[i, c]`` in vectors of 8 points of the first axis, the last one in part."""
    a, b = (Buffer(n, (SEQ, 3), "float32", s) for n, s in (("A", "input"), ("B", "output")))
    tile, lane, column, left = axis("i", (SEQ + 7) // 8), axis("v", 8), axis("c", 3), axis("r", 8)
    at = (binary("+", binary("*", tile, 8), lane), column)
    more = binary("-", wrap(SEQ), binary("*", tile, 8))

    def vectors(active: Expr | None = None) -> For:
        store = Store(b, at, Load("float32", a, at) * Const("float32", 2.0))
        return For(column, 3, "serial", For(lane, 8, "vector", store, active=active))

    part = Let(left, more, vectors(left if rest is None else rest))
    body = If(compare(">=", more, 8), vectors(), part)
    return Program((a,), (b,), (), (Region("B", (tile,), body),))


def test_a_program_runs_at_every_point_of_its_range():
    program = doubled()
    again = program_from_json(program_to_json(program))
    assert program.symbols == again.symbols == (ONE,)
    for n in (1, 7, 8, 9, 31, 64, 100):
        data = np.random.default_rng(n).random((n, 3), np.float32)
        for one in (program, again):
            (got,) = interpret(one, [data], at={ONE: n}, threads=3, reverse=True)
            assert np.array_equal(got, 2 * data)


@pytest.mark.parametrize("n", [0, 101])
def test_outside_its_range_it_does_not(n):
    with pytest.raises(ValueError, match=r"symbol seq is .*: it goes from 1 to 100"):
        interpret(doubled(), [np.ones((n, 3), np.float32)], at={ONE: n})
    with pytest.raises(ValueError, match=r"symbol seq is not given"):
        interpret(doubled(), [np.ones((7, 3), np.float32)])


def test_points_that_do_not_count_are_not_touched():
    """One point too many lies outside of both arrays; none at all is no vector."""
    data = np.ones((13, 3), np.float32)
    with pytest.raises(ProgramError, match="is accessed at"):
        interpret(doubled(Const("int32", 6)), [data], at={ONE: 13})
    for count in (0, 9):
        with pytest.raises(ProgramError, match=f"vector v: {count} of 8 points count"):
            interpret(doubled(Const("int32", count)), [data], at={ONE: 13})


def test_text():
    lines = program_text(doubled()).splitlines()
    assert lines[0] == "symbol  seq in 1..100"
    assert "input   A float32[seq, 3]" in lines
    assert "region B, parallel i in ((seq + 7)//8):" in lines
    assert "      vector v in 8, the first r:" in lines


def test_symbols_are_arguments_behind_all_others():
    args = kernel_args(doubled(), {})
    assert [(a.name, a.role, a.dtype, a.shape) for a in args] == [
        ("A", "input", "float32", (SEQ, 3)),
        ("B", "output", "float32", (SEQ, 3)),
        ("seq", "symbol", "int64", ()),
    ]
    assert args[0].nbytes == 12 * SEQ


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["seq",1,100,[16]]', '["seq",1,100,[160]]'),
        ('["seq",1,100,[16]]', '["seq",1,100,[16]],["seq",1,100,[16]]'),
        ('["A",[[[1,"seq"]],3]', '["A",[[[1,"other"]],3]'),
        ('["A",[[[1,"seq"]],3]', '["A",[[[1,"seq"],[-50]],3]'),
    ],
)
def test_documents_of_wrong_symbols_are_refused(old, new):
    text = program_to_json(doubled())
    assert old in text
    with pytest.raises(ProgramFormatError):
        program_from_json(text.replace(old, new))
