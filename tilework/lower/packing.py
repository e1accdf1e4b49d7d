"""Weight packing: constants stored in the order in which the schedule reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.space.winograd import WeightTransform


@dataclass(frozen=True)
class Packing:
    """How a weight tensor is rearranged before the kernel runs.

    Attributes:
        shape: the tensor's own shape.
        tiles: per dimension, the extents it is cut into, outermost first (their product may exceed
            the dimension; the excess is filled with zeros).
        order: the position of each tile axis (numbered dimension by dimension) in the packed
            array, outermost first.
        transform: applied to the tensor before it is cut; ``shape`` is the shape before it.
    """

    shape: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    transform: WeightTransform | None = None

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """Shape of the packed array."""
        flat = [t for dim in self.tiles for t in dim]
        return tuple(flat[i] for i in self.order)

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The packed, contiguous copy of ``array``.

        Raises:
            ValueError: the array has another shape than the packing was made for.
        """
        if tuple(array.shape) != self.shape:
            raise ValueError(f"packing expects shape {list(self.shape)}, got {list(array.shape)}")
        if self.transform is not None:
            array = self.transform.apply(array)
        padded = [(0, math.prod(t) - s) for t, s in zip(self.tiles, array.shape, strict=True)]
        if any(after for _, after in padded):
            array = np.pad(array, padded)
        split = array.reshape([t for dim in self.tiles for t in dim])
        return np.ascontiguousarray(split.transpose(self.order))
