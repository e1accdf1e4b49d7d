"""Slots: values that lie within other values' memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilework.index.extents import Extent
from tilework.index.strides import row_major
from tilework.index.symbols import Symbolic, Undecided, symbols_of


class Slot(NamedTuple):
    """Where a value lies in the memory of ``root``: its first element, and its strides.

    ``strides`` holds the distance between neighbours in each of the value's dimensions.
    """

    root: str
    offset: Extent
    strides: tuple[Extent, ...]

    def at(self, start: Sequence[Extent], steps: Sequence[int] | None = None) -> Slot:
        """The box that begins at ``start`` and takes every ``steps``-th position."""
        away = sum(n * s for n, s in zip(start, self.strides, strict=True))
        far = steps or (1,) * len(self.strides)
        strides = tuple(max(n, 1) * s for n, s in zip(far, self.strides, strict=True))
        return Slot(self.root, self.offset + away, strides)


def whole(name: str, shape: Sequence[Extent]) -> Slot:
    """A value in memory of its own."""
    return Slot(name, 0, row_major(shape))


def along(extent: Extent, by: Extent) -> tuple[Extent, Extent]:
    """What an extent is where the symbol ``by`` is 0, and by how much it grows with each of it.

    It is linear in that symbol, of which no floor depends on. Where ``by`` is a number, nothing
    depends on it.
    """
    if not isinstance(extent, Symbolic) or not isinstance(by, Symbolic):
        return extent, 0
    (atom,) = by.symbols
    rest = {m: c for m, c in extent.terms.items() if atom not in m}
    step = {tuple(a for a in m if a != atom): c for m, c in extent.terms.items() if atom in m}
    start, each = Symbolic.of(rest), Symbolic.of(step)
    if start + each * by != extent or atom in symbols_of((start, each)):
        raise Undecided(f"{extent} is not linear in {by}")
    return start, each
