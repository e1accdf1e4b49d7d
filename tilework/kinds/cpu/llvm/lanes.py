"""Vector loops: the lanes that one piece of a loop covers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lane:
    """A vector loop variable: ``offset + 0, offset + 1, ..., offset + width - 1``.

    Only the first ``active`` lanes count; the others hold anything and are neither loaded nor
    stored.
    """

    offset: int
    width: int
    active: int


class LaneDependent(Exception):
    """An integer expression depends on a vector loop variable, so it has no scalar value."""


def pieces(extent: int, lanes: int, masked: bool) -> list[tuple[int, int, int]]:
    """Cut a vector loop into (offset, width, active lanes).

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
            out.append((offset, 1 << rest.bit_length(), rest))
            break
        out.append((offset, width, width))
        offset += width
    return out
