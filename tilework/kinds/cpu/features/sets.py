"""Which lines of a window compete for the same sets of L1.

A window of a map with a power of two of channels lies at long even strides: its lines fall into
few sets, and what does not find a place there comes from L2 again with every tile.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilework.index.strides import row_major
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.features.access import Access
from tilework.space.distinct import distinct
from tilework.space.nest import BlockNest

Floats = NDArray[np.float64]
_SETS = 64


def crowded(access: Access, nest: BlockNest, ways: int) -> Floats:
    """Share of the lines of a register tile's window that lie in sets of too many of them.

    Args:
        access: reads the window, a vector for each of its points.
        nest: the nest that reads it.
        ways: lines that a set holds.
    """
    reach = []
    for dim in access.dims:
        points = np.ones(nest.count)
        for axis, c in (dim or {}).items():
            points = points + c * (nest.tiles[axis][-1] - 1)
        reach.append(points)
    strides = [access.element_bytes * n for n in row_major(access.shape)]
    columns = np.array(reach).astype(np.int64)
    found = distinct(columns)
    one, where = (np.arange(nest.count),) * 2 if found is None else found
    rows = columns[:, one].T.tolist()
    return np.array([_share(tuple(strides), tuple(row), ways) for row in rows])[where]


@lru_cache(maxsize=8192)
def _share(strides: tuple[int, ...], reach: tuple[int, ...], ways: int) -> float:
    at = np.zeros(1, np.int64)
    for stride, points in zip(strides, reach, strict=True):
        step = max(LINE_BYTES // stride, 1)  # of neighbours in a line one is enough
        at = (at[:, None] + stride * np.arange(0, points, step)).reshape(-1)
    touched = np.zeros(int(at[-1]) // LINE_BYTES + 1, bool)
    touched[at // LINE_BYTES] = True
    lines = np.bincount(np.flatnonzero(touched) % _SETS, minlength=_SETS)
    return float(lines[lines > ways].sum() / lines.sum())
