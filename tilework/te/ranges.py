"""What index expressions can be: their range, and what divides them."""

from __future__ import annotations

import math

from tilework.index import bounds
from tilework.index.bounds import Range
from tilework.index.extents import Extent
from tilework.index.symbols import Symbolic, certain
from tilework.index.whole import folded
from tilework.te.affine import linear, sum_of
from tilework.te.expr import Axis, Binary, Const, Expr, IfThenElse, Select


def axis_range(axis: Axis) -> Range:
    """The values of a variable; of one that has none, nothing that is said is wrong."""
    last = axis.extent - 1
    return 0, last if isinstance(last, Symbolic) else max(last, 0)


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
            return e.whole, e.whole
        case Axis():
            return axis_range(e)
        case Binary(op="//" | "quot", b=Const(value=int() as d)) if d > 0:
            a = range_of(e.a)
            if a is None or (e.op == "quot" and not _from_zero(a)):
                return None
            return a[0] // d, a[1] // d
        case Binary(op="%" | "rem", b=Const() as by) if certain(lambda: by.whole > 0):
            return _rest(e.op, range_of(e.a), by.whole)
        case Binary(op="max" | "min"):
            return _extremum(e.op, range_of(e.a), range_of(e.b))
        case Select() | IfThenElse():
            a, b = range_of(e.a), range_of(e.b)
            if a is not None and b is not None:
                return _picked(("min", a[0], b[0]), ("max", a[1], b[1]))
    return None


def _rest(op: str, a: Range | None, d: Extent) -> Range | None:
    """Of a remainder of ``d``, which is positive."""
    if a is not None and _from_zero(a):
        return a if certain(lambda: a[1] < d) else (0, d - 1)
    return None if op == "rem" else (0, d - 1)


def _from_zero(a: Range) -> bool:
    return certain(lambda: a[0] >= 0)


def _extremum(op: str, a: Range | None, b: Range | None) -> Range | None:
    if a is None or b is None:
        return None
    return _picked((op, a[0], b[0]), (op, a[1], b[1]))


def _picked(*ends: tuple[str, Extent, Extent]) -> Range | None:
    """The ends of a range, each the smaller or the larger of two; None where that is open."""
    low, high = (folded(*end) for end in ends)
    return None if low is None or high is None else (low, high)


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
