"""Extents that a run brings have the values of integers wherever their symbols have some."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilework.errors import UnknownExtent
from tilework.index.extents import ceil_div, divisor, known, round_up, shape_at, size, typical
from tilework.index.symbols import (
    Symbol,
    Symbolic,
    Undecided,
    certain,
    exact_quotient,
    range_of,
    same,
    symbol,
    symbols_of,
    value_at,
)

SEQ = symbol("seq", 1, 512, (384, 16, 64, 128))
PAST = symbol("past", 0, 100)
BATCH = symbol("batch", 2, 4)
SYMBOLS = symbols_of([SEQ, PAST, BATCH])
POINTS = st.fixed_dictionaries({s: st.integers(s.low, s.high) for s in SYMBOLS})


@st.composite
def extents(draw, depth=3):
    if depth == 0:
        return draw(st.sampled_from([SEQ, PAST, BATCH]) | st.integers(-20, 20))
    a, b = draw(extents(depth - 1)), draw(extents(depth - 1))
    n = draw(st.integers(1, 9))
    return draw(st.sampled_from([a, a + b, a - b, a * b, a // n, a % n, -(-a // n), -a]))


@given(extents(2), extents(2), st.integers(1, 9), POINTS)
def test_arithmetic_is_that_of_the_values(a, b, n, at):
    x, y = value_at(a, at), value_at(b, at)
    found = (a + b, a - b, a * b, -a, a // n, a % n, ceil_div(a, n), round_up(a, n))
    exact = (x + y, x - y, x * y, -x, x // n, x % n, -(-x // n), -(-x // n) * n)
    assert shape_at(found, at) == exact
    for extent, value in zip(found, exact, strict=True):
        low, high = range_of(extent)
        assert low <= value <= high
        unit = divisor(extent)
        assert value % unit == 0 if unit else value == 0


@given(extents(2), extents(2), POINTS)
def test_what_is_decided_holds(a, b, at):
    x, y = value_at(a, at), value_at(b, at)
    for what, holds in (
        (lambda: a < b, x < y), (lambda: a <= b, x <= y), (lambda: a > b, x > y),
        (lambda: a >= b, x >= y), (lambda: same(a, b), x == y), (lambda: bool(a - b), x != y),
    ):  # fmt: skip
        try:
            assert what() == holds
        except Undecided:
            assert not certain(what)
    if a == b:
        assert x == y


@given(extents(2), extents(1))
def test_a_product_is_divided(a, b):
    assume(b != 0)
    assert exact_quotient(a * b, b) == a


@given(extents())
def test_equal_extents_are_one_object(a):
    assert (a + BATCH) * 2 is (BATCH * 2 + a + a) or not isinstance((a + BATCH) * 2, Symbolic)
    assert pickle.loads(pickle.dumps(a)) is a or isinstance(a, int)


def test_one_form_for_each_division():
    assert -(-SEQ // 8) == (SEQ + 7) // 8
    assert SEQ // 4 // 2 == SEQ // 8
    assert ((SEQ + 1) // 2 + 1) // 2 == (SEQ + 3) // 4
    assert (SEQ // 3 + PAST) // 4 == (SEQ + 3 * PAST) // 12
    assert (2 * SEQ + 1) // 4 == SEQ // 2
    assert (768 * SEQ + 5) // 768 == SEQ
    assert BATCH // 8 == 0
    assert (SEQ + PAST) * 768 // (SEQ + PAST) == 768
    assert round_up(SEQ, 8) < SEQ + 8
    assert SEQ % 8 >= 0 and SEQ % 8 < 8


def test_a_guess_is_loud():
    for question in (
        lambda: SEQ > 8, lambda: SEQ < PAST, lambda: bool(PAST), lambda: max(SEQ, 8),
        lambda: same(SEQ, 1), lambda: SEQ // PAST, lambda: 7 // SEQ,
    ):  # fmt: skip
        with pytest.raises(Undecided, match=r"seq|past"):
            question()
    for number in (
        lambda: int(SEQ), lambda: range(SEQ), lambda: np.full(3, SEQ), lambda: np.array([SEQ]),
        lambda: np.arange(3) * SEQ, lambda: np.int64(3) + SEQ, lambda: SEQ * 0.5,
    ):  # fmt: skip
        with pytest.raises(TypeError):
            number()
    with pytest.raises(UnknownExtent, match="bind past, seq to a number"):
        known(SEQ + PAST)


def test_a_factor_of_several_terms_is_one_value():
    """Batches of windows: with a value for each term, 2 rows of 2 would be 4 less 4."""
    windows = (SEQ + 400) // 320 - 1
    assert range_of(windows * BATCH) == (0, 4)
    assert range_of((SEQ + 1) * BATCH - BATCH) == (2, 2048)
    assert range_of(PAST * PAST - PAST) == (-100, 9900)
    assert BATCH * SEQ - BATCH + 1 > 0
    assert SEQ * BATCH + PAST - BATCH >= 0
    assert range_of((SEQ - 1) * (BATCH - 1) * (PAST + 1))[0] == 0


def test_products_of_several_floors_have_a_range_soon():
    """Rows of attention over maps that were halved: without floors they are hundreds of terms."""
    height, width = symbol("height", 32, 1024, (224,)), symbol("width", 32, 1024, (224,))
    rows = [((n + 1) // 4) * ((n + 5) // 8) * ((n + 11) // 16) for n in (height, width)]
    low, high = range_of(rows[0] * rows[1] * BATCH)
    least, most = (rows[0].value({s: n for s in symbols_of(rows[:1])}) ** 2 for n in (32, 1024))
    assert 0 < low <= 2 * least and 4 * most <= high


def test_texts_and_typical_values():
    assert str((SEQ + PAST) // 8 * BATCH - 2 * SEQ) == "batch*((past + seq)//8) - 2*seq"
    assert typical(SEQ) == 128 and typical(SEQ * SEQ + 1) == 128 * 128 + 1
    assert size([SEQ, 4, BATCH]) == 4 * BATCH * SEQ
    assert symbol("n", 3, 3) == 3


def test_bad_symbols_are_refused():
    with pytest.raises(ValueError, match=r"symbol n: there is no number in 5\.\.3"):
        symbol("n", 5, 3)
    with pytest.raises(ValueError, match=r"symbol n: its typical value 9 is not in 1\.\.3"):
        symbol("n", 1, 3, [9])
    with pytest.raises(ValueError, match="no typical"):
        Symbol("n", 1, 3, ())
    with pytest.raises(ValueError, match="divided by 0"):
        SEQ // 0
