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
    codes, size = _codes(columns)
    if size > _LARGEST_CODE:
        return None
    if size > len(codes):
        _, one, which = np.unique(codes, return_index=True, return_inverse=True)
        return one, which
    held = _held(codes, size)
    some = held >= 0
    return held[some], (some.cumsum() - 1)[codes]


def _codes(columns: NDArray[np.integer]) -> tuple[Ints, int]:
    """Rows of numbers as one number each, in their order, and how many these may be.

    Where they are more than `_LARGEST_CODE` they mean nothing.
    """
    low, high = columns.min(axis=1), columns.max(axis=1)
    codes, size = np.zeros(columns.shape[1], np.int64), 1
    for c in np.flatnonzero(low < high):
        width = int(high[c]) - int(low[c]) + 1
        codes *= width
        codes += columns[c] - low[c]
        size *= width
    return codes, size


def _held(codes: Ints, size: int) -> Ints:
    """Of each number up to ``size`` the last place that has it, or -1."""
    held = np.full(size, -1)
    held[codes] = np.arange(len(codes))
    return held


def ascending(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """The rows of a matrix that differ, in lexicographic order."""
    if not len(rows):
        return rows
    codes, size = _codes(rows.T)
    if size <= len(rows):
        held = _held(codes, size)
        return rows[held[held >= 0]]
    order = codes.argsort(kind="stable") if size <= _LARGEST_CODE else np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), bool)
    if size <= _LARGEST_CODE:
        codes = codes[order]
        np.not_equal(codes[1:], codes[:-1], out=new[1:])
    else:
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
