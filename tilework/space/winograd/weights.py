"""Weights in the Winograd domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilework.space.winograd.matrices import weight_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        order = (*self.window, *self.rest, *gone)
        u = (
            weight.transpose(order)
            .astype(np.float64)
            .reshape([weight.shape[d] for d in (*self.window, *self.rest)])
        )
        g = np.array(weight_matrix(self.tile, self.taps))
        for i in range(len(self.window)):
            u = np.moveaxis(np.tensordot(g, u, axes=(1, i)), 0, i)
        return u.astype("float32" if str(weight.dtype) == "bfloat16" else weight.dtype)
