"""Extents: how many points an axis or a dimension has.

An extent has two faces. The *exact* one decides code: declarations, loop programs, generators and
modules compute with it alone. The *typical* one is where a search looks: schedules, features,
models and measurements are of it, and nothing that decides code may read it (`tests/index` holds
that). Both are the same integer where an extent is known when a network is compiled; others are
expressions of what a run brings: `tilework.index.symbols`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NewType, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes
from tilework.errors import UnknownExtent
from tilework.index.symbols import Point, Symbol, Symbolic, Whole, certain, range_of

Extent = Whole
"""An exact extent."""
Typical = NewType("Typical", int)
"""What a search takes an extent for; see also `tilework.space.nest.Face`. A type of its own, so
that where one is asked for no exact extent can be given."""
Number = TypeVar("Number", int, NDArray[np.int64], Extent)
"""An integer, one for each of P rows, or an extent."""


def known(extent: Extent) -> int:
    """An extent as a number, where nothing else will do.

    Raises:
        UnknownExtent: a run decides it.
    """
    if isinstance(extent, Symbolic):
        names = ", ".join(s.name for s in extent.symbols)
        raise UnknownExtent(f"the extent {extent} has to be known here: bind {names} to a number")
    return extent


def known_shape(shape: Iterable[Extent]) -> tuple[int, ...]:
    """The dimensions of a tensor as numbers; see `known`."""
    return tuple(map(known, shape))


def typical(extent: Extent) -> Typical:
    """Where a search looks at an extent: the middle one of each symbol's typical values."""
    if isinstance(extent, Symbolic):
        return _typical(extent)
    return Typical(extent)


@lru_cache(1 << 16)
def _typical(extent: Symbolic) -> Typical:
    return Typical(extent.value({s: s.typical for s in extent.symbols}))


def most(extent: Extent) -> int:
    """The greatest number that an extent may be."""
    return range_of(extent)[1]


def smaller(extent: Extent, other: Extent) -> Extent:
    """The smaller one of two extents; a number that no smaller one exceeds, where that is open."""
    if isinstance(other, int):
        return min(other, most(extent))
    return extent if certain(lambda: extent <= other) else other


def typicals(shape: Iterable[Extent]) -> tuple[Typical, ...]:
    """Where a search looks at the dimensions of a tensor."""
    return tuple(map(typical, shape))


def shape_at(shape: Iterable[Extent], at: Point) -> tuple[int, ...]:
    """The dimensions of a tensor at a point."""
    return tuple([e.value(at) if isinstance(e, Symbolic) else e for e in shape])


def substituted(extent: Extent, by: Mapping[Symbol, Symbol]) -> Extent:
    """An extent of other symbols."""
    if not isinstance(extent, Symbolic):
        return extent
    out: Extent = 0
    for monomial, c in extent.terms.items():
        term: Extent = c
        for atom in monomial:
            if isinstance(atom, Symbol):
                term = term * Symbolic.of({(by.get(atom, atom),): 1})
            else:
                term = term * (substituted(atom.whole, by) // atom.by)
        out = out + term
    return out


def exchanged(extents: Sequence[Any], by: Mapping[Symbol, Symbol]) -> tuple[Any, ...]:
    """Extents, or other numbers, of other symbols."""
    return tuple([substituted(n, by) for n in extents] if by else extents)


def shape_text(shape: Iterable[Extent]) -> str:
    """Like ``1x56x56x64``; with symbols, whose names may have an x, ``12 x sequence x 32``."""
    extents = list(shape)
    return ("x" if all(isinstance(n, int) for n in extents) else " x ").join(map(str, extents))


def divisor(extent: Extent) -> int:
    """A number that divides an extent at every point; 0 for 0."""
    return math.gcd(*extent.terms.values()) if isinstance(extent, Symbolic) else abs(extent)


def size(extents: Iterable[Extent]) -> Extent:
    """Points of all dimensions together."""
    return math.prod(extents)


def nbytes(shape: Iterable[Extent], dtype: str) -> Extent:
    """Bytes of a dense value."""
    return size(shape) * dtype_bytes(dtype)


def round_up(n: Number, unit: int) -> Number:
    """The next multiple of ``unit``."""
    return -(-n // unit) * unit


def ceil_div(n: Number, d: Number) -> Number:
    """How many pieces of ``d`` it takes to cover ``n``: the division that rounds up."""
    return -(-n // d)
