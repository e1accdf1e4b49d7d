"""Operators that treat all elements alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilework import ops, te
from tilework.graph.operators.base import (
    ANY,
    FLOATS,
    NUMBERS,
    Attrs,
    Lower,
    Operator,
    Pattern,
    Shape,
    broadcast,
    shaped,
    unmoved,
)

BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
COMMUTATIVE = ("add", "multiply", "maximum", "minimum")
UNARY = ops.UNARY


def _same(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (x,) = shapes
    return x


def _broadcast(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    a, b = shapes
    return broadcast((a, b))


def _lower_unary(function: str) -> Lower:
    return lambda a, t, free: ops.unary(t[0], function)


def _lower_binary(function: Callable[[te.Tensor, te.Tensor], te.Tensor]) -> Lower:
    return lambda a, t, free: function(t[0], t[1])


def _elementwise(name: str, lower: Lower, dtypes: Sequence[str]) -> Operator:
    return Operator(name, shaped(_same, dtypes), lower, Pattern.ELEMENTWISE, unmoved)


def _binary(name: str) -> Operator:
    lower = _lower_binary(getattr(ops, name))
    return Operator(name, shaped(_broadcast, NUMBERS), lower, Pattern.BROADCAST, unmoved)


OPERATORS = (
    *(_binary(name) for name in BINARY),
    *(_elementwise(name, _lower_unary(name), FLOATS) for name in UNARY),
    _elementwise("relu", lambda a, t, free: ops.relu(t[0]), NUMBERS),
    _elementwise("clip", lambda a, t, free: ops.clip(t[0], a["low"], a["high"]), NUMBERS),
    _elementwise("identity", lambda a, t, free: ops.copy(t[0]), ANY),
)
