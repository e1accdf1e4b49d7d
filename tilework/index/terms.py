"""Polynomials as terms: integer coefficients, none of them 0, by products of atoms.

What atoms are is no matter here: they have keys, by which a product's are in order, so that equal
products are equal tuples. The empty product is 1.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar


class AnyAtom(Protocol):
    """A factor of products."""

    @property
    def key(self) -> tuple[int, str]:
        """Where it stands in a product."""

    @property
    def range(self) -> tuple[int, int]:
        """A least and a greatest value."""


A = TypeVar("A", bound=AnyAtom)


def product(atoms: Iterable[A]) -> tuple[A, ...]:
    """The product of some atoms."""
    return tuple(sorted(atoms, key=lambda a: a.key))


def place(monomial: tuple[AnyAtom, ...]) -> tuple[Any, ...]:
    """Terms are written by falling degree, the constant last."""
    return 0 if monomial else 1, -len(monomial), [a.key for a in monomial]


def added(
    a: Mapping[tuple[A, ...], int], b: Mapping[tuple[A, ...], int]
) -> dict[tuple[A, ...], int]:
    """The terms of a sum."""
    out = dict(a)
    for m, c in b.items():
        out[m] = out.get(m, 0) + c
    return out


def multiplied(
    a: Mapping[tuple[A, ...], int], b: Mapping[tuple[A, ...], int]
) -> dict[tuple[A, ...], int]:
    """The terms of a product."""
    out: dict[tuple[A, ...], int] = {}
    for m, c in a.items():
        for n, d in b.items():
            key = product((*m, *n))
            out[key] = out.get(key, 0) + c * d
    return out


def quotient(
    whole: Mapping[tuple[A, ...], int], by: Mapping[tuple[A, ...], int]
) -> dict[tuple[A, ...], int] | None:
    """The terms of ``whole / by`` where that is a polynomial of whole coefficients, else None."""
    if not by:
        return None
    rest, out = dict(whole), dict[tuple[A, ...], int]()
    lead = max(by, key=_degree)
    while rest:
        most = max(rest, key=_degree)
        monomial = _cancelled(most, lead)
        if monomial is None or rest[most] % by[lead]:
            return None
        c = rest[most] // by[lead]
        out[monomial] = out.get(monomial, 0) + c
        rest = added(rest, multiplied(by, {monomial: -c}))
        rest = {m: c for m, c in rest.items() if c}
    return out


def _degree(monomial: tuple[AnyAtom, ...]) -> tuple[Any, ...]:
    """An order of products that multiplication keeps: by degree, then by their atoms."""
    return len(monomial), [a.key for a in monomial]


def _cancelled(monomial: tuple[A, ...], by: tuple[A, ...]) -> tuple[A, ...] | None:
    """A product without the factors of another one, where it has them all."""
    left = list(monomial)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


_FEW = 8
"""Terms that atoms are taken out of: work grows by their power."""
_FEW_ATOMS = 4
"""Atoms of which all corners are looked at."""


def interval(terms: Mapping[tuple[A, ...], int]) -> tuple[int, int]:
    """A least and a greatest value, if each atom had any of its values at each place.

    Of terms that are linear in each of a few atoms the ends are where atoms have theirs. Else an
    atom of several terms is taken out of them as well (``a b - a`` as ``a (b - 1)``), and the
    narrower ends count.
    """
    low = high = 0
    for monomial, c in terms.items():
        ends = (c, c)
        for atom in monomial:
            ends = _times(ends, atom.range)
        low, high = low + ends[0], high + ends[1]
    counts = Counter(atom for monomial in terms for atom in set(monomial))
    linear = all(len(set(monomial)) == len(monomial) for monomial in terms)
    if linear and max(counts.values(), default=0) > 1 and len(counts) <= _FEW_ATOMS:
        return _corners(terms, [*counts])
    for atom, count in counts.items() if len(terms) <= _FEW else ():
        if count > 1:
            inner = {_cancelled(m, (atom,)) or (): c for m, c in terms.items() if atom in m}
            ends = _times(interval(inner), atom.range)
            rest = interval({m: c for m, c in terms.items() if atom not in m})
            low, high = max(low, ends[0] + rest[0]), min(high, ends[1] + rest[1])
    return low, high


def _corners(terms: Mapping[tuple[A, ...], int], atoms: Sequence[A]) -> tuple[int, int]:
    """The least and the greatest value where each atom is at an end of its range."""
    values = []
    for ends in itertools.product(*(atom.range for atom in atoms)):
        at = dict(zip(atoms, ends, strict=True))
        values.append(sum(c * math.prod(at[a] for a in m) for m, c in terms.items()))
    return min(values), max(values)


def _times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)
