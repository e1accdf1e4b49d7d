"""Extents: how many points an axis or a dimension has.

An extent has two faces. The *exact* one decides code: declarations, loop programs, generators and
modules compute with it alone. The *typical* one is where a search looks: schedules, features,
models and measurements are of it, and nothing that decides code may read it (`tests/index` holds
that). Both are the same integer as long as every extent is known when a network is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NewType, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import dtype_bytes

Extent = int
"""An exact extent."""
Typical = NewType("Typical", int)
"""What a search takes an extent for; see also `tilework.space.nest.Face`. A type of its own, so
that where one is asked for no exact extent can be given."""
Number = TypeVar("Number", int, NDArray[np.int64])
"""An integer, or one for each of P rows."""


def typical(extent: Extent) -> Typical:
    """Where a search looks at an extent."""
    return Typical(extent)


def typicals(shape: Iterable[Extent]) -> tuple[Typical, ...]:
    """Where a search looks at the dimensions of a tensor."""
    return tuple(map(typical, shape))


def size(extents: Iterable[Extent]) -> Extent:
    """Points of all dimensions together."""
    return math.prod(extents)


def nbytes(shape: Iterable[Extent], dtype: str) -> Extent:
    """Bytes of a dense value."""
    return size(shape) * dtype_bytes(dtype)


def round_up(n: Number, unit: int) -> Number:
    """The next multiple of ``unit``."""
    return -(-n // unit) * unit


def ceil_div(n: int | Number, d: Number) -> Number:
    """How many pieces of ``d`` it takes to cover ``n``: the division that rounds up."""
    return -(-n // d)
