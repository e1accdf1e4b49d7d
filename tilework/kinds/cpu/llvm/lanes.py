"""Vector loops: the lanes that one piece of a loop covers."""

from __future__ import annotations

from functools import lru_cache

from tilework.frozen import frozen
from tilework.kinds.cpu.llvm.ssa import Ssa


@frozen
class Mask:
    """Which lanes count: the first ones, so many as a run says.

    Attributes:
        value: a predicate for each lane, or an integer whose sign is one.
        count: how many points of the whole vector loop count.
        depth: loops around what ``count`` is computed from.
        offset: of the first lane in that loop.
    """

    value: Ssa
    count: str
    depth: int
    offset: int


Active = int | Mask
"""How many of the first lanes count."""


@frozen
class Lane:
    """A vector loop variable: ``offset + 0, offset + 1, ..., offset + width - 1``.

    Only the first ``active`` lanes count; the others hold anything and are neither loaded nor
    stored. Where a run decides how many count, ``active`` is all of them and `some` says which.
    """

    offset: int
    width: int
    active: int
    some: Mask | None = None

    @property
    def idle(self) -> Active | None:
        """Which lanes count, None if all do."""
        if self.some is not None:
            return self.some
        return self.active if self.active < self.width else None


class LaneDependent(Exception):
    """An integer expression depends on a vector loop variable, so it has no scalar value."""


def whole_vectors(extent: int, lanes: int) -> list[tuple[int, int]]:
    """Cut a vector loop, of whose points a run says how many count, into (offset, width).

    Vectors have two lanes at least: a single element has no mask.
    """
    out = []
    for offset in range(0, extent, lanes):
        width = lanes
        while width > 2 and width // 2 >= extent - offset:
            width //= 2
        out.append((offset, width))
    return out


@lru_cache(maxsize=1024)
def pieces(extent: int, lanes: int, masked: bool) -> tuple[Lane, ...]:
    """The vectors of a loop whose extent is known.

    Whole registers first. What is left is cut into halving widths; with ``masked``, the last
    piece is a vector with idle lanes where that saves one or more others: 13 elements of 16
    lanes are 8 + 4 + 1, or 16 with 3 idle.
    """
    out = []
    offset, width = 0, lanes
    while offset < extent:
        rest = extent - offset
        while width > rest:
            width //= 2
        if masked and width < rest < lanes:
            out.append(Lane(offset, 1 << rest.bit_length(), rest))
            break
        out.append(Lane(offset, width, width))
        offset += width
    return tuple(out)
