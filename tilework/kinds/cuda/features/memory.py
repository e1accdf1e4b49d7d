"""Accesses to memory that threads make straight from their registers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.index.extents import known
from tilework.index.form import position_if
from tilework.kinds.cuda.features.constants import Constants
from tilework.kinds.cuda.features.counts import Counts
from tilework.kinds.cuda.features.facts import Access
from tilework.kinds.cuda.features.lanes import SECTOR_BYTES, Floats, Lanes, distinct, sectors
from tilework.space.nest import Ints
from tilework.te.expr import Axis, walk

LINE_BYTES = 128
Extents = Mapping[Axis, NDArray[Any]]
"""Of loops, for P rows."""


def elements(access: Access, extents: Extents, count: int) -> Floats:
    """Distinct elements of an access over loops of these extents, where axes move on by one.

    Windows overlap: an element that several points need counts once.
    """
    total = np.ones(count)
    for size, form in zip(access.shape, access.forms, strict=True):
        if form is None:
            continue
        points, reach = np.ones(count), np.ones(count)
        for axis, c in form.coefficients.items():
            extent = extents.get(axis)
            if extent is not None:
                points = points * extent
                reach = reach + abs(known(c)) * (extent - 1)
        total = total * np.minimum(np.minimum(points, reach), max(size, 1))
    unknown = {a for i, f in zip(access.indices, access.forms, strict=True) if f is None
               for a in walk(i) if isinstance(a, Axis)}  # fmt: skip
    for axis in unknown:
        if axis in extents:
            total = total * extents[axis]
    return np.asarray(total)


def vector_width(access: Access, axis: Axis | None, extents: Extents, count: int) -> Ints:
    """Neighbours that one access of a thread takes along an axis: 1, 2 or 4.

    They are where the axis moves on by one element and all else by whole vectors.
    """
    width = np.ones(count, np.int64)
    if axis is None or axis not in access.axes:
        return width
    place = position_if(access.forms, access.strides)
    if place is None or place.step(axis) != 1:
        return width
    others = [c for a, c in place.coefficients.items() if a is not axis]
    for lanes in (2, 4):
        if place.const % lanes == 0 and all(c % lanes == 0 for c in others):
            width = np.where(extents[axis] % lanes == 0, lanes, width)
    return np.where(axis.typical % width == 0, width, 1)


def add_loads(
    counts: Counts,
    access: Access,
    lanes: Lanes,
    loads: Floats,
    unique: Floats,
    constants: Constants,
    rows: Any = None,
) -> Floats:
    """Loads of a thread through the first-level cache; returns sectors of a warp's access.

    Args:
        counts: where they are added.
        access: what is read.
        lanes: addresses of a warp's threads.
        loads: of a thread.
        unique: bytes that a block needs at least.
        constants: of the model.
        rows: where they are made; everywhere by default.
    """
    touched: Floats = np.minimum(sectors(lanes, access.itemsize) * 1.0, 32.0)
    lines = distinct(lanes * access.itemsize // LINE_BYTES)
    requests = loads * counts.warps
    moved = np.maximum(touched * SECTOR_BYTES, 32.0)
    cycles = requests * (constants.l1_request * lines + moved / constants.l1_bytes)
    read = requests * touched * SECTOR_BYTES
    least = np.minimum(unique, read)
    from_l2 = least + constants.l1_missed * (read - least)
    mask = 1.0 if rows is None else rows
    counts.ldg += mask * loads
    counts.instructions += mask * loads * constants.guard_instructions * access.guards
    counts.l1_cycles += mask * cycles
    counts.l2_bytes += mask * from_l2
    return touched


def add_stores(counts: Counts, access: Access, lanes: Lanes, stores: Floats, width: Ints) -> None:
    """Stores of a thread, which go to the second-level cache."""
    touched = sectors(lanes, access.itemsize)
    requests = stores * counts.warps
    counts.stg += stores
    counts.l1_cycles += requests * np.maximum(touched / 4.0, 1.0)
    counts.l2_bytes += requests * touched * SECTOR_BYTES
    counts.put("store_sectors", touched)
    counts.put("store_width", width.astype(np.float64))


def unique_bytes(access: Access, extents: Extents, count: int) -> Floats:
    """Bytes of the different elements of an access over such loops, a sector at least."""
    return np.maximum(elements(access, extents, count) * access.itemsize, SECTOR_BYTES)
