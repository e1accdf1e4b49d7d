"""Weights in the Winograd domain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from tilework.space.winograd.matrices import weight_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIECE = 2048
"""Windows that are transformed at once: their numbers in double stay in the cache."""


@dataclass(frozen=True)
class WeightTransform:
    """A change of a weight tensor before packing: its window axes to points, these foremost.

    Attributes:
        tile: outputs of a tile along each transformed axis.
        source: shape of the tensor before the transform.
        window: its dimensions of taps that become points, in order; all have the same extent.
        rest: the others that stay, in order; what is in neither has one element and goes.
    """

    tile: int
    source: tuple[int, ...]
    window: tuple[int, ...]
    rest: tuple[int, ...]

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

        gone = [d for d in range(weight.ndim) if d not in (*self.window, *self.rest)]
        factor = np.array(weight_matrix(self.tile, self.taps))
        all_axes = reduce(np.kron, [factor] * len(self.window))  # one product for all of them
        taps = weight.transpose((*self.window, *self.rest, *gone)).reshape(all_axes.shape[1], -1)
        bfloat16 = str(weight.dtype) == "bfloat16"
        u = np.empty((len(all_axes), taps.shape[1]), np.float32 if bfloat16 else weight.dtype)
        for at in range(0, taps.shape[1], _PIECE):
            piece = slice(at, at + _PIECE)
            u[:, piece] = all_axes @ taps[:, piece].astype(np.float64)
        return u.reshape(self.shape)
