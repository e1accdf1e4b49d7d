"""Small tensors that follow from the extents of inputs: shapes, and what is computed of them.

``Shape(x)`` is known at import but for what a run brings: its numbers are extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import numpy as np

from tilework.dtypes import integer_range, is_float, is_integer, numpy_dtype
from tilework.frozen import frozen
from tilework.graph.onnx.shares import Share, share_of
from tilework.index.extents import Extent
from tilework.index.symbols import Symbol, Symbolic, range_of, symbols_of

Item = int | Symbolic | Share
Known = Union[np.ndarray, "Numbers"]


_EXACT = {"float16": 1 << 11, "bfloat16": 1 << 8}
"""Whole numbers below these are numbers of narrow types."""


class NotKnown(Exception):
    """What an operator makes of such numbers is no such number; it may be computed in a run."""


@frozen
class Numbers:
    """A tensor of known shape, of whose numbers some are extents that a run brings.

    Attributes:
        items: in row-major order: extents, or shares of them where ``dtype`` is a float.
    """

    items: tuple[Item, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """What it depends on, by name."""
        return symbols_of(i.whole if isinstance(i, Share) else i for i in self.items)

    @property
    def extents(self) -> list[Extent] | None:
        """Its numbers, if all are whole."""
        exact = [i for i in self.items if not isinstance(i, Share)]
        return exact if len(exact) == len(self.items) else None


def tensor_of(items: Sequence[Item], shape: Sequence[int], dtype: str) -> Known:
    """A tensor of these numbers: an array, if a run brings none of them.

    Raises:
        NotKnown: the type does not have all of them exactly.
    """
    if dtype != "int64" and not all(_held(i, dtype) for i in items):
        raise NotKnown(f"{dtype} has no such number")
    plain = [i.number if isinstance(i, Share) else i for i in items]
    if any(isinstance(i, Symbolic | Share) for i in plain):
        return Numbers(tuple(items), tuple(shape), dtype)
    return np.array(plain, numpy_dtype(dtype)).reshape(tuple(shape))


def _held(item: Item, dtype: str) -> bool:
    """Whether a type has a number exactly, at all points."""
    if isinstance(item, Share):
        return dtype not in _EXACT or item.below(_EXACT[dtype])
    if not is_integer(dtype):
        return True
    (least, most), (low, high) = range_of(item), integer_range(dtype)
    return low <= least and most <= high


def shape_of(extents: Sequence[Extent]) -> Known:
    """A shape as a tensor."""
    return tensor_of(extents, (len(extents),), "int64")


def numbers(x: Known) -> Numbers:
    """A tensor as numbers.

    Raises:
        NotKnown: it holds something else.
    """
    if isinstance(x, Numbers):
        return x
    kind = str(x.dtype)
    if is_float(kind):
        if not np.isfinite(x).all():
            raise NotKnown("infinity")
        return Numbers(tuple(share_of(float(v)) for v in x.reshape(-1)), x.shape, kind)
    if not is_integer(kind) and kind != "bool":
        raise NotKnown(kind)
    return Numbers(tuple(int(v) for v in x.reshape(-1)), x.shape, kind)
