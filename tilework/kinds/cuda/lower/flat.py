"""Numbers and places: points of several axes in one order, shared out among neighbouring threads.

::

    p = block * T + thread                       a thread's point, the last axis fastest
    z = p / (Y * X), y = p / X % Y, x = p % X    its place
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tilework.frozen import frozen
from tilework.index.extents import known_shape
from tilework.index.strides import row_major
from tilework.lower.common import ZERO, const, loop_var, var_or_zero, weighted_sum
from tilework.lower.ir import If, Let, Region, Stmt
from tilework.space.bounds import conjunction
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, binary, compare

Names = list[tuple[Axis, Expr]]
"""Variables and what they stand for, each in terms of those before it."""


def chosen(nest: BlockNest, kind: str) -> int:
    """What the only row decides."""
    return int(nest.values[kind][0])


def named(names: Names, body: Stmt) -> Stmt:
    """``body`` where names stand for values."""
    for var, value in reversed(names):
        body = Let(var, value, body)
    return body


def place(number: Expr, extents: Mapping[Axis, int]) -> tuple[Names, dict[Axis, Expr]]:
    """The place of a point by its number: variables to name, and the index along each axis."""
    names: Names = []
    out: dict[Axis, Expr] = {}
    total = math.prod(extents.values())
    strides = dict(zip(extents, known_shape(row_major(list(extents.values()))), strict=True))
    for axis in reversed(list(extents)):
        extent, inner = extents[axis], strides[axis]
        if extent == 1:
            out[axis] = ZERO
            continue
        value = binary("//", number, const(inner)) if inner > 1 else number
        if inner * extent < total:
            value = binary("%", value, const(extent))
        if value is number:
            out[axis] = number
        else:
            var = loop_var(axis.name, extent)
            names.append((var, value))
            out[axis] = var
    return names, {a: out[a] for a in extents}


@frozen(eq=False)
class Flat:
    """Points shared out among the threads of a grid, neighbours to neighbours.

    Attributes:
        block, thread: loop variables.
        turn: a thread's points lie a block's width apart; their loop.
        number: stands for the point.
        total: number of points.
        names: what the place is made of.
        at: the point's index along each axis.
    """

    block: Axis
    thread: Axis
    turn: Axis
    number: Axis
    total: int
    names: Names
    at: dict[Axis, Expr]

    @staticmethod
    def of(extents: Mapping[Axis, int], threads: int, turns: int = 1) -> Flat:
        """Points of axes with these extents, ``turns`` of them a thread."""
        total = math.prod(extents.values())
        blocks = -(-total // (threads * turns))
        block, thread = loop_var("block", blocks), loop_var("thread", threads)
        turn = loop_var("turn", turns)
        number = loop_var("p", max(blocks * turns * threads, 2))
        names, at = place(number, extents)
        return Flat(block, thread, turn, number, total, names, at)

    @property
    def whole(self) -> bool:
        """Whether every thread has a point at every turn."""
        return self.block.points * self.turn.points * self.thread.points == self.total

    def inside(self, body: Stmt) -> Stmt:
        """``body`` for a thread's point at a turn, where there is one."""
        width = self.thread.points
        value = weighted_sum([
            (var_or_zero(self.block), width * self.turn.points),
            (var_or_zero(self.turn), width),
            (var_or_zero(self.thread), 1),
        ])  # fmt: skip
        body = named(self.names, body)
        if not self.whole:
            body = If(compare("<", self.number, const(self.total)), body)
        return Let(self.number, value, body)

    def region(self, name: str, body: Stmt) -> Region:
        """The region of a body that begins with `inside`."""
        return Region(name, (self.block,), body, (self.thread,))


def guards(at: Mapping[Axis, Expr], covered: Mapping[Axis, int]) -> list[Expr]:
    """Predicates that a place lies within axes that tiles overhang.

    Args:
        at: the place.
        covered: points of each axis's tiles.
    """
    return [compare("<", at[a], const(a.points)) for a, n in covered.items() if n > a.points]


def guarded(conditions: Sequence[Expr], body: Stmt) -> Stmt:
    """``body`` where all of some conditions hold."""
    cond = conjunction(conditions)
    return body if cond is None else If(cond, body)


def clamped(at: Mapping[Axis, Expr], covered: Mapping[Axis, int]) -> dict[Axis, Expr]:
    """A place moved inside the axes that tiles overhang: it may be read, and is never stored."""
    return {
        a: binary("min", e, const(a.points - 1)) if covered[a] > a.points else e
        for a, e in at.items()
    }


def sizes(nest: BlockNest, axes: Sequence[Axis], level: int) -> dict[Axis, int]:
    """Extents of one level of some axes in the only row."""
    return {a: int(nest.tiles[a][level][0]) for a in axes}
