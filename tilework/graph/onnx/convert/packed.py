"""Matrices of few bits: constants that are kept as words (`tilework.ops.packed`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.graph.onnx.context import OnnxContext
from tilework.graph.onnx.values import Value, constant, room
from tilework.ops.packed import WORD_BITS

_BITS = {"int2": 4, "uint2": 4, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8}
"""Types of weights, and the bits that one of them is kept in."""


def unpacked(
    c: OnnxContext,
    q: NDArray[np.uint8],
    scales: NDArray[Any],
    zeros: NDArray[Any] | None,
    bits: int,
    size: int,
    as_bytes: bool = False,
) -> Value:
    """The matrix [N, ``size``] of packed numbers.

    Args:
        c: the context.
        q: bytes [N, blocks, bytes of a block], the lowest bits first.
        scales: [N, blocks].
        zeros: zero points [N, blocks]; None for the middle of the range.
        bits: of an element, 4 or 8.
        size: elements of a row.
        as_bytes: whether products may round their data to bytes.
    """
    words = np.ascontiguousarray(q).view("<i4").astype(np.int32, copy=False)
    parts = [constant(c, words), constant(c, scales)]
    if zeros is not None and (zeros != 1 << (bits - 1)).any():
        parts.append(constant(c, zeros))
    first, *others = parts
    rounded = {"data": "int8"} if as_bytes else {}
    return first.op("unpack", *others, bits=bits, size=size, **rounded)


def packed_matrix(
    c: OnnxContext,
    x: NDArray[Any],
    scale: NDArray[Any],
    zero: NDArray[Any] | None,
    axis: int,
    block: int,
) -> Value | None:
    """A dequantised constant matrix; None where it has no such form, or bytes have no blocks.

    Args:
        c: the context.
        x: whole numbers of 4 or 8 bits.
        scale, zero: of two dimensions: as many entries as ``x``, 1, or along ``axis`` one a block.
        axis: a dimension of ``x``.
        block: neighbours that share a scale; 0 where there are no blocks.
    """
    bits = _BITS.get(x.dtype.name, 0)
    if x.ndim != 2 or not x.size or not bits or (bits == 8 and not 0 < block < x.shape[axis]):
        return None
    along = axis if block else int(scale.shape[0] > 1)
    per = WORD_BITS // bits
    rows, size = x.shape[1 - along], x.shape[along]
    if not 0 < block < size:
        block = -(-size // per) * per
    if block % per:
        return None
    blocks = -(-size // block)
    signed, middle = x.dtype.name.startswith("i"), 1 << (bits - 1)

    def by_row(array: NDArray[Any]) -> NDArray[Any]:
        return array if along else array.T

    def moved(array: NDArray[Any]) -> NDArray[np.uint8]:
        """Whole numbers without a sign."""
        whole = array.astype(np.int8 if signed else np.uint8).view(np.uint8)
        return (whole + np.uint8(middle * signed)) & np.uint8((1 << bits) - 1)

    def by_block(array: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(np.broadcast_to(by_row(array), (rows, blocks)))

    room(c, x.size // 4)
    q = np.zeros((rows, blocks * block), np.uint8)
    q[:, :size] = moved(by_row(x))
    if bits == 4:
        q = q[:, ::2] | q[:, 1::2] << np.uint8(4)
    zeros = by_block(moved(np.zeros((1, 1), x.dtype) if zero is None else zero))
    w = unpacked(c, q.reshape(rows, blocks, -1), by_block(scale), zeros, bits, size)
    return w if along else w.transpose(1, 0)
