"""Extents in plain documents: a number as it is, any other as the list of its terms.

    seq*64 + 1          [[64, "seq"], [1]]
    (seq + 7)//8        [[1, [[[1, "seq"], [7]], 8]]]

A term is its coefficient and then its atoms: a symbol's name, or a floor division as what is
divided and by how much. The symbols themselves stand in a table of their own, a line each.

    seq, from 1 to 512, typically 128       ["seq", 1, 512, [128]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilework.index.symbols import Atom, Symbol, Symbolic, Whole

Symbols = Mapping[str, Symbol]
"""By name."""
_MAX_DEPTH = 16
_LARGEST = 2**62


def extent_document(extent: Whole) -> Any:
    """An extent as it is written."""
    if not isinstance(extent, Symbolic):
        return extent
    return [[c, *map(_atom_document, m)] for m, c in extent.terms.items()]


def symbol_document(symbol: Symbol) -> list[Any]:
    """A symbol as a line of the table."""
    return [symbol.name, symbol.low, symbol.high, list(symbol.typicals)]


def extent_of(document: Any, symbols: Symbols, depth: int = 0) -> Whole:
    """The extent that a document stands for.

    Raises:
        ValueError: it stands for none.
    """
    if _is_whole(document):
        return int(document)
    if not isinstance(document, list) or depth > _MAX_DEPTH:
        raise ValueError(f"{document!r} is no extent")
    out: Whole = 0
    for term in document:
        if not isinstance(term, list) or not term or not _is_whole(term[0]):
            raise ValueError(f"{term!r} is no term of an extent")
        product: Whole = term[0]
        for atom in term[1:]:
            product = product * _atom_of(atom, symbols, depth)
        out = out + product
    return out


def symbol_of(document: Any) -> Symbol:
    """The symbol that a line of the table stands for.

    Raises:
        ValueError: it stands for none.
    """
    match document:
        case [str(name), low, high, [*typicals]] if all(map(_is_whole, (low, high, *typicals))):
            return Symbol(name, low, high, tuple(typicals))
    raise ValueError(f"{document!r} is no symbol")


def _atom_document(atom: Atom) -> Any:
    if isinstance(atom, Symbol):
        return atom.name
    return [extent_document(atom.whole), atom.by]


def _atom_of(document: Any, symbols: Symbols, depth: int) -> Whole:
    match document:
        case str(name) if name in symbols:
            return Symbolic.of({(symbols[name],): 1})
        case [whole, by] if _is_whole(by) and by > 0:
            return extent_of(whole, symbols, depth + 1) // by
    raise ValueError(f"{document!r} is no symbol of the table, and no division")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
