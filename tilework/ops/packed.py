"""Weights of few bits, several in a word: unpacked where they are multiplied.

A matrix ``w`` [N, K] is cut into blocks of neighbours along K, with a scale each and perhaps a
zero point. It is kept as words ``q`` [N, blocks, words] of 32 bits, of which the lowest bits are
the first element::

    w[n, k] = (bits of q[n, k // block, ..] - zeros[n, k // block]) * scales[n, k // block]

The last block may reach beyond K. Where no zero points are given, all are the middle of the range.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilework import te
from tilework.index.extents import known
from tilework.ops.storage import computed
from tilework.runtime.arrays import aligned_empty

WORD_BITS = 32
_BYTE = 8
_BYTES = WORD_BITS // _BYTE
_PIECE = 1 << 14
"""Words that are put into order at once: they stay in the first caches."""


def packed_dense(
    data: te.Tensor,
    q: te.Tensor,
    scales: te.Tensor,
    zeros: te.Tensor | None = None,
    *,
    bits: int,
    layout_free: bool = False,
) -> te.Tensor:
    """Dense layer without bias: ``data`` [M, K] times the transposed packed matrix -> [M, N].

    Args:
        data: floating-point numbers; K is the number of elements of all blocks.
        q: words, int32 [N, blocks, words].
        scales: floating-point numbers [N, blocks].
        zeros: zero points [N, blocks], integers or floating-point numbers.
        bits: of an element, 4 or 8.
        layout_free: all but ``data`` are constants, whose layout the schedule may change.
    """
    per, middle = WORD_BITS // bits, _middle(bits)
    (m, _), (n, blocks, words) = data.shape, q.shape
    axes = [te.reduce_axis(e, a) for e, a in ((blocks, "g"), (words, "k"), (per, "t"))]
    g, k, t = axes

    def element(i: te.Expr, j: te.Expr) -> te.Expr:
        x = computed(data[i, (g * words + k) * per + t])
        w = _whole(q[j, g, k], t, bits) - middle
        if zeros is not None:  # both from the middle: what is subtracted in the end is small
            w = w - (te.cast("float32", zeros[j, g]) - middle)
        return te.sum(x * w * computed(scales[j, g]), axis=axes)

    weights = (q, scales) if zeros is None else (q, scales, zeros)
    attrs: dict[str, object] = {"inner_sum": (k.name, t.name), "panel": True}
    if layout_free:
        attrs["layout_free"] = tuple(w.name for w in weights)
    return te.compute((m, n), element, name="T_packed_dense", attrs=attrs)


def byte_dense(
    data: te.Tensor,
    data_scales: te.Tensor,
    totals: te.Tensor,
    q: te.Tensor,
    scales: te.Tensor,
    zeros: te.Tensor | None = None,
    *,
    bits: int,
    layout_free: bool = False,
) -> te.Tensor:
    """`packed_dense` of data that are bytes with a scale for each block -> [M, N].

    A block's whole numbers are multiplied and summed in int32, and scaled once. That a weight
    counts from its zero point adds ``zero * total`` to the sum, once a block: declared as an equal
    part of it with every term. Where `counts_from` gives one zero point for all, weights are moved
    to it as they are unpacked, once for all rows, and totals are times that.

    Args:
        data: int8 [blocks, M, elements of a block].
        data_scales: of each block, float32 [M, blocks].
        totals: minus the scaled sum of each block of the data, float32 [M, blocks]; times what
            `counts_from` says, if anything.
        q: words, int32 [N, blocks, words]; the bytes of four neighbours stand in a word, those of
            4 bits beside the next four: see `byte_order`.
        scales, zeros, bits: as of `packed_dense`.
        layout_free: the weights are constants, whose layout the schedule may change.
    """
    (blocks, m, size), (n, _, words) = data.shape, q.shape
    parts = _BYTE // bits
    extents = ((blocks, "g"), (words, "k"), (parts, "h"), (_BYTES, "e"))
    axes = [te.reduce_axis(extent, name) for extent, name in extents]
    g, k, h, e = axes
    moved = zeros is not None and counts_from(bits, zeros.dtype) is not None
    top = te.const((1 << bits) - 1, "int32")

    def element(i: te.Expr, j: te.Expr) -> te.Expr:
        x = te.cast("int32", data[g, i, (k * parts + h) * _BYTES + e])
        shifted = te.shift_right(q[j, g, k], te.cast("int32", e * _BYTE + h * bits))
        number = te.bitwise_and(shifted, top)
        more: te.Expr = totals[i, g]
        if moved and zeros is not None:
            number = number + te.bitwise_and(top - te.cast("int32", zeros[j, g]), top)
        elif zeros is not None:
            more = more * te.cast("float32", zeros[j, g])
        w = te.cast("int32", te.cast("uint8", number))
        product = te.cast("float32", w * x) * data_scales[i, g]
        equal = te.const(1 / known(size))
        return te.sum((product + more * equal) * computed(scales[j, g]), axis=axes)

    weights = (q, scales) if zeros is None else (q, scales, zeros)
    attrs: dict[str, object] = {"inner_sum": (k.name, h.name, e.name)}
    if moved:
        attrs["counts_from"] = (1 << bits) - 1
    if layout_free:
        attrs["layout_free"] = tuple(w.name for w in weights)
    return te.compute((m, n), element, name="T_byte_dense", attrs=attrs)


def counts_from(bits: int, zeros: str | None) -> int | None:
    """The zero point of all weights of `byte_dense` by the time they are multiplied, if one.

    Args:
        bits: of a weight.
        zeros: the type of the zero points that are given; None where none are.
    """
    if zeros is None:
        return 1 << (bits - 1)
    return (1 << bits) - 1 if zeros == "uint8" and 2 * bits <= _BYTE else None


def byte_order(q: NDArray[np.int32], bits: int) -> NDArray[np.int32]:
    """Words in the order of `byte_dense`: element ``t`` in byte ``t % 4``, lower bits first."""
    if bits == _BYTE:
        return q
    out = aligned_empty(q.shape, "int32")
    source, ordered = q.reshape(-1).view(np.uint32), out.reshape(-1).view(np.uint32)
    for begin in range(0, len(source), _PIECE):
        words = source[begin : begin + _PIECE]
        # 76543210 -> 73625140, number by number
        for distance, mask in ((8, 0x0000FF00), (4, 0x00F000F0)):
            words = _exchanged(words, np.uint32(distance), np.uint32(mask))
        ordered[begin : begin + _PIECE] = words
    return out


def _exchanged(
    words: NDArray[np.uint32], distance: np.uint32, mask: np.uint32
) -> NDArray[np.uint32]:
    """Bits of ``mask`` in the place of those ``distance`` above, and the other way round."""
    moved: NDArray[np.uint32] = (words ^ (words >> distance)) & mask
    return words ^ moved ^ (moved << distance)


def unpack(
    q: te.Tensor,
    scales: te.Tensor,
    zeros: te.Tensor | None = None,
    *,
    bits: int,
    size: int,
) -> te.Tensor:
    """The matrix [N, ``size``] that is packed; see `packed_dense` for the operands."""
    per = WORD_BITS // bits
    block = known(q.shape[2]) * per

    def element(j: te.Expr, at: te.Expr) -> te.Expr:
        g = at // block
        w = _whole(q[j, g, at % block // per], at % per, bits)
        zero = _middle(bits) if zeros is None else te.cast("float32", zeros[j, g])
        return (w - zero) * computed(scales[j, g])

    return te.compute((q.shape[0], size), element, name="T_unpack", axis_names=["ax0", "ax1"])


def _whole(word: te.Expr, t: te.Expr, bits: int) -> te.Expr:
    """Element ``t`` of a word, without its sign."""
    shifted = te.shift_right(word, te.cast("int32", t * bits))
    return te.cast("float32", te.bitwise_and(shifted, te.const((1 << bits) - 1, "int32")))


def _middle(bits: int) -> te.Expr:
    """The zero point where none is given."""
    return te.const(float(1 << (bits - 1)))
