"""Weight packing: constants stored in the order in which the schedule reads them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import round_tf32
from tilework.frozen import frozen
from tilework.space.winograd.weights import WeightTransform


@frozen
class Packing:
    """How a weight tensor is rearranged before the kernel runs.

    Attributes:
        shape: the tensor's own shape.
        tiles: per dimension, the extents it is cut into, outermost first (their product may exceed
            the dimension; the excess is filled with zeros).
        order: the position of each tile axis (numbered dimension by dimension) in the packed
            array, outermost first.
        transform: applied to the tensor before it is cut; ``shape`` is the shape before it.
        tf32: whether elements are rounded to tf32 numbers, as the products that they are for
            declare.
        limits: the range that integers are brought into, as the products declare it.
    """

    shape: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    transform: WeightTransform | None = None
    tf32: bool = False
    limits: tuple[int, int] | None = None

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """Shape of the packed array."""
        flat = [t for dim in self.tiles for t in dim]
        return tuple(flat[i] for i in self.order)

    def apply(self, array: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The packed, contiguous copy of ``array``.

        Args:
            out: where it is written, of `packed_shape`; by default new memory.

        Raises:
            ValueError: the array has another shape than the packing was made for.
        """
        if tuple(array.shape) != self.shape:
            raise ValueError(f"packing expects shape {list(self.shape)}, got {list(array.shape)}")
        transform = self.transform
        shape = self.shape if transform is None else transform.shape
        padded = [(0, math.prod(t) - s) for t, s in zip(self.tiles, shape, strict=True)]
        fits = not any(after for _, after in padded)
        if transform is not None and fits and not self.tf32 and out is not None:
            self._apply_parts(transform, array, out)
            return out
        if transform is not None:
            array = transform.apply(array)
        if self.limits is not None:
            array = np.clip(array, *self.limits)
        if self.tf32:
            array = round_tf32(array)
        if not fits:
            array = np.pad(array, padded)
        split = array.reshape([t for dim in self.tiles for t in dim]).transpose(self.order)
        if out is None:
            return np.ascontiguousarray(split)
        _copy(out, split)
        return out

    def _apply_parts(
        self, transform: WeightTransform, array: NDArray[Any], out: NDArray[Any]
    ) -> None:
        """`apply`, of which each part is written before the next one is computed."""
        points = len(transform.window)
        first, tiles = self.tiles[points], [n for dim in self.tiles for n in dim]
        before = sum(map(len, self.tiles[:points]))
        after = tiles[before + len(first) :]
        split = out.transpose(np.argsort(self.order))  # by tile axes as they are numbered
        inner = first[-1]
        ranges = [range(at, at + inner) for at in range(0, math.prod(first), inner)]
        for part, transformed in transform.parts(array, ranges):
            at = np.unravel_index(part.start // inner, first[:-1]) if first[:-1] else ()
            begin = part.start % inner
            some = slice(begin, begin + part.stop - part.start)
            place = split[(*(slice(None),) * before, *at, some)]
            _copy(place, transformed.reshape(*tiles[:before], part.stop - part.start, *after))


def _copy(out: NDArray[Any], array: NDArray[Any]) -> None:
    """``out[...] = array``, whose last dimension is copied as one piece where that can be."""
    size = out.itemsize
    if out.dtype == array.dtype and out.strides[-1:] == array.strides[-1:] == (size,):
        piece = f"V{out.shape[-1] * size}"
        out, array = out.view(piece), array.view(piece)
    out[...] = array
