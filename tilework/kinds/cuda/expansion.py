"""How many copies of a loop body a kernel's text has, by a row's ``unroll``.

The register tile is always expanded. Of the loops over terms that lie directly around it,
innermost first, each is expanded as far as the row's number of terms leaves room: wholly, or by
the largest divisor that fits, and those outside of it not at all. What divides leaves no rest,
which the compiler would write out once more behind the loop.
"""

from __future__ import annotations

import math

import numpy as np

from tilework.kinds.cuda.tiling import form_of
from tilework.space.nest import BlockNest, Ints
from tilework.te.expr import Axis


def expansion(nest: BlockNest) -> dict[Axis, Ints]:
    """Copies of the body of each reduce axis's innermost loop, for P rows."""
    room = np.maximum(nest.unroll, 1)
    out: dict[Axis, Ints] = {}
    for axis in reversed(nest.block.reduce):
        extent = nest.tiles[axis][-1]
        if axis in nest.block.const_axes:
            out[axis] = extent
            continue
        whole = extent <= room
        out[axis] = np.where(whole, extent, _largest_divisor(extent, room))
        room = np.where(whole, room // np.maximum(extent, 1), 1)
    return {a: out[a] for a in nest.block.reduce}


def _largest_divisor(extent: Ints, room: Ints) -> Ints:
    """The largest divisor of each extent that is at most ``room``, which is at least 1."""
    out = np.ones_like(extent)
    for divisor in range(2, int(room.max(initial=1)) + 1):
        out = np.where((extent % divisor == 0) & (divisor <= room), divisor, out)
    return out


def expanded_terms(nest: BlockNest) -> Ints:
    """Terms of the reduction that stand one after another in the text, for P rows."""
    if form_of(nest.block) == "across":
        terms = math.prod(map(nest.extent, nest.block.reduce))
        return np.minimum(np.maximum(nest.unroll, 1), -(-terms // nest.values["lanes"]))
    out = np.ones(nest.count, np.int64)
    for copies in expansion(nest).values():
        out = out * copies
    return out
