"""Index expressions: their ranges, and sums of terms in which everything else is an atom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilework.lower.ir import Buffer, Load
from tilework.te.expr import Axis, Binary, Compare, Const, Expr, IfThenElse, Select, children

Range = tuple[int, int]
"""Least and greatest value."""
Known = Mapping[Axis, "str | int"]
"""What stands for each variable: its name, or its value in an expanded loop."""


@dataclass(frozen=True, eq=False)
class Sum:
    """``const + sum(terms[atom] * atom)``; an atom is a variable or anything that is not a sum."""

    terms: dict[Expr, int]
    const: int

    def __add__(self, other: Sum) -> Sum:
        out = dict(self.terms)
        for atom, c in other.terms.items():
            out[atom] = out.get(atom, 0) + c
        return Sum({a: c for a, c in out.items() if c}, self.const + other.const)

    def scale(self, factor: int) -> Sum:
        """The sum multiplied by an integer."""
        if not factor:
            return Sum({}, 0)
        return Sum({a: c * factor for a, c in self.terms.items()}, self.const * factor)


def parts(e: Expr) -> tuple[Expr, ...]:
    """Direct sub-expressions, the indices of a load included."""
    return e.indices if isinstance(e, Load) else children(e)


def mentions(e: Expr, var: Axis) -> bool:
    """Whether an expression varies with a variable."""
    return e is var or any(mentions(p, var) for p in parts(e))


def sum_of(e: Expr, known: Known | None = None) -> Sum:
    """An integer expression as a sum; variables of known value are folded into the constant."""
    match e:
        case Const():
            return Sum({}, int(e.value))
        case Axis():
            value = known.get(e) if known is not None else None
            return Sum({}, value) if isinstance(value, int) else Sum({e: 1}, 0)
        case Binary(op="+" | "-"):
            return sum_of(e.a, known) + sum_of(e.b, known).scale(1 if e.op == "+" else -1)
        case Binary(op="*"):
            a, b = sum_of(e.a, known), sum_of(e.b, known)
            if not b.terms:
                return a.scale(b.const)
            if not a.terms:
                return b.scale(a.const)
    value = value_of(e, known) if known is not None else None
    return Sum({}, value) if value is not None else Sum({e: 1}, 0)


def flat(buffer: Buffer, indices: Sequence[Expr], known: Known | None = None) -> Sum:
    """Number of the element that is accessed."""
    out = Sum({}, 0)
    for index, stride in zip(indices, buffer.strides, strict=True):
        out = out + sum_of(index, known).scale(stride)
    return out


def sum_equal(a: Sum, b: Sum) -> bool:
    """Whether two sums are the same: of the same atoms."""
    return a.const == b.const and a.terms == b.terms


def value_of(e: Expr, known: Known) -> int | None:
    """The value of an index expression where all its variables are known."""
    match e:
        case Const():
            return int(e.value) if e.dtype != "bool" else None
        case Axis():
            value = known.get(e)
            return value if isinstance(value, int) else None
        case Binary():
            a = value_of(e.a, known)
            b = value_of(e.b, known) if a is not None else None
            if a is None or b is None:
                return None
            return _apply(e.op, a, b)
    return None


def _apply(op: str, a: int, b: int) -> int | None:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//" if b > 0:
            return a // b
        case "%" if b > 0:
            return a % b
        case "quot" if b > 0 <= a:
            return a // b
        case "rem" if b > 0 <= a:
            return a % b
        case "max":
            return max(a, b)
        case "min":
            return min(a, b)
    return None


def is_index(e: Expr) -> bool:
    """Whether an expression is made of loop variables and literals alone: it cannot overflow."""
    match e:
        case Const() | Axis():
            return True
        case Binary():
            return is_index(e.a) and is_index(e.b)
        case Select() | IfThenElse():
            return is_index(e.cond) and is_index(e.a) and is_index(e.b)
        case Compare():
            return is_index(e.a) and is_index(e.b)
    return False


def range_of(e: Expr) -> Range | None:
    """Bounds of an index expression over all values of its variables; None where none are known.

    Sums are collected first: in ``i - i`` nothing is left to vary.
    """
    form = sum_of(e)
    if form.terms.get(e) == 1 and len(form.terms) == 1:
        return _atom_range(e)
    low = high = form.const
    for atom, c in form.terms.items():
        own = _atom_range(atom)
        if own is None:
            return None
        ends = (c * own[0], c * own[1])
        low, high = low + min(ends), high + max(ends)
    return low, high


def _atom_range(e: Expr) -> Range | None:
    match e:
        case Const():
            return int(e.value), int(e.value)
        case Axis():
            return 0, max(e.extent - 1, 0)
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
    form = sum_of(e)
    out = form.const
    for atom, c in form.terms.items():
        own = 1
        match atom:
            case Binary(op="*"):
                own = multiple_of(atom.a) * multiple_of(atom.b)
            case Binary(op="max" | "min") | Select() | IfThenElse():
                own = math.gcd(multiple_of(atom.a), multiple_of(atom.b))
        out = math.gcd(out, c * own)
    return abs(out)
