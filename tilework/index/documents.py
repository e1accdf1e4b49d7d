"""Extents in plain documents: a number as it is, any other as the list of its terms.

    seq*64 + 1          [[64, "seq"], [1]]
    (seq + 7)//8        [[1, [[[1, "seq"], [7]], 8]]]

A term is its coefficient and then its atoms: a symbol's name, or a floor division as what is
divided and by how much. The symbols themselves stand in a table of their own, a line each.

    seq, from 1 to 512, typically 128       ["seq", 1, 512, [128]]
    the same, or 0: nothing at all          ["seq", 1, 512, [128], true]

What is read is checked, and built by arithmetic: it is equal to what was written, and nothing odd
or large comes of an odd document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilework.index.symbols import Atom, Symbol, Symbolic, Whole

Symbols = Mapping[str, Symbol]
"""By name."""
_LARGEST = 2**62
_MAX_DEPTH = 16
_MAX_TERMS = 256
_MAX_ATOMS = 32
_MAX_SYMBOLS = 64
_MAX_TYPICALS = 256
_MAX_NAME = 200


def extent_document(extent: Whole) -> Any:
    """An extent as it is written."""
    if not isinstance(extent, Symbolic):
        return extent
    return [[c, *map(_atom_document, m)] for m, c in extent.terms.items()]


def symbol_document(symbol: Symbol) -> list[Any]:
    """A symbol as a line of the table."""
    none = [True] if symbol.or_none else []
    return [symbol.name, symbol.low, symbol.high, list(symbol.typicals), *none]


def table_document(symbols: Iterable[Symbol]) -> list[Any]:
    """The table of some symbols."""
    return [symbol_document(s) for s in symbols]


def extent_of(document: Any, symbols: Symbols, depth: int = 0) -> Whole:
    """The extent that a document stands for.

    Raises:
        ValueError: it stands for none, names a symbol that is not in the table, or is too large.
    """
    if _is_whole(document):
        return int(document)
    if not isinstance(document, list) or not document or depth > _MAX_DEPTH:
        raise ValueError(f"{_short(document)} is no extent")
    out: Whole = 0
    for term in document:
        if not isinstance(term, list) or not term or not _is_whole(term[0]):
            raise ValueError(f"{_short(term)} is no term of an extent")
        product: Whole = term[0]
        for atom in term[1:]:
            product = _small(product * _atom_of(atom, symbols, depth))
        out = _small(out + product)
    return out


def symbol_of(document: Any) -> Symbol:
    """The symbol that a line of the table stands for.

    Raises:
        ValueError: it stands for none.
    """
    match document:
        case [str(name), low, high, [*typicals], *none] if none in ([], [True]) and all(
            map(_is_whole, (low, high, *typicals))
        ):
            named = 0 < len(name) <= _MAX_NAME and len(typicals) <= _MAX_TYPICALS
            if named and low < high and typicals == sorted(set(typicals)):
                return Symbol(name, low, high, tuple(typicals), bool(none))
    raise ValueError(f"{_short(document)} is no symbol")


def table_of(document: Any) -> dict[str, Symbol]:
    """The symbols of a table, by name.

    Raises:
        ValueError: it is no table, or two symbols have one name.
    """
    if not isinstance(document, list) or len(document) > _MAX_SYMBOLS:
        raise ValueError(f"{_short(document)} is no table of symbols")
    table = {s.name: s for s in map(symbol_of, document)}
    if len(table) != len(document):
        raise ValueError(f"two symbols of one name in {_short(document)}")
    return table


def _atom_document(atom: Atom) -> Any:
    if isinstance(atom, Symbol):
        return atom.name
    return [extent_document(atom.whole), atom.by]


def _atom_of(document: Any, symbols: Symbols, depth: int) -> Whole:
    match document:
        case str(name) if name in symbols:
            return Symbolic.of({(symbols[name],): 1})
        case [whole, by] if _is_whole(by) and by > 0:
            return extent_of(whole, symbols, depth + 1) // int(by)
    raise ValueError(f"{_short(document)} is no symbol of the table, and no division")


def _small(extent: Whole) -> Whole:
    """An extent, unless it is larger than any that is meant."""
    terms = extent.terms if isinstance(extent, Symbolic) else {(): extent}
    if len(terms) > _MAX_TERMS or any(len(m) > _MAX_ATOMS for m in terms):
        raise ValueError("an extent has too many parts")
    if any(abs(c) >= _LARGEST for c in terms.values()):
        raise ValueError("an extent is too large")
    return extent


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST


def _short(document: Any) -> str:
    return repr(document)[:80]
