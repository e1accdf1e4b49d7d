"""What products of quantised numbers are by definition, in NumPy's integers.

Sums are of int64, so that nothing is limited or lost before the one rounding at the end:
``rint(float32(sum) * ((sx * sw) / sy)) + zy``, where ``sum`` holds a bias and no zero points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
f32 = np.float32


def product(x: Array, w: Array) -> Array:
    """A matrix product without zero points."""
    return np.asarray(x.astype(np.int64) @ w.astype(np.int64))


def conv(
    x: Array,
    w: Array,
    groups: int,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Array:
    """A convolution without zero points, of any rank, padded with 0.

    Args:
        x: [N, G * k, ...].
        w: [G * n, k, ...].
        groups: G.
        strides, dilations: for each spatial axis.
        pads: those before, then those after.
    """
    rank = len(strides)
    around = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    wide = np.pad(x.astype(np.int64), around)
    filters = w.astype(np.int64).reshape(groups, -1, *w.shape[1:])
    reach = [d * (s - 1) + 1 for d, s in zip(dilations, w.shape[2:], strict=True)]
    ends = [n - r + 1 for n, r in zip(wide.shape[2:], reach, strict=True)]
    out: Any = 0
    for at in np.ndindex(*w.shape[2:]):
        steps = zip(at, dilations, ends, strides, strict=True)
        part = wide[(..., *(slice(a * d, a * d + e, s) for a, d, e, s in steps))]
        part = part.reshape(len(x), groups, -1, *part.shape[2:])
        out = out + np.einsum("bgk...,gnk->bgn...", part, filters[(..., *at)])
    return np.asarray(out).reshape(len(x), len(w), *np.shape(out)[3:])


def pooled(
    x: Array,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    what: str,
) -> Array:
    """The sum or the largest (``what``: ``max``) of each window over the last axes.

    Arguments are those of `conv`. Padding adds nothing and is never the largest.
    """
    rank = len(window)
    around = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    least = np.iinfo(x.dtype).min if what == "max" else 0
    wide = np.pad(x, around, constant_values=least)
    reach = [d * (s - 1) + 1 for d, s in zip(dilations, window, strict=True)]
    ends = [n - r + 1 for n, r in zip(wide.shape[2:], reach, strict=True)]
    parts = []
    for at in np.ndindex(*window):
        steps = zip(at, dilations, ends, strides, strict=True)
        parts.append(wide[(..., *(slice(a * d, a * d + e, s) for a, d, e, s in steps))])
    return np.asarray(np.max(parts, axis=0) if what == "max" else np.sum(parts, axis=0))


def saturated(whole: Array, zero: Array) -> Array:
    """Whole numbers, as float32, with a zero point, in its type."""
    limits = np.iinfo(zero.dtype)
    return np.clip(whole + zero.astype(f32), limits.min, limits.max).astype(zero.dtype)


def requantised(sums: Array, scale: Array, zero: Array) -> Array:
    """Sums times a scale as quantised numbers."""
    return saturated(np.rint(sums.astype(np.int32).astype(f32) * scale), zero)


def quantised(real: Array, scale: Array, zero: Array) -> Array:
    """Real numbers as quantised ones."""
    return saturated(np.rint(real / scale), zero)


def dequantised(x: Array, scale: Array, zero: Array | int = 0) -> Array:
    """Quantised numbers as real ones."""
    whole = x.astype(np.int32) - np.asarray(zero).astype(np.int32)
    return whole.astype(f32) * scale


def dynamic(x: Array) -> tuple[Array, Array, Array]:
    """Real numbers as uint8, with their scale and zero point, as their extremes are."""
    low, high = np.minimum(x.min(), f32(0)), np.maximum(x.max(), f32(0))
    scale = np.asarray((high - low) / f32(255) or 1, f32)
    zero = np.clip(np.rint((f32(0) - low) / scale), 0, 255).astype(np.uint8)
    return quantised(x, scale, zero), scale, zero
