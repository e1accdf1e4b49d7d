"""Extents that a run brings, as users write them: a range, and where a search looks in it.

- ``1..512``: any number up to 512;
- ``1..512:16,64,128,384``: the same, with typical values;
- ``0|1..512``: the same, or 0, where no output of the network has elements then (`nothing`);
- ``past + seq``: arithmetic of symbols that have a range.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tilework.errors import NetworkError
from tilework.graph.onnx.symbols import evaluated
from tilework.index.extents import Extent
from tilework.index.symbols import symbol

Given = Sequence[int | str] | str
"""What is given for a name: the shape of an input, of numbers and symbols; or the extent of a
symbol, as one number in a sequence or as a range."""

Shapes = Mapping[str, Given]
"""By name of an input or a symbol."""

Loose = Mapping[str, Given | int]
"""The same as users write it: the extent of a symbol may be a number alone."""

_RANGE = re.compile(r"\s*(0\s*\|)?\s*(\d+)\s*\.\.\s*(\d+)\s*(?::\s*(\d+(?:\s*,\s*\d+)*)\s*)?")


def shapes_of(given: Loose | None) -> dict[str, str | tuple[int | str, ...]]:
    """What users give, in one form.

    Raises:
        NetworkError: something is neither a number, a range nor a shape of numbers and symbols.
    """
    shapes: dict[str, str | tuple[int | str, ...]] = {}
    for name, what in (given or {}).items():
        extents = what if isinstance(what, Sequence) else (what,)
        if any(isinstance(n, bool) or not isinstance(n, int | str | np.integer) for n in extents):
            raise NetworkError(
                f"{what!r}, given for '{name}', is no number, range or shape; write 4, '1..512' "
                "or (1, 3, 224, 224)"
            )
        shapes[name] = what if isinstance(what, str) else tuple(_plain(n) for n in extents)
    return shapes


def _plain(extent: int | str) -> int | str:
    return extent if isinstance(extent, str) else int(extent)


def symbol_of(name: str, text: str) -> Extent:
    """The extent that a range means; one of a single value is that number.

    Raises:
        NetworkError: the text has another form, or there is nothing in the range.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise NetworkError(
            f"the range '{text}' of the symbol '{name}' makes no sense; write LOW..HIGH, and "
            "typical values behind it: 1..512 or 1..512:16,64,128"
        )
    none, low, high, typicals = match.groups()
    values = [int(n) for n in typicals.split(",")] if typicals else []
    try:
        return symbol(name, int(low), int(high), values, bool(none) and int(low) > 0)
    except ValueError as e:
        raise NetworkError(str(e)) from e


def is_range(text: str) -> bool:
    """Whether it is a range, and no arithmetic."""
    return _RANGE.fullmatch(text) is not None


def from_one(text: str) -> str:
    """A range without 0; the text itself where it does not begin there, or holds nothing else."""
    match = _RANGE.fullmatch(text)
    if match is None or int(match[2]) > 0 or int(match[3]) < 1:
        return text
    typicals = [n for n in (match[4] or "").split(",") if n and int(n)]
    return f"1..{match[3]}" + (f":{','.join(typicals)}" if typicals else "")


def holding_0(shapes: Mapping[str, Given]) -> list[str]:
    """The symbols whose ranges begin at 0, and hold more."""
    return [s for s, r in shapes.items() if isinstance(r, str) and from_one(r) != r]


def without_0(
    shapes: Mapping[str, str | tuple[int | str, ...]], symbols: Collection[str]
) -> dict[str, str | tuple[int | str, ...]]:
    """The same, ranges of some symbols without 0."""
    return {
        s: from_one(r) if s in symbols and isinstance(r, str) else r for s, r in shapes.items()
    }


def symbols_given(shapes: Shapes) -> dict[str, Extent]:
    """The symbols that are given a range, or arithmetic of others, by name.

    Raises:
        NetworkError: see `symbol_of`.
    """
    texts = {name: text for name, text in shapes.items() if isinstance(text, str)}
    symbols = {name: symbol_of(name, text) for name, text in texts.items() if ".." in text}
    for name, text in texts.items():
        if ".." not in text:
            symbols[name] = extent_of(name, text, symbols)
    return symbols


def extent_of(name: str, text: str, ranges: Mapping[str, Extent]) -> Extent:
    """What arithmetic of symbols means.

    Raises:
        NetworkError: it is none, or a symbol has no range.
    """
    extent = evaluated(text, ranges)
    if extent is None:
        raise NetworkError(
            f"'{text}', given for '{name}', is no arithmetic of symbols with ranges; give each a "
            "range, such as --shape seq=1..512"
        )
    return extent
