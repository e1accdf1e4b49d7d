"""Data as bytes with a scale for each block of neighbours, found while a network runs.

A row ``x`` [K] is cut into blocks. The largest magnitude of a block, its *peak*, becomes 127::

    q[k] = round(x[k] * (127 / peak))        x[k] is about q[k] * (peak / 127)

Ties go to the even number, and a block of zeros is zeros. Peaks below 3.8e-37 count as 0, for
their reciprocal is infinite. A block with NaN or an infinity has the peak infinity and the bytes
0: what is multiplied by it is NaN.
"""

from __future__ import annotations

import math

import numpy as np

from tilework import te
from tilework.index.extents import known
from tilework.ops.storage import computed

TOP = 127.0
"""The greatest byte."""
LEAST = float(np.nextafter(np.float32(TOP / np.finfo(np.float32).max), np.float32(1)))
"""The least peak that counts."""


def block_peaks(x: te.Tensor, *, block: int) -> te.Tensor:
    """The largest magnitude of each ``block`` of ``x`` [M, K], float32 [M, K / block]."""
    (m, size), b = x.shape, te.reduce_axis(block, "b")

    def element(i: te.Expr, g: te.Expr) -> te.Expr:
        magnitude = te.abs(computed(x[i, g * block + b]))
        infinite = te.const(math.inf)
        return te.max(te.select(te.isnan(magnitude), infinite, magnitude), axis=b)

    return te.compute((m, size // block), element, name="T_block_peaks", axis_names=["ax0", "ax1"])


def block_bytes(x: te.Tensor, peaks: te.Tensor) -> te.Tensor:
    """``x`` [M, K] as int8 [blocks, M, K / blocks], given its peaks [M, blocks].

    So all rows of a block are neighbours, as products read them.
    """
    (m, size), (_, blocks) = x.shape, peaks.shape
    block = known(size) // known(blocks)

    def element(g: te.Expr, i: te.Expr, b: te.Expr) -> te.Expr:
        peak = peaks[i, g]
        usable = te.all(peak >= te.const(LEAST), peak < te.const(math.inf))
        scaled = te.round(computed(x[i, g * block + b]) * (te.const(TOP) / peak))
        return te.cast("int8", te.select(usable, scaled, te.const(0.0)))

    shape, names = (blocks, m, block), ["ax0", "ax1", "ax2"]
    return te.compute(shape, element, name="T_block_bytes", axis_names=names)


def block_scales(peaks: te.Tensor) -> te.Tensor:
    """What a byte of each block is worth, given its peaks."""
    names = ["ax0", "ax1"]
    scale = te.const(TOP)
    return te.compute(
        peaks.shape, lambda i, g: peaks[i, g] / scale, name="T_block_scales", axis_names=names
    )


def block_totals(q: te.Tensor, scales: te.Tensor, *, times: float) -> te.Tensor:
    """``times`` the sum of each block of bytes [blocks, M, size], scaled: float32 [M, blocks]."""
    blocks, m, size = q.shape
    b = te.reduce_axis(size, "b")
    total = te.compute(  # of neighbours, which lanes share: points fill none
        (m, blocks, 1),
        lambda i, g, _: te.sum(te.cast("int32", q[g, i, b]), axis=b),
        name="T_block_sums",
        axis_names=["ax0", "ax1", "ax2"],
    )

    def element(i: te.Expr, g: te.Expr) -> te.Expr:
        return te.cast("float32", total[i, g, 0]) * scales[i, g] * te.const(times)

    return te.compute((m, blocks), element, name="T_block_totals", axis_names=["ax0", "ax1"])
