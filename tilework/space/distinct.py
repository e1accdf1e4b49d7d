"""Which of many rows of numbers differ, and which of these each row is.

Numbers that are close together are counted instead of sorted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_LARGEST_CODE = 1 << 62
_FEW_ENOUGH = 1 << 14


def distinct(columns: NDArray[np.integer]) -> tuple[Ints, Ints] | None:
    """Of rows of numbers, given by their columns (C x P): one of each that differs, and which.

    ``columns[:, one][:, which]`` is ``columns``, and those that differ ascend. None where a row
    does not fit into one number.
    """
    count = columns.shape[1]
    low, high = columns.min(axis=1), columns.max(axis=1)
    codes, size = np.zeros(count, np.int64), 1
    for c in np.flatnonzero(low < high):
        width = int(high[c]) - int(low[c]) + 1
        codes *= width
        codes += columns[c] - low[c]
        size *= width
    if size > _LARGEST_CODE:
        return None
    if size > count:
        _, one, which = np.unique(codes, return_index=True, return_inverse=True)
        return one, which
    held = np.full(size, -1)
    held[codes] = np.arange(count)
    some = held >= 0
    return held[some], (some.cumsum() - 1)[codes]


def ascending(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """The rows of a matrix that differ, in lexicographic order."""
    classes = distinct(rows.T) if len(rows) else None
    if classes is not None:
        return rows[classes[0]]
    ordered = rows[np.lexsort(rows.T[::-1])]
    new = np.ones(len(rows), bool)
    np.any(ordered[1:] != ordered[:-1], axis=1, out=new[1:])
    return ordered[new]


def values(numbers: NDArray[np.integer | np.floating]) -> tuple[Ints, Ints]:
    """Whole numbers from 0 on as those that differ, ascending, and which of them each one is."""
    whole = numbers.astype(np.intp)
    size = int(whole.max(initial=0)) + 1
    if size > _FEW_ENOUGH:
        return np.unique(whole, return_inverse=True)
    held = np.zeros(size, bool)
    held[whole] = True
    return held.nonzero()[0], (held.cumsum() - 1)[whole]
