"""Forms, their ranges, cuts and strides agree with the numbers that they stand for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilework.index.bounds import common_unit, cut, multiple_of, quotient, range_of, solved
from tilework.index.extents import ceil_div, nbytes, round_up, size
from tilework.index.form import Form, constant, position, position_if, product, variable
from tilework.index.strides import in_order, reach, row_major
from tilework.index.symbols import symbol
from tilework.index.whole import ARRAYS, COMPARE, DIVISIONS, FOLD, folded
from tilework.lower.common import divide
from tilework.te.affine import form_of, linear, sum_of, value_of
from tilework.te.expr import Axis, Binary, Const, binary
from tilework.te.numeric import WHOLE
from tilework.te.ranges import linear_range
from tilework.te.ranges import range_of as range_of_expression

EXTENTS = {"i": 3, "j": 4, "k": 2}
POINTS = [
    dict(zip(EXTENTS, at, strict=True)) for at in itertools.product(*map(range, EXTENTS.values()))
]


@st.composite
def forms(draw):
    out = constant(draw(st.integers(-20, 20)))
    for atom in draw(st.lists(st.sampled_from(sorted(EXTENTS)), max_size=4)):
        out = out + variable(atom).scale(draw(st.integers(-9, 9)))
    return out


def known(atom):
    return 0, EXTENTS[atom] - 1


def values(form):
    return [form.value(at) for at in POINTS]


@given(forms(), forms(), st.integers(-5, 5))
def test_arithmetic_is_that_of_the_values(a, b, n):
    assert values(a + b) == [x + y for x, y in zip(values(a), values(b), strict=True)]
    assert values(a - b) == [x - y for x, y in zip(values(a), values(b), strict=True)]
    assert values(a.scale(n)) == [x * n for x in values(a)]
    assert 0 not in (a + b).coefficients.values()
    assert a - a == constant(0)
    times = product(a, constant(n))
    assert times is not None and values(times) == [x * n for x in values(a)]


def test_a_product_of_two_variables_is_no_form():
    assert product(variable("i"), variable("j")) is None
    assert product(constant(2), variable("i")) == variable("i").scale(2)


@given(forms())
def test_ranges_are_tight_and_units_divide(form):
    found = values(form)
    assert range_of(form, known) == (min(found), max(found))
    assert range_of(form, lambda a: None if a == "i" else known(a)) is None or not form.step("i")
    unit = multiple_of(form, lambda _: 1)
    assert all(x % unit == 0 if unit else x == 0 for x in found)
    assert form.width(EXTENTS, 1) == 1 + max(found) - min(found)
    some = {a: np.array([1, n]) for a, n in EXTENTS.items()}
    assert form.width(some, np.ones(2, np.int64)).tolist() == [1, 1 + max(found) - min(found)]


@given(forms(), st.integers(1, 12))
def test_a_cut_is_what_division_gives(form, unit):
    parts = cut(form, unit, known)
    if parts is None:
        return
    multiple, rest = parts
    assert values(quotient(multiple, unit)) == [x // unit for x in values(form)]
    assert values(rest) == [x % unit for x in values(form)]


def test_cuts_are_found():
    i, j = variable("i"), variable("j")
    assert cut(i.scale(4) + j, 4, known) == (i.scale(4), j)
    assert cut(i.scale(4) + j + constant(1), 4, known) is None  # j reaches 3
    assert common_unit(i.scale(4) + j, 8) == 4
    n = symbol("n", 4, 9)
    assert cut(j, n, known) == (constant(0), j)
    assert cut(j + constant(-1), n, known) is None  # -1 is no rest


@given(st.integers(-3, 9), st.integers(-3, 9), st.integers(-12, 12), st.integers(1, 16))
def test_divided_expressions_keep_their_values(a, b, c, d):
    i, j = Axis("int32", "i", 3, "loop"), Axis("int32", "j", 4, "loop")
    e = i * a + j * b + c
    for op, exact in (("//", int.__floordiv__), ("%", int.__mod__)):
        short = divide(op, e, Const("int32", d))
        for x, y in itertools.product(range(3), range(4)):
            assert value_of(short, {i: x, j: y}) == exact(a * x + b * y + c, d)


AXES = [Axis("int32", name, n, "loop") for name, n in EXTENTS.items()]
INDICES = st.recursive(
    st.sampled_from(AXES) | st.integers(-3, 3).map(lambda n: Const("int32", n)),
    lambda one: st.tuples(st.sampled_from("+-*"), one, one).map(
        lambda e: Binary("int32", *e)  # as they are, with nothing folded
    ),
    max_leaves=9,
)


@given(INDICES)
def test_a_form_is_the_same_whether_it_is_gathered_or_added_up(e):
    """Its order is that of the code; atoms may cancel, and products have no form."""
    want = form_of(e, lambda x: variable(x) if isinstance(x, Axis) else None)
    found = linear(e)
    assert found == want
    if want is not None:
        assert list(found.coefficients) == list(want.coefficients)


def test_expressions_as_forms():
    i, j = Axis("int32", "i", 3, "loop"), Axis("int32", "j", 4, "loop")
    assert linear((i - j) * 3 + 5) == Form({i: 3, j: -3}, 5)
    quarter = binary("//", i, 2)
    assert linear(quarter + j) is None
    assert sum_of(quarter + j) == Form({quarter: 1, j: 1}, 0)
    assert sum_of(quarter + j, {i: 2, j: "j"}) == Form({j: 1}, 1)
    assert linear_range(i * 2 - j) == (-3, 4)
    assert linear_range(quarter) is None
    assert range_of_expression(quarter + j) == (0, 4)


@given(st.lists(st.integers(1, 5), max_size=4))
def test_strides_are_those_of_arrays(shape):
    array = np.zeros(shape, np.int8)
    assert row_major(shape) == array.strides
    assert reach(shape, row_major(shape), 1) == size(shape) == array.size
    assert nbytes(shape, "float32") == 4 * array.size


def test_strides_in_an_order_with_padding_and_of_many_rows():
    assert in_order((2, 3, 4), (2, 0, 1), 0) == (3, 1, 6)
    assert in_order((2, 3, 4), (0, 1, 2), 1) == (15, 5, 1)
    rows = [np.array([2, 4]), np.array([3, 5])]
    assert [s.tolist() for s in in_order(rows, (0, 1), np.array([0, 1]))] == [[3, 6], [1, 1]]
    assert reach(
        rows, in_order(rows, (0, 1), np.array([0, 1])), np.ones(2, np.int64)
    ).tolist() == [6, 23]


def test_positions():
    i, j = variable("i"), variable("j")
    assert position([i, j + constant(2)], (10, 1)) == i.scale(10) + j + constant(2)
    assert position_if([i, None], (10, 1)) is None


def test_pieces_that_cover():
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [round_up(n, 4) for n in (0, 1, 4, 5)] == [0, 4, 4, 8]
    assert round_up(np.array([1, 8]), 8).tolist() == [8, 8]


@pytest.mark.parametrize("op", sorted(FOLD))
@given(a=st.integers(-99, 99), b=st.integers(-99, 99))
def test_numbers_fold_as_arrays_are_computed(op, a, b):
    found = folded(op, a, b)
    if not b and op in DIVISIONS:
        assert found is None
        return
    assert found == int(WHOLE[op](np.array(a), np.array(b)))
    if op in ARRAYS and (b > 0 or op not in DIVISIONS):
        assert found == int(ARRAYS[op](np.array(a), np.array(b)))


def test_an_extent_and_the_end_of_its_range_have_extremes():
    n = symbol("n", 4, 16)
    for end, op in ((4, "max"), (16, "min")):
        assert folded(op, n, end) is n is folded(op, end, n)
    for end, op in ((16, "max"), (4, "min")):
        assert folded(op, n, end) == end == folded(op, end, n)
    assert folded("min", n, 15) is None is folded("max", 5, n)


def test_comparisons():
    assert [op for op, holds in COMPARE.items() if holds(1, 2)] == ["<", "<=", "!="]


def test_where_a_form_is_not_negative():
    for step in (-3, -2, -1, 1, 2, 5):
        for rest in range(-9, 10):
            first, stop = solved(rest, step)
            for i in range(-12, 12):
                within = (first is None or first <= i) and (stop is None or i < stop)
                assert within == (rest + step * i >= 0)
