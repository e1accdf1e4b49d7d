"""Extents as JSON and back.

An integer stays one. An expression is a list of terms, each a coefficient and the atoms of a
product: a symbol's name, or ``[whole, by]`` for the floor division ``whole // by``:

    4 * batch * (seq + 1) + 7           [[4, "batch", "seq"], [4, "batch"], [7]]
    64 * ((seq + 7) // 8)               [[64, [[[1, "seq"], [7]], 8]]]

Symbols stand once in a document, beside the extents: ``["seq", 1, 512, [16, 128, 384]]`` is a name,
the range, and the typical values. What is read is checked, and built by arithmetic: so that it is
equal to what was written, and nothing odd comes of an odd document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilework.index.extents import Extent
from tilework.index.symbols import Symbol, Symbolic

MOST = 1 << 62
"""No number of a document is larger."""
MOST_SYMBOLS = 64
_MOST_TERMS = 256
_MOST_ATOMS = 16
_MOST_DEPTH = 8
_MOST_TYPICALS = 256
_MOST_NAME = 200


def extent_to_json(extent: Extent) -> Any:
    """An extent as numbers, names and lists."""
    if not isinstance(extent, Symbolic):
        return extent
    return [
        [c, *(a.name if isinstance(a, Symbol) else [extent_to_json(a.whole), a.by] for a in atoms)]
        for atoms, c in extent.terms.items()
    ]


def extent_from_json(data: Any, symbols: Mapping[str, Symbol]) -> Extent:
    """The extent of `extent_to_json`.

    Args:
        data: what a document holds.
        symbols: those of the document, by name.

    Raises:
        ValueError: it is no extent, names a symbol that is not there, or is too large.
    """
    return _extent(data, symbols, _MOST_DEPTH)


def symbols_to_json(symbols: Iterable[Symbol]) -> list[Any]:
    """Symbols as lists."""
    return [[s.name, s.low, s.high, list(s.typicals)] for s in symbols]


def symbols_from_json(data: Any) -> dict[str, Symbol]:
    """The symbols of `symbols_to_json`, by name.

    Raises:
        ValueError: it is no list of symbols, a name stands twice, a range holds no two numbers,
            or typical values lie outside.
    """
    if not isinstance(data, list) or len(data) > MOST_SYMBOLS:
        raise ValueError("symbols are no list, or too many")
    found: dict[str, Symbol] = {}
    for one in data:
        symbol = _symbol(one)
        if symbol.name in found:
            raise ValueError(f"symbol {symbol.name} stands there twice")
        found[symbol.name] = symbol
    return found


def _symbol(data: Any) -> Symbol:
    if not isinstance(data, list) or len(data) != 4:
        raise ValueError("a symbol is no list of name, range and typical values")
    name, low, high, typicals = data
    if not isinstance(name, str) or not 0 < len(name) <= _MOST_NAME:
        raise ValueError("a symbol has no name")
    if not isinstance(typicals, list) or len(typicals) > _MOST_TYPICALS:
        raise ValueError(f"symbol {name} has no list of typical values")
    ends = _whole(low), _whole(high)
    values = [_whole(v) for v in typicals]
    if ends[0] == ends[1]:
        raise ValueError(f"symbol {name} is always {low}, and no symbol")
    if values != sorted(set(values)):
        raise ValueError(f"typical values of symbol {name} do not rise")
    return Symbol(name, *ends, tuple(values))


def _extent(data: Any, symbols: Mapping[str, Symbol], depth: int) -> Extent:
    if not isinstance(data, list):
        return _whole(data)
    if not depth or not 0 < len(data) <= _MOST_TERMS:
        raise ValueError("an extent has too many parts, or none")
    total: Extent = 0
    for term in data:
        if not isinstance(term, list) or not 0 < len(term) <= _MOST_ATOMS + 1:
            raise ValueError("an extent's term is no list of a coefficient and atoms")
        product: Extent = _whole(term[0])
        for atom in term[1:]:
            product = product * _atom(atom, symbols, depth - 1)
        total = total + product
    return total


def _atom(data: Any, symbols: Mapping[str, Symbol], depth: int) -> Extent:
    if isinstance(data, str):
        if data not in symbols:
            raise ValueError(f"there is no symbol {data[:_MOST_NAME]!r}")
        return Symbolic.of({(symbols[data],): 1})
    if not isinstance(data, list) or len(data) != 2:
        raise ValueError("an extent's atom is no name, and no division")
    by = _whole(data[1])
    if by < 1:
        raise ValueError(f"an extent is divided by {by}")
    return _extent(data[0], symbols, depth) // by


def _whole(data: Any) -> int:
    if type(data) is not int or not -MOST <= data <= MOST:
        raise ValueError(f"{str(data)[:40]!r} is no number, or none of this size")
    return data
