"""Cooperative fetches: the threads of a block stage the box of an operand that a tile touches.

Threads are neighbours along the last dimension of memory, in vectors. As far as dimensions divide
the number of threads, a thread keeps its place in them, and the loop counts the others::

    c = tid % 8 * 4, x = tid / 8 % 4, y0 = tid / 32                      a place, known once
    for q in 0..3 (expanded):  staged[y0 + q*4, x, c..c+4] = data[...]    one vector a turn
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilework.frozen import frozen
from tilework.kinds.cuda.lower.flat import Names, named, place
from tilework.lower.common import (
    ZERO,
    const,
    loop_var,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.ir import For, If, Stmt
from tilework.te.expr import Axis, Expr, binary, compare

MOST_TURNS = 16
"""Vectors of one thread whose fetches are expanded."""


@frozen(eq=False)
class Turn:
    """What a thread fetches at one turn.

    Attributes:
        local: the element's place in the box, along each dimension; that of its vector's lane.
        number: counts the thread's vectors: an index for each of `Shares.turns`.
        lane: the variable of the vector loop.
    """

    local: tuple[Expr, ...]
    number: tuple[Expr, ...]
    lane: Axis


class Shares:
    """A box shared out among the threads of a block.

    Args:
        extents: of the box.
        width: elements of a vector along the last dimension, whose extent it divides.
        threads: of the block.
        thread: stands for the thread's number.

    Attributes:
        turns: extents of the loops over a thread's vectors.
    """

    def __init__(self, extents: Sequence[int], width: int, threads: int, thread: Axis) -> None:
        self.width = width
        dims = [*extents[:-1], extents[-1] // width]
        self._place: list[Expr] = [ZERO] * len(dims)
        self._names: Names = []  # known once
        self._late: Names = []  # known at each turn: its number, and places
        self._before: Expr | None = None  # which threads take part
        self._inside: Expr | None = None  # and at which turns
        self._loops: tuple[Axis, ...] = ()
        inner, d = 1, len(dims) - 1
        while d >= 0 and threads % (inner * dims[d]) == 0:
            self._place[d] = _digit(f"d{d}", thread, inner, dims[d], threads, self._names)
            inner *= dims[d]
            d -= 1
        rows = threads // inner
        if d < 0:
            self._before = compare("<", thread, const(inner)) if rows > 1 else None
        else:
            row = _digit("row", thread, inner, rows, threads, self._names)
            self._count(dims[: d + 1], row, rows)

    def _count(self, dims: list[int], row: Expr, rows: int) -> None:
        """Loops over the dimensions that the threads do not cover, ``rows`` places at a time."""
        if dims[-1] % rows == 0:
            turns = (*dims[:-1], dims[-1] // rows)
            self._loops = tuple(loop_var(f"q{i}", n) for i, n in enumerate(turns))
            for i, var in enumerate(self._loops):
                self._place[i] = var_or_zero(var)
            last = len(dims) - 1
            self._place[last] = weighted_sum([(self._place[last], rows), (row, 1)])
            return
        total = math.prod(dims)
        turn = loop_var("q", -(-total // rows))
        number = loop_var("f", max(turn.points * rows, 2))
        axes = {loop_var(f"d{i}", n): n for i, n in enumerate(dims)}
        names, digits = place(number, axes)
        for i, axis in enumerate(axes):
            self._place[i] = digits[axis]
        self._loops = (turn,)
        self._late = [(number, weighted_sum([(var_or_zero(turn), rows), (row, 1)])), *names]
        self._inside = compare("<", number, const(total)) if total % rows else None

    @property
    def turns(self) -> tuple[int, ...]:
        """Extents of the loops over a thread's vectors."""
        return tuple(v.points for v in self._loops)

    def loop(
        self, body: Callable[[Turn], Stmt], *, vector: bool = True, expanded: bool = False
    ) -> Stmt:
        """The turns of a thread, in expanded loops where they are few.

        Args:
            body: one turn.
            vector: whether it is repeated for the lanes of a vector; else the lane is 0.
            expanded: whether all loops are expanded, because they index registers.
        """
        lane = loop_var("lane", self.width if vector else 1)
        *outer, last = self._place
        at = weighted_sum([(last, self.width), (var_or_zero(lane), 1)])
        number = tuple(var_or_zero(v) for v in self._loops)
        stmt = body(Turn((*outer, at), number, lane))
        if lane.points > 1:
            stmt = For(lane, lane.points, "vector", stmt)
        stmt = named(self._late[1:], stmt)
        if self._inside is not None:
            stmt = If(self._inside, stmt)
        stmt = named(self._late[:1], stmt)
        room = MOST_TURNS
        for var in reversed(self._loops):
            if var.points > 1:
                few = expanded or var.points <= room
                stmt = For(var, var.points, "unroll" if few else "serial", stmt)
                room = room // var.points if few else 0
        if self._before is not None:
            stmt = If(self._before, stmt)
        return named(self._names, stmt)


def _digit(name: str, thread: Axis, inner: int, extent: int, threads: int, names: Names) -> Expr:
    """The thread's place in a dimension whose neighbours are ``inner`` threads apart."""
    if extent == 1:
        return ZERO
    value: Expr = thread
    if inner > 1:
        value = binary("//", value, const(inner))
    if inner * extent < threads:
        value = binary("%", value, const(extent))
    if value is thread:
        return thread
    var = loop_var(name, extent)
    names.append((var, value))
    return var
