"""Weights in the Winograd domain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from tilework.frozen import frozen
from tilework.space.winograd.matrices import weight_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIECE = 8192
"""Windows that are transformed at once, about: their numbers in double stay in the cache."""


@frozen
class WeightTransform:
    """A change of a weight tensor before packing: its window axes to points, these foremost.

    Attributes:
        tile: outputs of a tile along each transformed axis.
        source: shape of the tensor before the transform.
        window: its dimensions of taps that become points, in order; all have the same extent.
        rest: the others that stay, in order; what is in neither has one element and goes.
        outputs: how many of these, the last ones, the output has as well: groups and channels.
    """

    tile: int
    source: tuple[int, ...]
    window: tuple[int, ...]
    rest: tuple[int, ...]
    outputs: int = 1

    @property
    def taps(self) -> int:
        """Extent of the window's dimensions."""
        return self.source[self.window[0]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape after the transform."""
        points = (self.tile + self.taps - 1,) * len(self.window)
        return (*points, *(self.source[d] for d in self.rest))

    def apply(self, weight: NDArray[Any]) -> NDArray[Any]:
        """``U[e1, .., rest] = sum over i1, .. of G[e1, i1] .. weight``, summed in double.

        Weights of bfloat16 become float32.
        """
        import numpy as np

        u = np.empty(self.shape, self.kind(weight))
        for begin, transformed in self.parts(weight):
            where = zip(begin, transformed.shape, strict=True)
            u[tuple(slice(start, start + size) for start, size in where)] = transformed
        return u

    def parts(self, weight: NDArray[Any]) -> Iterator[tuple[list[int], NDArray[Any]]]:
        """What `apply` returns in parts, and where each begins."""
        import numpy as np

        gone = [d for d in range(weight.ndim) if d not in (*self.window, *self.rest)]
        factor = np.array(weight_matrix(self.tile, self.taps))
        all_axes = reduce(np.kron, [factor] * len(self.window))  # one product for all of them
        taps, first = weight.transpose((*self.window, *self.rest, *gone)), len(self.window)
        # memory is read from its beginning to its end
        cut = max(range(first, first + len(self.rest)), key=lambda d: abs(taps.strides[d]))
        size = self.shape[cut]
        others = math.prod(self.shape[first:]) // max(size, 1)
        step, kind = max(_PIECE // max(others, 1), 1), self.kind(weight)
        for at in range(0, size, step):
            some = taps[(*[slice(None)] * cut, slice(at, at + step))]
            shape = *self.shape[:first], *some.shape[first : len(self.shape)]
            begin = [at if d == cut else 0 for d in range(len(shape))]
            some = _gathered(some, first).astype(np.float64, order="C")
            some = some.reshape(all_axes.shape[1], shape[first], -1)
            u = np.empty((len(all_axes), *some.shape[1:]))
            # a product for each: so short ones are no work for BLAS's threads
            np.matmul(all_axes, some.swapaxes(0, 1), out=u.swapaxes(0, 1))
            yield begin, u.astype(kind).reshape(shape)

    def kind(self, weight: NDArray[Any]) -> Any:
        """The element type of what the transform returns."""
        return "float32" if str(weight.dtype) == "bfloat16" else weight.dtype


def _gathered(taps: NDArray[Any], axes: int) -> NDArray[Any]:
    """The same numbers, close to each other: (taps of the windows.., all others).

    Windows that lie apart, but each in one piece, as those of an exported model, are copied as
    pieces. Taps that are read one by one from so many lines of memory take longer.
    """
    import numpy as np

    windows = np.moveaxis(taps, range(axes), range(-axes, 0))
    if windows[(0,) * (taps.ndim - axes)].flags.c_contiguous:
        piece = f"V{math.prod(taps.shape[:axes]) * taps.itemsize}"
        flat = windows.reshape(*windows.shape[:-axes], -1).view(piece)
        windows = np.ascontiguousarray(flat).view(taps.dtype).reshape(windows.shape)
    return np.moveaxis(windows, range(-axes, 0), range(axes))
