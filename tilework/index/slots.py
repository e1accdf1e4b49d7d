"""Slots: values that lie within other values' memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilework.index.extents import Extent
from tilework.index.strides import row_major


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
