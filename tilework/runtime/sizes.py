"""Many extents at once at a point: a matrix of coefficients times a few products of symbols."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.index.extents import Extent
from tilework.index.symbols import Atom, Floor, Monomial, Symbol, Symbolic, range_of

_Sum = list[tuple[int, tuple[int, ...]]]
_MOST = float(1 << 62)


class Sizes:
    """Extents, to be evaluated together.

    Args:
        symbols: those that they depend on.
        extents: in the order of their values.
    """

    def __init__(self, symbols: Sequence[Symbol], extents: Sequence[Extent]) -> None:
        self._symbols = tuple(symbols)
        self._atoms: dict[Atom, int] = {s: n for n, s in enumerate(symbols)}
        self._floors: list[tuple[_Sum, int]] = []
        columns: dict[Monomial, int] = {(): 0}
        distinct = {extent: n for n, extent in enumerate(dict.fromkeys(extents))}
        self._numbers = np.array([distinct[extent] for extent in extents], np.int64)
        rows = [_terms(extent) for extent in distinct]
        for row in rows:
            for monomial in row:
                columns.setdefault(monomial, len(columns))
        self._products = [self._product(monomial) for monomial in columns]
        self._factors = np.zeros((len(rows), len(columns)), np.int64)
        for i, row in enumerate(rows):
            for monomial, factor in row.items():
                self._factors[i, columns[monomial]] = factor
        self._most = np.abs(self._factors).max(0, initial=0).astype(float)
        tops = [max(map(abs, range_of(Symbolic.of({monomial: 1})))) for monomial in columns]
        self._small = bool(self._most @ np.array(tops, float) < _MOST)

    def at(self, point: Sequence[int]) -> NDArray[np.int64]:
        """The values where the symbols have these, in order.

        Raises:
            ModuleError: one of them is too large for any machine.
        """
        values = list(point)
        for whole, by in self._floors:
            values.append(sum([c * _multiplied(atoms, values) for c, atoms in whole]) // by)
        products = [_multiplied(atoms, values) for atoms in self._products]
        if not self._small and self._most @ np.abs(np.array(products, float)) >= _MOST:
            pairs = zip(self._symbols, point, strict=True)
            where = ", ".join(f"{s.name} = {n}" for s, n in pairs)
            raise ModuleError(f"sizes at {where} are too large for any machine")
        return (self._factors @ np.array(products, np.int64))[self._numbers]

    def _product(self, monomial: Monomial) -> tuple[int, ...]:
        """The numbers of its atoms: symbols first, then floors, each behind those in it."""
        return tuple(self._atom(atom) for atom in monomial)

    def _atom(self, atom: Atom) -> int:
        if atom not in self._atoms:
            assert isinstance(atom, Floor)
            whole = [(c, self._product(m)) for m, c in atom.whole.terms.items()]
            self._atoms[atom] = len(self._symbols) + len(self._floors)
            self._floors.append((whole, atom.by))
        return self._atoms[atom]


def _multiplied(atoms: tuple[int, ...], values: list[int]) -> int:
    product = 1
    for atom in atoms:
        product *= values[atom]
    return product


def _terms(extent: Extent) -> dict[Monomial, int]:
    return dict(extent.terms) if isinstance(extent, Symbolic) else {(): extent}
