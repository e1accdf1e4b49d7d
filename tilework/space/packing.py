"""Weight packing: constants stored in the order in which the schedule reads them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import round_tf32
from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.index.strides import row_major
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
        self._check(array)
        transform, shape, kind = self.transform, self.shape, array.dtype
        parts: Iterable[tuple[list[int], NDArray[Any]]] = [([0] * array.ndim, array)]
        if transform is not None:
            shape, kind, parts = transform.shape, transform.kind(array), transform.parts(array)
        if out is None:
            out = np.empty(self.packed_shape, kind)
        for begin, some in parts:
            self._place(out, some, begin)
        self._fill(out, shape)
        return out

    def pieces(
        self, array: NDArray[Any], out: NDArray[Any], nbytes: int
    ) -> list[Callable[[], object]]:
        """Calls that together do what `apply` does, in any order and by any threads.

        Args:
            out: where all of it is written, of `packed_shape`.
            nbytes: about how many bytes of a large array each call reads.

        Raises:
            ValueError: the array has another shape than the packing was made for.
        """
        self._check(array)
        if self.transform is not None or array.nbytes < 2 * nbytes or not self.shape:
            return [partial(self.apply, array, out)]
        dim, rows = self._outermost()
        size = self.shape[dim]
        step = max(nbytes * size // (array.nbytes * rows), 1) * rows
        calls: list[Callable[[], object]] = [partial(self._fill, out, self.shape)]
        for start in range(0, size, step):
            begin = [start if d == dim else 0 for d in range(array.ndim)]
            some = array[(*[slice(None)] * dim, slice(start, start + step))]
            calls.append(partial(self._place, out, some, begin))
        return calls

    def _outermost(self) -> tuple[int, int]:
        """The dimension that the outermost axis of several tiles is of, and points of its tile."""
        axes = [(d, tiles, i) for d, tiles in enumerate(self.tiles) for i in range(len(tiles))]
        cut = (axes[place] for place in self.order)
        dim, tiles, i = next((one for one in cut if one[1][one[2]] > 1), axes[self.order[0]])
        return dim, known(row_major(tiles)[i])

    def _check(self, array: NDArray[Any]) -> None:
        if tuple(array.shape) != self.shape:
            raise ValueError(f"packing expects shape {list(self.shape)}, got {list(array.shape)}")

    def _place(self, out: NDArray[Any], array: NDArray[Any], begin: Sequence[int]) -> None:
        """Write a part of the tensor that begins there where it belongs."""
        if self.limits is not None:
            array = np.clip(array, *self.limits)
        array = round_tf32(array) if self.tf32 else array
        ranges = zip(self.tiles, begin, array.shape, strict=True)
        for blocks in itertools.product(*[[*_blocks(t, a, a + n)] for t, a, n in ranges]):
            cut = [s for axes, _ in blocks for s in axes]
            own = zip(blocks, begin, strict=True)
            some = _at(array, [slice(r.start - a, r.stop - a) for (_, r), a in own])
            some = some.reshape([s.stop - s.start for s in cut])
            _copy(_at(out, [cut[i] for i in self.order]), some.transpose(self.order))

    def _fill(self, out: NDArray[Any], shape: Sequence[int]) -> None:
        """Write zeros where tiles exceed their dimension."""
        whole = [[slice(0, n) for n in tiles] for tiles in self.tiles]
        for d, (tiles, size) in enumerate(zip(self.tiles, shape, strict=True)):
            for axes, _ in _blocks(tiles, size, math.prod(tiles)):
                cut = [s for own in (*whole[:d], axes, *whole[d + 1 :]) for s in own]
                _at(out, [cut[i] for i in self.order])[...] = 0


def _at(array: NDArray[Any], slices: Sequence[slice]) -> NDArray[Any]:
    """A part of an array, also of one without dimensions."""
    where: Any = (..., *slices)
    part: NDArray[Any] = array[where]
    return part


def _blocks(tiles: Sequence[int], start: int, stop: int) -> Iterator[tuple[list[slice], range]]:
    """A range of a dimension as blocks of its tile axes: of each, slices of these, and its range.

    A dimension of 100 in tiles of 4, 8 and 4: three whole ones of 32, and one of the last eight.
    """
    if start >= stop:
        return
    inner = math.prod(tiles[1:])
    first, last = -(-start // inner), stop // inner
    if first <= last:
        split = first * inner, last * inner
        if first < last:
            yield [slice(first, last), *(slice(0, n) for n in tiles[1:])], range(*split)
        ends = [(start, split[0]), (split[1], stop)]
    else:
        ends = [(start, stop)]
    for a, b in ends:
        at = a // inner
        for axes, some in _blocks(tiles[1:], a - at * inner, b - at * inner):
            moved = range(some.start + at * inner, some.stop + at * inner)
            yield [slice(at, at + 1), *axes], moved


def _copy(out: NDArray[Any], array: NDArray[Any]) -> None:
    """``out[...] = array``, whose last dimension is copied as one piece where that can be."""
    size = out.itemsize
    if out.dtype == array.dtype and out.strides[-1:] == array.strides[-1:] == (size,):
        piece = f"V{out.shape[-1] * size}"
        out, array = out.view(piece), array.view(piece)
    out[...] = array
