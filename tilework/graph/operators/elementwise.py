"""Operators that treat all elements alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilework import ops
from tilework.graph.operators.base import (
    ANY,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Attrs,
    Declare,
    Infer,
    Operator,
    Pattern,
    Shape,
    ValueType,
    broadcast,
    common_dtype,
    declared,
    shaped,
    unmoved,
)
from tilework.ops.activations import ACTIVATIONS
from tilework.ops.elementwise import ARITHMETIC, BITWISE, COMPARISONS, PREDICATES, SIGNED_UNARY

BINARY = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "at_least", "at_most",
)  # fmt: skip
COMMUTATIVE = ("add", "multiply", "maximum", "minimum")
UNARY = (*ops.UNARY, *SIGNED_UNARY, "reciprocal")


def _same(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    (x,) = shapes
    return x


def _broadcast(shapes: Sequence[Shape], attrs: Attrs) -> Shape:
    a, b = shapes
    return broadcast((a, b))


def _to_bool(
    dtypes: Sequence[str], operands: int, types: Sequence[ValueType], attrs: Attrs
) -> ValueType:
    """Operands of one of ``dtypes``, a result of bool."""
    if len(types) != operands:
        raise ValueError(f"it takes {operands} operands, got {len(types)}")
    common_dtype(types, dtypes)
    return ValueType(broadcast([t.shape for t in types]), "bool")


def _infer_power(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    for t in types:
        common_dtype([t], NUMBERS)
    a, b = types
    return ValueType(broadcast((a.shape, b.shape)), a.dtype)


def _infer_where(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    condition, a, b = types
    if condition.dtype != "bool":
        raise ValueError(f"the condition is {condition.dtype}, expected bool")
    dtype = common_dtype((a, b))
    return ValueType(broadcast((condition.shape, a.shape, b.shape)), dtype)


def _infer_prelu(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    x, slope = types
    if broadcast((x.shape, slope.shape)) != x.shape:
        raise ValueError(f"slopes {list(slope.shape)} do not broadcast to {list(x.shape)}")
    return ValueType(x.shape, common_dtype(types, NUMBERS))


def _infer_cast(types: Sequence[ValueType], attrs: Attrs) -> ValueType:
    if attrs["to"] not in ANY:
        raise ValueError(f"unknown element type '{attrs['to']}'")
    return ValueType(types[0].shape, attrs["to"])


def _declare(function: str) -> Declare:
    return lambda a, t, free: ops.elementwise(function, *t, **a)


def _elementwise(
    name: str, dtypes: Sequence[str], infer: Infer | None = None, declare: Declare | None = None
) -> Operator:
    return Operator(
        name,
        infer or shaped(_same, dtypes),
        declare or _declare(name),
        Pattern.ELEMENTWISE,
        unmoved,
    )


def _binary(name: str, dtypes: Sequence[str], infer: Infer | None = None) -> Operator:
    infer = infer or shaped(_broadcast, dtypes)
    return Operator(name, infer, _declare(name), Pattern.BROADCAST, unmoved)


_PLAIN = [name for name in ARITHMETIC if name not in ("power", "prelu")]

OPERATORS = (
    *(_binary(name, NUMBERS) for name in _PLAIN),
    _binary("power", NUMBERS, _infer_power),
    _binary("prelu", NUMBERS, _infer_prelu),
    *(_binary(name, INTEGERS) for name in BITWISE),
    *(_binary(name, ANY, partial(_to_bool, ANY, 2)) for name in COMPARISONS),
    *(
        _binary(f"logical_{name}", ("bool",), partial(_to_bool, ("bool",), 2))
        for name in ("and", "or", "xor")
    ),
    _binary("where", ANY, _infer_where),
    *(_elementwise(name, FLOATS) for name in (*ops.UNARY, "reciprocal")),
    *(_elementwise(name, NUMBERS) for name in SIGNED_UNARY),
    *(_elementwise(name, FLOATS) for name in ACTIVATIONS),
    *(_elementwise(name, FLOATS, partial(_to_bool, FLOATS, 1)) for name in PREDICATES),
    _elementwise("logical_not", ("bool",)),
    _elementwise("bitwise_not", INTEGERS),
    _elementwise("cast", ANY, _infer_cast),
    _elementwise("relu", NUMBERS),
    _elementwise("clip", NUMBERS, declare=declared(ops.clip, "low", "high")),
    _elementwise("identity", ANY, declare=lambda a, t, free: ops.copy(t[0])),
)
