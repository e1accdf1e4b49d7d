"""The arena: where each intermediate value of a network lives in one block of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilework.index.extents import round_up
from tilework.runtime.arrays import ALIGN


@dataclass(frozen=True)
class Lifetime:
    """A value of ``size`` bytes, alive during the calls ``first`` to ``last``, inclusive."""

    size: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are alive during some call."""
        return self.first <= other.last and other.first <= self.last


def aligned(size: int) -> int:
    """``size`` rounded up to the alignment of buffers."""
    return round_up(size, ALIGN)


def place(values: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Give each value an offset so that values alive together never share a byte.

    Greedy by size: the largest value first, each at the lowest offset that is free all its life.

    Returns:
        The aligned offset of each value, and the size of the arena, in bytes.
    """
    order = sorted(range(len(values)), key=lambda i: (-values[i].size, values[i].first, i))
    offsets = [0] * len(values)
    placed: list[int] = []
    for i in order:
        taken = sorted(
            (offsets[j], offsets[j] + aligned(values[j].size))
            for j in placed
            if values[j].meets(values[i])
        )
        at = 0
        for begin, end in taken:
            if at + aligned(values[i].size) <= begin:
                break
            at = max(at, end)
        offsets[i] = at
        placed.append(i)
    total = max((o + aligned(v.size) for o, v in zip(offsets, values, strict=True)), default=0)
    return offsets, total
