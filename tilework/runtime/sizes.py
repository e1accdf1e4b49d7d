"""Many extents at once at a point: a matrix of coefficients times a few products of symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.index.extents import Extent
from tilework.index.symbols import Atom, Monomial, Symbol, Symbolic, value_at

_MOST = float(1 << 62)


class Sizes:
    """Extents, to be evaluated together.

    Args:
        symbols: those that they depend on.
        extents: in the order of their values.
    """

    def __init__(self, symbols: Sequence[Symbol], extents: Sequence[Extent]) -> None:
        self._symbols = tuple(symbols)
        columns: dict[Monomial, int] = {(): 0}
        rows = [_terms(extent) for extent in extents]
        for row in rows:
            for monomial in row:
                columns.setdefault(monomial, len(columns))
        self._monomials = list(columns)
        self._factors = np.zeros((len(rows), len(columns)), np.int64)
        for i, row in enumerate(rows):
            for monomial, factor in row.items():
                self._factors[i, columns[monomial]] = factor
        self._most = np.abs(self._factors).max(0, initial=0).astype(float)

    def at(self, point: Sequence[int]) -> NDArray[np.int64]:
        """The values where the symbols have these, in order.

        Raises:
            ModuleError: one of them is too large for any machine.
        """
        values: dict[Atom, int] = dict(zip(self._symbols, point, strict=True))
        at = dict(zip(self._symbols, point, strict=True))
        products = []
        for monomial in self._monomials:
            for atom in monomial:
                if atom not in values:
                    values[atom] = value_at(Symbolic.of({(atom,): 1}), at)
            products.append(math.prod([values[atom] for atom in monomial]))
        if self._most @ np.abs(np.array(products, float)) >= _MOST:
            told = ", ".join(f"{s.name} = {n}" for s, n in at.items())
            raise ModuleError(f"sizes at {told} are too large for any machine")
        return self._factors @ np.array(products, np.int64)


def _terms(extent: Extent) -> dict[Monomial, int]:
    return dict(extent.terms) if isinstance(extent, Symbolic) else {(): extent}
