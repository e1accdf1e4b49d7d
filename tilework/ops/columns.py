"""Images from columns: the sum of overlapping blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilework import te
from tilework.ops.conv import output_size
from tilework.ops.storage import computed


def col2im(
    x: te.Tensor,
    image: Sequence[int],
    block: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
) -> te.Tensor:
    """Sum of the blocks of which each column holds one: [N, C * taps, L] -> [N, C, ...image].

    Args:
        x: columns; L counts the positions of a window of ``block`` taps sliding over the image.
        image: extents of the image.
        block: taps along each of its dimensions.
        strides: step of the window along each dimension.
        pads: elements around the image that the window also covers: all firsts, then all lasts.
        dilation: distance between taps along each dimension.
    """
    rank = len(image)
    taps = math.prod(block)
    counts = [
        output_size(n, k, pads[d], pads[d + rank], strides[d], dilation[d])
        for d, (n, k) in enumerate(zip(image, block, strict=True))
    ]
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != math.prod(counts):
        raise ValueError(
            f"col2im: expected [N, C * {taps}, {math.prod(counts)}], got {list(x.shape)}"
        )
    axes = [te.reduce_axis(k, f"k{d}") for d, k in enumerate(block)]

    def body(*ax: te.Expr) -> te.Expr:
        inside: list[te.Expr] = []
        tap: te.Expr = te.const(0, "int32")
        column: te.Expr = te.const(0, "int32")
        for d, k in enumerate(axes):
            start = ax[2 + d] + pads[d] - k * dilation[d]
            window = start if strides[d] == 1 else start // strides[d]
            inside += [start >= 0, window < counts[d]]
            if strides[d] > 1:
                inside.append(te.equal(start % strides[d], 0))
            tap, column = tap * block[d] + k, column * counts[d] + window
        element = computed(x[(ax[0], ax[1] * taps + tap, column)])
        return te.sum(te.if_then_else(te.all(*inside), element, te.const(0, element.dtype)), axes)

    shape = (x.shape[0], x.shape[1] // taps, *image)
    return te.compute(shape, body, name="T_col2im")
