"""Symbols in code: what a kernel's main function computes from them, and what regions get."""

from __future__ import annotations

from collections.abc import Mapping

from tilework.index.extents import Extent
from tilework.index.symbols import Symbol
from tilework.kinds.cpu.llvm.bindings import Bindings
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.integers import Integers


class Extents:
    """Code for extents in the words of symbols, whose values are behind pointers.

    Args:
        places: by name of a symbol, which of the arguments points to its value.
    """

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = places
        self._fn = Function("")
        self._integers = Integers(self._fn, Bindings(), self._value)

    @property
    def lines(self) -> list[str]:
        """The code."""
        return self._fn.homes[0].hoisted

    def literal(self, extent: Extent) -> str:
        """An extent's value."""
        return self._integers.literal(extent)

    def _value(self, symbol: Symbol) -> str:
        put = self._fn.hoist
        text = f"getelementptr ptr, ptr %args, i64 {self._places[symbol.name]}"
        slot = put(0, text, text)
        at = put(0, ("at", symbol), f"load ptr, ptr {slot}")
        return put(0, ("symbol", symbol), f"load i64, ptr {at}")


class RegionSymbols:
    """The symbols that a region asks for, which the caller hands over behind its buffers.

    Attributes:
        places: of each, in the order in which they were asked for.
    """

    def __init__(self, fn: Function, first: int) -> None:
        self.fn, self.first = fn, first
        self.places: dict[Symbol, int] = {}

    def value(self, symbol: Symbol) -> str:
        """The value of a symbol."""
        at = self.first + self.places.setdefault(symbol, len(self.places))
        text = f"getelementptr ptr, ptr %bases, i64 {at}"
        slot = self.fn.hoist(0, text, text)
        return self.fn.hoist(0, ("symbol", symbol), f"load i64, ptr {slot}")
