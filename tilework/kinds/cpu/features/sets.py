"""Which lines of a window compete for the same sets of L1.

A window of a map with a power of two of channels lies at long even strides: its lines fall into
few sets, and what does not find a place there comes from L2 again with every tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilework.index.extents import typical
from tilework.index.strides import row_major
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.features.access import Access
from tilework.space.distinct import distinct
from tilework.space.nest import BlockNest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SETS = 64


def crowded(access: Access, nest: BlockNest, ways: int) -> Floats:
    """Share of the lines of a register tile's window that lie in sets of too many of them.

    Args:
        access: reads the window, a vector for each of its points.
        nest: the nest that reads it.
        ways: lines that a set holds.
    """
    reach = np.ones((len(access.dims), nest.count))
    for points, dim in zip(reach, access.dims, strict=True):
        for axis, c in (dim or {}).items():
            if not axis.unit:  # a short sum may have no whole vector
                points += c * (np.maximum(nest.tiles[axis][-1], 1) - 1)
    strides = [access.element_bytes * typical(n) for n in row_major(access.shape)]
    columns = reach.astype(np.int64)
    classes = distinct(columns)
    one, where = (np.arange(nest.count),) * 2 if classes is None else classes
    windows = columns[:, one]
    apart = _apart(strides, windows)
    out = np.empty(len(one))
    out[apart] = _shares(strides, windows[:, apart], ways)
    some = np.flatnonzero(~apart)
    out[some] = [_share(tuple(strides), tuple(w), ways) for w in windows[:, some].T.tolist()]
    return out[where]


def _apart(strides: Sequence[int], windows: Ints) -> NDArray[np.bool_]:
    """Which windows (dimensions x R points) lie in whole lines that no two of their rows share."""
    good, covered = np.ones((2, windows.shape[1]), np.int64)
    for stride, points in zip(reversed(strides), windows[::-1], strict=True):
        lines = -(-points // max(LINE_BYTES // stride, 1))
        if stride < LINE_BYTES:
            fits = (covered == 1) & (LINE_BYTES % stride == 0)
        else:
            fits = (stride >= covered * LINE_BYTES) & (stride % LINE_BYTES == 0)
        good &= fits | (points == 1)
        covered += max(stride // LINE_BYTES, 1) * (lines - 1)
    return good.astype(bool)


def _shares(strides: Sequence[int], windows: Ints, ways: int) -> Floats:
    """`_share` of windows whose lines lie apart.

    How many lines are in each set is then a convolution, around the circle of sets, of how many
    each dimension alone would put there.
    """
    spectrum: NDArray[np.complex128] | float = 1.0
    for stride, points in zip(strides, windows, strict=True):
        lines = -(-points // max(LINE_BYTES // stride, 1))
        known = _spectra(max(stride // LINE_BYTES, 1) % _SETS)
        rounds, rest = np.divmod(lines, len(known) - 1)
        spectrum = spectrum * (rounds[:, None] * known[-1] + known[rest])
    held = np.rint(np.fft.irfft(spectrum, _SETS))
    return np.asarray(np.add.reduce(held, axis=1, where=held > ways) / np.add.reduce(held, axis=1))


@lru_cache(maxsize=_SETS)
def _spectra(step: int) -> NDArray[np.complex128]:
    """Of 0, 1, 2, ... lines so far apart, up to where they come around, how many are in each set.

    As spectra, which add up as numbers of lines do.
    """
    sets = np.arange(_SETS // math.gcd(step, _SETS)) * step % _SETS
    each = np.cumsum(sets[:, None] == np.arange(_SETS), axis=0)
    return np.fft.rfft(np.concatenate([np.zeros((1, _SETS)), each]))


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
