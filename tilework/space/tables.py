"""Tables of tile choices: every legal way to cut one axis, listed once and indexed by arrays."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
_SHORTEST_PIECE, _LONGEST_PIECE = 6, 10
"""Of open reduce axes, as powers of two."""


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """Positive divisors of ``n`` in ascending order."""
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return tuple(small + [n // d for d in reversed(small) if d * d != n])


@lru_cache(maxsize=4096)
def chains(n: int, levels: int) -> tuple[tuple[int, ...], ...]:
    """All tuples of ``levels`` factors whose product divides ``n``."""
    if levels == 0:
        return ((),)
    return tuple((d, *rest) for d in divisors(n) for rest in chains(n // d, levels - 1))


@lru_cache(maxsize=1024)
def register_tiles(extent: int, limit: int = 32) -> tuple[int, ...]:
    """Innermost tile sizes worth trying for an axis that is not vectorised.

    Divisors, and sizes whose last, shorter tile leaves at least five sixths of the slots in use:
    prime and odd extents keep useful tiles.
    """
    keep = [t for t in range(1, min(extent, limit) + 1) if 6 * extent >= 5 * t * -(-extent // t)]
    return tuple(keep)


@lru_cache(maxsize=1024)
def vector_tiles(extent: int, lanes: int, limit: int) -> tuple[int, ...]:
    """Innermost tile sizes of the vectorised axis: whole registers, or the axis if it is short."""
    if extent <= lanes:
        return (extent,)
    sizes = [lanes * m for m in range(1, limit + 1) if lanes * (m - 1) < extent]
    if extent % lanes and extent <= lanes * limit:
        sizes.append(extent)
    keep = [t for t in sizes if 6 * extent >= 5 * t * -(-extent // t)]
    return tuple(keep or sizes[:1])


def whole_vectors(most: int, lanes: int, limit: int) -> tuple[int, ...]:
    """The same of an axis of up to ``most`` points, as many as a run says: whole registers."""
    return tuple(lanes * m for m in range(1, limit + 1) if lanes * (m - 1) < most)


@lru_cache(maxsize=1024)
def spatial_table(extent: int, levels: int, inner: tuple[int, ...]) -> IntArray:
    """All (outer ... inner) factor tuples of a spatial axis, one row each.

    ``levels`` inner levels are listed (the outermost loop is what remains); the innermost factor
    comes from ``inner``, the others divide the number of innermost tiles, so that no loop above
    the register tile is ever ragged.
    """
    rows = [(*upper, tile) for tile in inner for upper in chains(-(-extent // tile), levels - 1)]
    return np.array(rows, dtype=np.int32).reshape(len(rows), levels)


def column(choices: Iterable[int]) -> IntArray:
    """Choices of a single number, one row each."""
    return _column(tuple(choices))


@lru_cache(maxsize=1024)
def _column(choices: tuple[int, ...]) -> IntArray:
    return np.array(choices, np.int32).reshape(-1, 1)


@lru_cache(maxsize=1024)
def open_reduce_table(typical: int, most: int, levels: int) -> IntArray:
    """Factor tuples of a reduce axis of up to ``most`` points, as many as a run says.

    Nothing has to divide: the last piece is shorter. The whole axis in one piece, which is of as
    many points as there may be; and pieces of a power of two.
    """
    pieces = [2**n for n in range(_SHORTEST_PIECE, _LONGEST_PIECE + 1) if 2**n < typical]
    rows = [(most, *(1,) * (levels - 1)), *((p, *(1,) * (levels - 1)) for p in pieces)]
    return np.array(rows, dtype=np.int32).reshape(len(rows), levels)


@lru_cache(maxsize=1024)
def reduce_table(extent: int, levels: int) -> IntArray:
    """All factor tuples of a reduce axis (exact divisors), one row each."""
    rows = chains(extent, levels)
    return np.array(rows, dtype=np.int32).reshape(len(rows), levels)
