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
    words, size = _words(columns)
    if len(words) > 1:
        return None
    codes = words[0]
    if size > len(codes):
        _, one, which = np.unique(codes, return_index=True, return_inverse=True)
        return one, which
    held = _held(codes, size)
    some = held >= 0
    return held[some], (some.cumsum() - 1)[codes]


def _words(columns: NDArray[np.integer]) -> tuple[list[Ints], int]:
    """Rows of numbers as few numbers each, in their order, and how many the last of these has."""
    columns = np.ascontiguousarray(columns)
    low, high = columns.min(axis=1), columns.max(axis=1)
    words, size = [np.zeros(columns.shape[1], np.int64)], 1
    for c in (low < high).nonzero()[0].tolist():
        width = int(high[c]) - int(low[c]) + 1
        size *= width
        if size > _LARGEST_CODE:
            words.append(np.zeros_like(words[0]))
            size = width
        words[-1] *= width
        words[-1] += columns[c]
        words[-1] -= low[c]
    return words, size


def _held(codes: Ints, size: int) -> Ints:
    """Of each number up to ``size`` the last place that has it, or -1."""
    held = np.full(size, -1)
    held[codes] = np.arange(len(codes))
    return held


def ascending(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """The rows of a matrix that differ, in lexicographic order."""
    if not len(rows):
        return rows
    words, size = _words(rows.T)
    if len(words) == 1 and size <= len(rows):
        held = _held(words[0], size)
        return rows[held[held >= 0]]
    order = words[0].argsort(kind="stable") if len(words) == 1 else np.lexsort(words[::-1])
    new = np.zeros(len(rows), bool)
    new[0] = True
    for word in words:
        ordered = word[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return rows[order[new]]


def values(numbers: NDArray[np.integer | np.floating]) -> tuple[Ints, Ints]:
    """Whole numbers from 0 on as those that differ, ascending, and which of them each one is."""
    whole = numbers.astype(np.intp)
    size = int(whole.max(initial=0)) + 1
    if size > _FEW_ENOUGH:
        return np.unique(whole, return_inverse=True)
    held = np.zeros(size, bool)
    held[whole] = True
    return held.nonzero()[0], (held.cumsum() - 1)[whole]
