"""What is known of a form's values: their range, what divides them, and so when to divide them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tilework.index.extents import Extent, divisor
from tilework.index.form import Atom, Form, constant
from tilework.index.symbols import Undecided, certain, exact_quotient

Range = tuple[Extent, Extent]
"""Least and greatest value."""


def range_of(form: Form[Atom], of: Callable[[Atom], Range | None]) -> Range | None:
    """The range of a form, by those of its atoms; None where one has none."""
    low = high = form.const
    for atom, c in form.coefficients.items():
        own = of(atom)
        if own is None:
            return None
        try:
            least, greatest = own if c > 0 else own[::-1]
        except Undecided:
            return None
        low, high = low + c * least, high + c * greatest
    return low, high


def multiple_of(form: Form[Atom], of: Callable[[Atom], int]) -> int:
    """A number that divides all values of a form; 0 for one that is always 0."""
    out = divisor(form.const)
    for atom, c in form.coefficients.items():
        out = math.gcd(out, divisor(c) * of(atom))
    return out


def cut(
    form: Form[Atom], unit: Extent, of: Callable[[Atom], Range | None]
) -> tuple[Form[Atom], Form[Atom]] | None:
    """A form as a multiple of ``unit`` and a rest of ``0 <= rest < unit``; None if it is none.

    ``4*i + j`` with ``j < 4`` is ``4*i`` and ``j``. Only rests that grow with their atoms count.
    """
    rest = form.only(lambda a: _rest(form.coefficients[a], unit) != 0)
    rest = rest + constant(_rest(form.const, unit))
    ends = range_of(rest, of)
    if ends is None or not certain(lambda: ends[0] >= 0 and ends[1] < unit):
        return None
    if not certain(lambda: all(c >= 0 for c in rest.coefficients.values())):
        return None
    whole = form.only(lambda a: _rest(form.coefficients[a], unit) == 0)
    return whole + constant(form.const - rest.const), rest


def _rest(n: Extent, unit: Extent) -> Extent:
    """What a division by ``unit`` leaves of a number; all of it where that is open."""
    if isinstance(unit, int):
        return n % unit
    return 0 if exact_quotient(n, unit) is not None else n


class _Whole(Protocol):
    """What has the arithmetic of integers: an integer, an array of them, or an expression."""

    def __neg__(self: Value, /) -> Value: ...
    def __add__(self: Value, other: int, /) -> Value: ...
    def __floordiv__(self: Value, other: int, /) -> Value: ...


Value = TypeVar("Value", bound=_Whole)


def solved(rest: Value, step: int) -> tuple[Value | None, Value | None]:
    """The range ``first <= i < stop`` in which ``rest + step * i >= 0``; None for no such end."""
    if step > 0:
        return -(rest // step), None
    return None, rest // -step + 1


def quotient(form: Form[Atom], by: Extent) -> Form[Atom]:
    """A multiple of ``by``, divided."""
    return Form({a: c // by for a, c in form.coefficients.items()}, form.const // by)


def common_unit(form: Form[Any], d: int) -> int:
    """The largest number that divides ``d`` and every coefficient that has a divisor of it."""
    units = [math.gcd(divisor(c), d) for c in form.coefficients.values()]
    steps = [unit for unit in units if unit > 1]
    return math.gcd(*steps) if steps else 1
