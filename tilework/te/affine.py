"""Linear forms of index expressions: ``constant + sum(coefficient * axis)``."""

from __future__ import annotations

from dataclasses import dataclass

from tilework.te.expr import Axis, Binary, Const, Expr


@dataclass(frozen=True, eq=False)
class Linear:
    """``const + sum(coefficients[axis] * axis)`` over integers."""

    coefficients: dict[Axis, int]
    const: int

    def __add__(self, other: Linear) -> Linear:
        out = dict(self.coefficients)
        for axis, c in other.coefficients.items():
            out[axis] = out.get(axis, 0) + c
        return Linear({a: c for a, c in out.items() if c}, self.const + other.const)

    def scale(self, factor: int) -> Linear:
        """The form multiplied by an integer."""
        if factor == 0:
            return Linear({}, 0)
        return Linear({a: c * factor for a, c in self.coefficients.items()}, self.const * factor)


def linear(e: Expr) -> Linear | None:
    """The linear form of an integer expression, or None where it has none."""
    match e:
        case Const():
            return Linear({}, int(e.value))
        case Axis():
            return Linear({e: 1}, 0)
        case Binary(op="+" | "-"):
            a, b = linear(e.a), linear(e.b)
            if a is None or b is None:
                return None
            return a + (b if e.op == "+" else b.scale(-1))
        case Binary(op="*"):
            a, b = linear(e.a), linear(e.b)
            if a is None or b is None:
                return None
            if not b.coefficients:
                return a.scale(b.const)
            if not a.coefficients:
                return b.scale(a.const)
    return None
