"""Tile levels: how the loops of a stage are cut, and what runs each of them.

A stage is tiled by a sequence of levels, outermost first. A *spatial* level holds one loop per
spatial axis, a *reduce* level one per reduce axis. Which levels there are, and which part of the
machine runs them, is a matter of its kind (`Tiling`); rules, rows, lowering and features ask for
roles and never for positions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from tilework.frozen import frozen
from tilework.once import cached_property


class Role(StrEnum):
    """What runs the loops of a level."""

    grid = "grid"
    """Blocks of a GPU's grid."""
    virtual = "virtual"
    """Points of one thread that lie a whole block of threads apart."""
    thread = "thread"
    """Threads of a block."""
    parallel = "parallel"
    """Threads of a CPU: its outermost loops may be fused and shared out."""
    serial = "serial"
    """One after the other."""
    inner = "inner"
    """Around the register tile, without leaving registers; partly expanded."""
    register = "register"
    """Expanded: its points live in registers."""
    vector = "vector"
    """As `register`, and the last axis is a vector."""


@frozen
class Level:
    """One level of tiling; ``kind`` is ``S`` for spatial axes, ``R`` for reduce axes."""

    kind: Literal["S", "R"]
    role: Role


@frozen
class Levels:
    """The levels of a stage, outermost first; the last one is its register tile.

    Attributes:
        items: the levels.
        reuse: whether they are those of a stage that reads its inputs several times.
    """

    items: tuple[Level, ...]
    reuse: bool = False

    def __str__(self) -> str:
        return "".join(level.kind for level in self.items)

    @cached_property
    def spatial(self) -> int:
        """Number of spatial levels."""
        return sum(level.kind == "S" for level in self.items)

    @cached_property
    def reduce(self) -> int:
        """Number of reduce levels."""
        return sum(level.kind == "R" for level in self.items)

    @cached_property
    def numbered(self) -> tuple[tuple[Level, int], ...]:
        """Each level with its number among those of its kind, outermost first."""
        seen = {"S": 0, "R": 0}
        out = []
        for level in self.items:
            out.append((level, seen[level.kind]))
            seen[level.kind] += 1
        return tuple(out)

    def within(self, depth: int) -> tuple[int, int]:
        """The first spatial and the first reduce level inside the ``depth`` outermost levels."""
        outside = self.items[:depth]
        spatial = sum(level.kind == "S" for level in outside)
        return spatial, len(outside) - spatial

    @cached_property
    def visited(self) -> int:
        """The first spatial level inside the outermost of several reduce levels.

        What it covers is visited once for each iteration of that reduce level. With one reduce
        level or none: the second spatial level.
        """
        if self.reduce < 2:
            return 1
        first = next(i for i, level in enumerate(self.items) if level.kind == "R")
        return self.within(first)[0]

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Depths at which a producer's tile may be computed: after each outer spatial level.

        None where the levels are not those of a stage that reuses its inputs.
        """
        if not self.reuse:
            return ()
        return tuple(range(1, self._outer + 1))

    @cached_property
    def inner_places(self) -> tuple[int, ...]:
        """Further such depths: after the outermost of several reduce levels.

        A tile is then computed anew for each iteration of it, and may be as much smaller.
        """
        return (self._outer + 1,) if self.reuse and self.reduce > 1 else ()

    @cached_property
    def _outer(self) -> int:
        """Number of spatial levels outside the outermost reduce level."""
        return next((i for i, level in enumerate(self.items) if level.kind == "R"), 0)


@frozen
class Tiling:
    """How a kind of machine tiles stages.

    Attributes:
        reuse: of a reduction that reads its inputs several times.
        reduction: of any other reduction.
        elementwise: of a stage that reduces nothing.
        ragged: of a reduction whose number of terms is data.
        scatter: of a reduction whose terms mean one point of an axis each; None where a kind of
            machine has no code for it.
    """

    reuse: Levels
    reduction: Levels
    elementwise: Levels
    ragged: Levels
    scatter: Levels | None = None

    def plain(self, *, reduces: bool) -> Levels:
        """Levels of a simple nest."""
        return self.reduction if reduces else self.elementwise
