"""Linear forms: ``const + sum(coefficient * atom)``.

An atom is what a form is linear in: a loop's variable, or anything else that is looked at as a
whole. Forms keep the order in which atoms came to them, so that code made of them is always the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from tilework.frozen import frozen
from tilework.index.extents import Extent, Number, known, typical

Atom = TypeVar("Atom")


@frozen
class Form(Generic[Atom]):
    """``const + sum(coefficients[atom] * atom)`` over integers; no coefficient is 0.

    Equal forms have the same value wherever their atoms have. Made by `constant`, `variable` and
    arithmetic.
    """

    coefficients: Mapping[Atom, Extent]
    const: Extent

    def __add__(self, other: Form[Atom]) -> Form[Atom]:
        out = dict(self.coefficients)
        for atom, c in other.coefficients.items():
            out[atom] = out.get(atom, 0) + c
        return Form({a: c for a, c in out.items() if c != 0}, self.const + other.const)

    def __sub__(self, other: Form[Atom]) -> Form[Atom]:
        return self + other.scale(-1)

    def scale(self, factor: Extent) -> Form[Atom]:
        """The form multiplied by an integer."""
        if factor == 0:
            return Form({}, 0)
        return Form({a: c * factor for a, c in self.coefficients.items()}, self.const * factor)

    def step(self, atom: Atom) -> Extent:
        """How far the value moves with ``atom``."""
        return self.coefficients.get(atom, 0)

    def only(self, keep: Callable[[Atom], bool]) -> Form[Atom]:
        """The terms of some atoms, without the constant."""
        return Form({a: c for a, c in self.coefficients.items() if keep(a)}, 0)

    def value(self, at: Mapping[Atom, Any]) -> Any:
        """The value where the atoms have values: integers, or arrays of them."""
        out: Any = self.const
        for atom, c in self.coefficients.items():
            out = out + c * at[atom]
        return out

    def width(self, spans: Mapping[Atom, Number], one: Number) -> Number:
        """From the least to the greatest value, both included, while atoms move over ``spans``.

        ``one`` says in which numbers: 1, or an array of ones.
        """
        for atom, c in self.coefficients.items():
            one = one + abs(known(c)) * (spans[atom] - 1)
        return one

    def typical(self) -> Form[Atom]:
        """The form where a search looks at it."""
        coefficients = {a: typical(c) for a, c in self.coefficients.items()}
        return Form({a: c for a, c in coefficients.items() if c}, typical(self.const))


def constant(value: Extent) -> Form[Any]:
    """The form of a number."""
    return Form({}, value)


def variable(atom: Atom) -> Form[Atom]:
    """The form of an atom itself."""
    return Form({atom: 1}, 0)


def total(terms: Mapping[Atom, Extent], const: Extent) -> Form[Atom]:
    """The form of a sum, by the coefficient of each atom, none of which is 0."""
    return Form(terms, const)


def product(a: Form[Atom], b: Form[Atom]) -> Form[Atom] | None:
    """The product of two forms, None where none of them is a number."""
    if not b.coefficients:
        return a.scale(b.const)
    if not a.coefficients:
        return b.scale(a.const)
    return None


def position(forms: Iterable[Form[Atom]], strides: Iterable[Extent]) -> Form[Atom]:
    """The number of an element as a form, by the forms of its indices."""
    terms: dict[Atom, Extent] = {}
    const: Extent = 0
    for form, stride in zip(forms, strides, strict=True):
        const += form.const * stride
        for atom, c in form.coefficients.items():
            total = terms.get(atom, 0) + c * stride
            if total != 0:
                terms[atom] = total
            else:
                terms.pop(atom, None)
    return Form(terms, const)


def position_if(
    forms: Iterable[Form[Atom] | None], strides: Iterable[Extent]
) -> Form[Atom] | None:
    """The same of indices that may have no form: None where one has none."""
    indices = list(forms)
    known = [form for form in indices if form is not None]
    return position(known, strides) if len(known) == len(indices) else None
