"""Block-sparse matrices in BSR form: which blocks are kept, and the three arrays that hold them.

The arrays are those of `tilework.ops.sparse`, for blocks of R rows and C columns: ``data``
[blocks, C, R] (rows innermost), ``indices`` [blocks] and ``indptr`` [block rows + 1].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Block = tuple[int, int]


class Bsr(NamedTuple):
    """A block-sparse matrix; see the module."""

    data: Array
    indices: NDArray[np.int32]
    indptr: NDArray[np.int32]


def block_grid(shape: tuple[int, int], block: Block) -> tuple[int, int]:
    """Block rows and block columns of a matrix; the last block row may reach over its end.

    Raises:
        ValueError: the blocks do not divide the columns.
    """
    (units, columns), (rows, width) = shape, block
    if rows < 1 or width < 1:
        raise ValueError(f"a block of {rows}x{width} has no elements")
    if columns % width:
        raise ValueError(f"blocks of {width} columns do not divide {columns} columns")
    return -(-units // rows), columns // width


def blocks_of(weight: Array, block: Block) -> Array:
    """The blocks of a matrix, [block rows, block columns, R, C]; zeros behind the last row."""
    high, wide = block_grid((weight.shape[0], weight.shape[1]), block)
    rows, width = block
    padded = np.pad(weight, ((0, high * rows - weight.shape[0]), (0, 0)))
    return padded.reshape(high, rows, wide, width).swapaxes(1, 2)


def to_bsr(weight: Array, block: Block) -> Bsr:
    """The blocks of ``weight`` [units, columns] that are not all zero.

    A matrix of zeros keeps one of its blocks, because no array is empty.
    """
    blocks = blocks_of(weight, block)
    kept = (blocks != 0).any(axis=(2, 3))
    if not kept.any():
        kept[0, 0] = True
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int32)
    data = np.ascontiguousarray(blocks[kept].swapaxes(1, 2))
    return Bsr(data, np.nonzero(kept)[1].astype(np.int32), indptr)


def from_bsr(bsr: Bsr, units: int, columns: int) -> Array:
    """The dense matrix [units, columns]."""
    _, width, rows = bsr.data.shape
    high = len(bsr.indptr) - 1
    out = np.zeros((high, columns // width, rows, width), bsr.data.dtype)
    row = np.repeat(np.arange(high), np.diff(bsr.indptr))
    out[row, bsr.indices] = bsr.data.swapaxes(1, 2)
    return out.swapaxes(1, 2).reshape(high * rows, columns)[:units]


def prune(weight: Array, sparsity: float, block: Block, rng: np.random.Generator | None) -> Array:
    """``weight`` with the share ``sparsity`` of its blocks set to zero.

    Those of the least Euclidean norm; or, with ``rng``, drawn at random.
    """
    blocks = blocks_of(weight, block)
    high, wide, rows, width = blocks.shape
    count = round(sparsity * high * wide)
    if rng is not None:
        order = rng.permutation(high * wide)
    else:
        norms = np.square(blocks, dtype=np.float64).sum(axis=(2, 3))
        order = np.argsort(norms.reshape(-1), kind="stable")
    out = blocks.reshape(high * wide, rows, width).copy()
    out[order[:count]] = 0
    grid = out.reshape(high, wide, rows, width).swapaxes(1, 2)
    return grid.reshape(high * rows, wide * width)[: weight.shape[0]]


def zero_share(weight: Array, block: Block) -> float:
    """The share of the blocks that hold zeros alone."""
    return float((blocks_of(weight, block) == 0).all(axis=(2, 3)).mean())


def random_structure(
    high: int, wide: int, stored: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """``indices`` and ``indptr`` of ``stored`` blocks at random places of a grid of blocks."""
    places = np.sort(rng.permutation(high * wide)[:stored])
    counts = np.bincount(places // wide, minlength=high)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return (places % wide).astype(np.int32), indptr
