"""Narrower ranges for symbols, where a comparison decides what a node becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilework.graph.onnx.ranges import Given
from tilework.graph.operators import MAX_ELEMENTS
from tilework.index.extents import Extent
from tilework.index.symbols import Symbol, Symbolic, Undecided, symbols_of, value_at
from tilework.index.whole import COMPARE

_UNUSUAL = frozenset({(">", MAX_ELEMENTS, True), ("<", 0, True), (">=", 0, False)})
"""Comparisons with a number that ask whether a tensor is too large, or a place counts from the
end: they are not to be so, even where typical values say it."""
TRIES = 24
"""Times that ranges are narrowed for what one network is refused for."""


def narrower(ranges: dict[str, Symbol], equal: dict[str, Given], undecided: Undecided) -> bool:
    """Narrow ranges for a comparison; whether that was possible."""
    if undecided.sides is None or undecided.what not in COMPARE:
        return False
    a, b = undecided.sides
    if undecided.what == "==" and (
        _above(ranges, a, b) or _bound(ranges, equal, a, b) or _bound(ranges, equal, b, a)
    ):
        return True
    symbols = [ranges[s.name] for s in symbols_of((a, b)) if s.name in ranges]
    given = {s.name: s for s in symbols_of((a, b))}
    at = {s: ranges.get(n, s).typicals[0] for n, s in given.items()}
    lows = {**at, **{given[s.name]: s.low for s in symbols}}

    def holds(there: Mapping[Symbol, int]) -> bool:
        return bool(COMPARE[undecided.what](value_at(a, there), value_at(b, there)))

    wanted = holds(at)
    if undecided.what == "==" and not wanted:
        return False  # points on both sides of one
    if (undecided.what, b, wanted) in _UNUSUAL and holds(lows) != wanted:
        wanted, at = not wanted, lows
    start = {s.name: at[given[s.name]] for s in symbols}
    if len(given) == 1 and symbols:
        (one,) = symbols
        low, high = (
            _last(start[one.name], end, lambda n: holds({given[one.name]: n}) == wanted)
            for end in (one.low, one.high)
        )
    elif symbols and holds(lows) != wanted:
        one = max(symbols, key=lambda s: start[s.name] / max(s.low, 1))
        low, high = min(start[one.name], max(1, 2 * one.low)), one.high
    elif symbols:
        one = max(symbols, key=lambda s: s.high / max(start[s.name], 1))
        low, high = one.low, max(start[one.name], one.high // 2)
    if not symbols or (low, high) == (one.low, one.high):
        return False
    kept = tuple(n for n in one.typicals if low <= n <= high) or (high,)
    ranges[one.name] = replace(one, low=low, high=high, typicals=kept)
    return True


def _last(start: int, end: int, holds: Callable[[int], bool]) -> int:
    """The number nearest to ``end`` up to which something holds from ``start`` on."""
    if holds(end):
        return end
    while abs(end - start) > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start


def _above(ranges: dict[str, Symbol], one: Extent, number: Extent) -> bool:
    """Let a symbol's range begin above its least number, which is not all that is typical."""
    symbol = ranges.get(str(one))
    if symbol is None or symbol.low != number or symbol.typicals[-1] == number:
        return False
    kept = tuple(n for n in symbol.typicals if n > symbol.low)
    ranges[symbol.name] = replace(symbol, low=symbol.low + 1, typicals=kept)
    return True


def _bound(ranges: dict[str, Symbol], equal: dict[str, Given], one: Extent, other: Extent) -> bool:
    """Say that a symbol is what stands beside it."""
    if not isinstance(one, Symbolic):
        return False
    (symbol, *more) = one.symbols
    if (
        more
        or str(one) != symbol.name
        or symbol in symbols_of([other])
        or symbol.name not in ranges
    ):
        return False
    del ranges[symbol.name]
    equal[symbol.name] = str(other) if isinstance(other, Symbolic) else (other,)
    return True
