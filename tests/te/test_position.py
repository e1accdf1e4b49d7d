"""The number of an element follows from its indices at once as it does from the form of each."""

from __future__ import annotations

import pytest

from tilework.index.form import position_if
from tilework.index.symbols import Symbol, Symbolic
from tilework.te.affine import linear, position
from tilework.te.expr import Axis, Binary, Const

X, Y = (Axis("int32", name, 8, "spatial") for name in "ij")
N = Symbolic.of({(Symbol("n", 1, 9, (4,)),): 1})


def of(op, a, b):
    return Binary("int32", op, a, b)


def number(value):
    return Const("int32", value)


TWICE = of("+", of("*", X, number(2)), number(3))


@pytest.mark.parametrize(
    ("indices", "strides"),
    [
        ((Y, X), (8, 1)),
        ((TWICE, of("-", number(5), Y)), (100, 3)),
        ((X, TWICE), (10, 1)),  # one axis in both
        ((X, of("-", Y, X)), (1, 1)),  # and nothing is left of it
        ((X, Y), (0, 1)),
        ((X, Y), (N, 1)),
        ((of("//", X, number(2)), Y), (8, 1)),
        ((), ()),
    ],
)
def test_a_position_is_the_sum_of_the_forms_of_its_indices(indices, strides):
    own, whole = position(indices, strides), position_if(map(linear, indices), strides)
    assert own == whole
    if own is not None:
        assert list(own.coefficients) == list(whole.coefficients)
