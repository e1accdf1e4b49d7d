"""Expansion: how much of the innermost reduce loops is written out instead of looped over.

Before::

    for k in 64:  acc[0:4] += ...

After, where a body may hold 8 copies of the tile::

    for k.0 in 8:
      for k.u in 8 (expanded):  acc[0:4] += ...             k = 8 * k.0 + k.u

The row's unroll limit counts vector operations; divided by the vectors of the tile it is the
number of copies. Innermost axes come first; an axis lets the next one have a share only if it is
expanded wholly. Everything here takes P rows at once: the analytic model asks for thousands, the
lowering for one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.index.extents import Extent
from tilework.space.distinct import values
from tilework.space.tables import divisors
from tilework.te.expr import Axis, Expr

Ints = NDArray[np.int64]

_OPEN, _MOST_OPEN = 1 << 30, 16
"""Where a run decides how many steps a loop has: what they are taken for, and how many may stand
in one body."""
EXPANDED_LANES = 16
"""Vector width that unroll limits are counted in, on every target."""


def tile_vectors(sizes: Sequence[Any]) -> Any:
    """Vectors of a register tile, of the width that unroll limits are counted in.

    Args:
        sizes: points of the tile on each spatial axis, the vectorised one last: numbers, or
            arrays with one number a row.
    """
    work = 1
    for size in sizes[:-1]:
        work = work * size
    for size in sizes[-1:]:
        work = work * -(-size // EXPANDED_LANES)
    return work


def expansion(
    extents: Mapping[Axis, Ints],
    room: Ints,
    *,
    always: Collection[Axis] = (),
    whole: Collection[Axis] = (),
    serial: Collection[Axis] = (),
) -> dict[Axis, Ints]:
    """How many steps of each loop stand in one expanded body: divisors of the extents.

    Args:
        extents: steps of the loops, outermost first; length P each.
        room: copies of the register tile that a body may hold, at least 1; length P.
        always: axes that are expanded whatever the room, and take none of it: they index
            constant matrices.
        whole: axes that are expanded wholly or not at all.
        serial: axes that are not expanded.
    """
    out: dict[Axis, Ints] = {}
    for axis in reversed(list(extents)):
        extent = extents[axis]
        if axis in always:
            out[axis] = extent
            continue
        if axis in serial:
            factor = np.ones(len(extent), np.int64)
        else:
            factor = _largest_divisor(extent, room)
            if axis in whole:
                factor = np.where(factor == extent, factor, 1)
        out[axis] = factor
        room = np.where(factor == extent, room // factor, 1)
    return out


def expansion_of_one(
    extents: Mapping[Axis, Extent | Expr],
    room: int,
    *,
    always: Collection[Axis] = (),
    whole: Collection[Axis] = (),
    serial: Collection[Axis] = (),
) -> dict[Axis, int]:
    """`expansion` of one row, in numbers.

    Loops of as many steps as a run decides are expanded by a power of two, and another loop takes
    what is left; the axes around them are not expanded.
    """
    rows = {a: np.array([n if isinstance(n, int) else _OPEN]) for a, n in extents.items()}
    factors = expansion(rows, np.array([room]), always=always, whole=whole, serial=serial)
    return {
        a: int(n[0]) if isinstance(extents[a], int) else min(int(n[0]), _MOST_OPEN)
        for a, n in factors.items()
    }


def _largest_divisor(extent: Ints, most: Ints) -> Ints:
    """The largest divisor of each extent that is at most ``most``."""
    if len(extent) == 1:
        table = _divisors(max(int(extent[0]), 1))  # a loop may have no steps at a point
        one: Ints = table[table.searchsorted(most, side="right") - 1]
        return one
    extents, which = values(extent)
    table, starts = _up_to(tuple(extents.tolist()), int(most.max()))
    return np.asarray(table[starts[which] + np.minimum(extent, most)])


@lru_cache(maxsize=4096)
def _up_to(extents: tuple[int, ...], limit: int) -> tuple[Ints, Ints]:
    """For each extent by number up to ``limit``, its largest divisor that is at most so large.

    With where the numbers of each extent begin.
    """
    limits = np.minimum(extents, limit)
    tables = [_divisors(n) for n in extents]
    each = (
        np.append(1, table[table.searchsorted(np.arange(1, n + 1), side="right") - 1])
        for table, n in zip(tables, limits, strict=True)
    )
    return np.concatenate(list(each)), np.cumsum(limits + 1) - (limits + 1)


@lru_cache(maxsize=4096)
def _divisors(n: int) -> Ints:
    return np.array(divisors(n), np.int64)
