"""Where the interpreter of loop programs reads and writes: elements of buffers, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilework.lower import ir
from tilework.te.expr import Axis


class ProgramError(Exception):
    """The program breaks a rule of the loop language: an access out of bounds, or a race."""


Sum = tuple[int, Sequence[tuple[Axis, int]], int]
"""An index that is linear in loop variables: a number, variables with factors; and the extent."""


def outside(buffer: ir.Buffer, shape: Sequence[int], at: Sequence[Any]) -> ProgramError:
    """The error of an access out of bounds."""
    return ProgramError(f"{buffer.name}{list(shape)} is accessed at {[str(i) for i in at]}")


def linear_position(
    buffer: ir.Buffer,
    sums: Sequence[Sum],
    values: Mapping[Axis, Any],
    lane_var: Callable[[], Axis | None],
) -> Callable[[], tuple[Any, ...]]:
    """A position as a function, of indices that are linear, as most are.

    Half of a program's work is on indices. Summing their terms takes a fraction of the time that a
    closure for each operation would, and a slice along the lanes a fraction of that of their
    numbers.

    Args:
        values: of loop variables by now; numbers but for a vector loop's, which has all of its own
            at once, from 0 on, or one of them where lanes are looked at one by one.
        lane_var: the variable of the vector loop that is run by now.
    """

    def position() -> tuple[Any, ...]:
        lane = lane_var()
        lanes: Any = None if lane is None else values[lane]
        vector = isinstance(lanes, np.ndarray)
        reach = len(lanes) - 1 if vector else 0
        at: list[Any] = []
        moves: list[tuple[int, int]] = []
        fits = True
        for first, terms, extent in sums:
            step = 0
            for var, factor in terms:
                if vector and var is lane:
                    step = factor
                else:
                    first += factor * values[var]
            last = first + step * reach
            fits = fits and 0 <= first < extent and 0 <= last < extent
            if step:
                moves.append((len(at), step))
            at.append(first)
        if len(moves) == 1 and fits:
            ((d, step),) = moves
            end = at[d] + step * (reach + 1)
            at[d] = slice(at[d], None if end < 0 else end, step)
            return tuple(at)
        for d, step in moves:
            at[d] = at[d] + step * lanes
        if not fits:
            raise outside(buffer, [extent for _, _, extent in sums], at)
        return tuple(at)

    return position


def check_owner(buffer: ir.Buffer, owner: Any, iteration: int, what: str) -> None:
    """Raise the error of a race where another iteration has written an element, or one of some.

    Args:
        owner: the iterations that wrote them last; -1 where none has.
        what: what the iteration does with them.
    """
    if isinstance(owner, np.ndarray):
        mine = not np.any((owner != -1) & (owner != iteration))
    else:
        mine = owner in (-1, iteration)
    if not mine:
        raise ProgramError(
            f"an element of {buffer.name} {what} in parallel iteration {iteration} "
            f"and written in iteration {np.max(owner)}"
        )
