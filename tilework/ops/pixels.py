"""Pixels of few channels as words: what the first convolution of a network of bytes reads."""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te
from tilework.index.extents import known_shape

CHANNELS = 4
"""Bytes of a word."""


def pixel_words(x: te.Tensor, again: Sequence[int] = ()) -> te.Tensor:
    """The channels of each pixel of ``x``, the first one lowest, as an int32 [N, H, W].

    So a vector of pixels is computed a channel at a time, however channels lie in what ``x`` is
    computed from. ``x`` is uint8 [N, H, W, C]; with the channels that are there ``again``, behind
    the others, it has at most 4. What is left is 0.
    """
    channels = (*range(*known_shape(x.shape[-1:])), *again)

    def word(n: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        pixel = te.cast("int32", x[n, i, j, 0])
        for place, c in enumerate(channels[1:], 1):
            part = te.cast("int32", x[n, i, j, c])
            pixel = te.bitwise_or(pixel, te.shift_left(part, te.const(8 * place, "int32")))
        return pixel

    return te.compute(x.shape[:-1], word, name="T_pixels", axis_names=("nn", "yy", "xx"))
