"""The arena: where each intermediate value of a network lives in one block of memory."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.frozen import frozen
from tilework.index.extents import Extent, known, round_up
from tilework.runtime.arrays import ALIGN


@frozen
class Lifetime:
    """A value of ``size`` bytes, alive during the calls ``first`` to ``last``, inclusive."""

    size: Extent
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are alive during some call."""
        return self.first <= other.last and other.first <= self.last


def aligned(size: int) -> int:
    """``size`` rounded up to the alignment of buffers."""
    return round_up(size, ALIGN)


def place(values: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Places of values whose sizes are known; see `Arena.place`."""
    return Arena(values).place([known(v.size) for v in values])


class Arena:
    """Values with lifetimes, to be placed once for all or for each run's sizes anew.

    Args:
        values: their lifetimes; sizes are looked at when they are placed.
    """

    def __init__(self, values: Sequence[Lifetime]) -> None:
        self._in_time = sorted(range(len(values)), key=lambda i: values[i].first)
        self._beside: list[list[int]] = [[] for _ in values]
        alive: list[int] = []
        for i in self._in_time:
            alive = [j for j in alive if values[j].last >= values[i].first]
            for j in alive:
                if values[j].meets(values[i]):
                    self._beside[i].append(j)
                    self._beside[j].append(i)
            alive.append(i)

    def place(self, sizes: Sequence[int]) -> tuple[list[int], int]:
        """Give each value an offset so that values alive together never share a byte.

        Greedy by size: the largest value first, each at the lowest offset that is free all its
        life.

        Args:
            sizes: of the values, in bytes.

        Returns:
            The aligned offset of each value, and the size of the arena, in bytes.
        """
        spans: list[tuple[int, int] | None] = [None] * len(sizes)
        beside, room = self._beside, [-(-size // ALIGN) * ALIGN for size in sizes]
        for i in sorted(self._in_time, key=sizes.__getitem__, reverse=True):
            end = size = room[i]
            taken = [span for j in beside[i] if (span := spans[j])]
            taken.sort()
            for begin, stop in taken:
                if end <= begin:
                    break
                if stop + size > end:
                    end = stop + size
            spans[i] = end - size, end
        placed = [span for span in spans if span]
        return [begin for begin, _ in placed], max([end for _, end in placed], default=0)
