"""What index expressions can be: their range, and what divides them."""

from __future__ import annotations

import math

from tilework.index import bounds
from tilework.index.bounds import Range
from tilework.te.affine import linear, sum_of
from tilework.te.expr import Axis, Binary, Const, Expr, IfThenElse, Select


def axis_range(axis: Axis) -> Range:
    """The values of a variable."""
    return 0, max(axis.extent - 1, 0)


def linear_range(e: Expr) -> Range | None:
    """Bounds of an expression that is linear in axes, None for any other."""
    form = linear(e)
    return bounds.range_of(form, axis_range) if form is not None else None


def range_of(e: Expr) -> Range | None:
    """Bounds of an index expression over all values of its variables; None where none are known.

    Sums are collected first: in ``i - i`` nothing is left to vary.
    """
    form = sum_of(e)
    if form.coefficients.get(e) == 1 and len(form.coefficients) == 1:
        return _atom_range(e)
    return bounds.range_of(form, _atom_range)


def _atom_range(e: Expr) -> Range | None:
    match e:
        case Const():
            return int(e.value), int(e.value)
        case Axis():
            return axis_range(e)
        case Binary(op="//" | "quot", b=Const(value=d)) if d > 0:
            a = range_of(e.a)
            if a is None or (a[0] < 0 and e.op == "quot"):
                return None
            return a[0] // int(d), a[1] // int(d)
        case Binary(op="%" | "rem", b=Const(value=d)) if d > 0:
            a = range_of(e.a)
            if e.op == "rem" and (a is None or a[0] < 0):
                return None
            if a is not None and a[0] >= 0 and a[1] < d:
                return a
            return 0, int(d) - 1
        case Binary(op="max" | "min"):
            return _limited(e.op, range_of(e.a), range_of(e.b))
        case Select() | IfThenElse():
            a, b = range_of(e.a), range_of(e.b)
            if a is not None and b is not None:
                return min(a[0], b[0]), max(a[1], b[1])
    return None


def _limited(op: str, a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None:
        return None
    pick = max if op == "max" else min
    return pick(a[0], b[0]), pick(a[1], b[1])


def multiple_of(e: Expr) -> int:
    """A number that divides all values of an index expression; 0 for one that is always 0."""
    return bounds.multiple_of(sum_of(e), _atom_multiple)


def _atom_multiple(e: Expr) -> int:
    match e:
        case Binary(op="*"):
            return multiple_of(e.a) * multiple_of(e.b)
        case Binary(op="max" | "min") | Select() | IfThenElse():
            return math.gcd(multiple_of(e.a), multiple_of(e.b))
    return 1
