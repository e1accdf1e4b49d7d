"""The 32 threads of a warp, one by one: what their accesses cost together.

Addresses are P x 32 integers, in elements. Shared memory has 32 banks of 4 bytes; a wavefront
delivers from each bank one word. Accesses of 8 and 16 bytes a thread are made for 16 and 8 threads
at a time. Memory is fetched in sectors of 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.kinds.cuda.architectures import WARP
from tilework.space.nest import Ints

Lanes = NDArray[np.int64]
"""P x 32."""
Floats = NDArray[np.floating[Any]]
BANKS, BANK_BYTES, SECTOR_BYTES = 32, 4, 32


def digits(extents: Sequence[Ints], inside: Ints | int = 1) -> list[Lanes]:
    """Coordinates of a warp's threads in flattened loops, the last one fastest.

    Args:
        extents: of the loops, for P rows. Where they have fewer points than a warp has threads,
            threads begin again.
        inside: points of further loops inside of them.
    """
    step = np.ones(len(extents[0]) if extents else 1, np.int64) * inside
    out: list[Lanes] = []
    for extent in reversed(extents):
        bound = np.clip(extent, 1, WARP)
        out.append(_DIGITS[np.minimum(step, WARP), bound])
        step = np.minimum(step * bound, WARP)
    return out[::-1]


def _digit_table() -> Lanes:
    """(lane // step) % extent, for steps and extents of up to a warp; a step of 32 leaves 0."""
    lane = np.arange(WARP)
    steps, extents = np.arange(WARP + 1), np.arange(WARP + 1)
    within = lane // np.maximum(steps, 1)[:, None, None]
    return np.asarray(within % np.maximum(extents, 1)[None, :, None], np.int64)


_DIGITS = _digit_table()


def distinct(values: Lanes) -> Floats:
    """How many different values each row has."""
    ordered = np.sort(values.astype(np.int32), axis=1)
    return np.asarray(1.0 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1))


def sectors(addresses: Lanes, itemsize: int) -> Floats:
    """Sectors that one access of a warp touches; its vectors are aligned."""
    return distinct(addresses * itemsize >> SECTOR_BYTES.bit_length() - 1)


def wavefronts(addresses: Lanes, width: Ints, itemsize: int) -> Floats:
    """Wavefronts of one access to shared memory, ``width`` elements a thread."""
    out = np.ones(len(addresses))
    for elements in (1, 2, 4):
        rows = width == elements
        if rows.any():
            out[rows] = _wavefronts(addresses[rows], elements * itemsize, itemsize)
    return out


def _wavefronts(addresses: Lanes, nbytes: int, itemsize: int) -> Floats:
    unit = max(nbytes, BANK_BYTES)
    together = WARP * BANK_BYTES // unit
    chunks = (addresses * itemsize >> unit.bit_length() - 1).astype(np.int32)
    total = np.zeros(len(addresses))
    for first in range(0, WARP, together):
        total += _most_in_a_bank(np.sort(chunks[:, first : first + together], axis=1), unit)
    return total


def _most_in_a_bank(ordered: Lanes, unit: int) -> Floats:
    """Most different chunks that lie in one bank (or pair or quadruple of banks)."""
    banks = BANKS * BANK_BYTES // unit
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    keys = (ordered & (banks - 1)) + (np.arange(len(ordered), dtype=np.int32) * banks)[:, None]
    counts = np.bincount(keys[new], minlength=len(ordered) * banks)
    return np.asarray(counts.reshape(-1, banks).max(axis=1), np.float64)
