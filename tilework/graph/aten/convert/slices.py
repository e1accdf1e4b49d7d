"""Operators that keep, drop or surround elements by their position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tilework.dtypes import is_float
from tilework.graph.aten.context import AtenContext, Converter, Unsupported, Value
from tilework.index.extents import known
from tilework.index.symbols import range_of

if TYPE_CHECKING:
    from tilework.index.extents import Extent


def _slice(
    c: AtenContext,
    x: Any,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    v = c.value(x)
    axis = c.axis(dim, c.rank(v))
    extent = c.shape(v)[axis]
    if isinstance(extent, int) and all(n is None or isinstance(n, int) for n in (start, end)):
        kept = range(extent)[slice(start, end, step)]
        return c.along(v, axis, kept.start, len(kept), kept.step)
    first: Extent = 0 if start is None else start
    if first < 0:
        first = extent + first
    return c.along(v, axis, first, c.result_shape()[axis], step)


def _select(c: AtenContext, x: Any, dim: int, index: int) -> Value:
    v = c.value(x)
    axis = c.axis(dim, c.rank(v))
    extent = c.shape(v)[axis]
    if isinstance(extent, int):
        index %= extent
    part = c.along(v, axis, extent + index if index < 0 else index, 1)
    return c.reshape(part, c.result_shape())


def _parts(c: AtenContext, v: Value, axis: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    starts = accumulate(sizes, initial=0)
    return tuple(c.along(v, axis, at, n) for at, n in zip(starts, sizes, strict=False))


def _split_with_sizes(c: AtenContext, x: Any, sizes: Any, dim: int = 0) -> Any:
    v = c.value(x)
    return _parts(c, v, c.axis(dim, c.rank(v)), [int(n) for n in sizes])


def _split(c: AtenContext, x: Any, size: int, dim: int = 0) -> Any:
    v = c.value(x)
    axis = c.axis(dim, c.rank(v))
    extent = known(c.shape(v)[axis])
    return _parts(c, v, axis, [min(size, extent - at) for at in range(0, extent, size)])


def _unbind(c: AtenContext, x: Any, dim: int = 0) -> Any:
    v = c.value(x)
    axis = c.axis(dim, c.rank(v))
    shape = c.shape(v)
    one = (*shape[:axis], *shape[axis + 1 :])
    return tuple(c.reshape(c.along(v, axis, i, 1), one) for i in range(known(shape[axis])))


def _flip(c: AtenContext, x: Any, dims: Sequence[int]) -> Value:
    v = c.value(x)
    shape = c.shape(v)
    axes = {d % len(shape) for d in dims} if shape else set()
    axes = {d for d in axes if shape[d] > 1}
    if not axes:
        return v
    begin = [n - 1 if d in axes else 0 for d, n in enumerate(shape)]
    stride = [-1 if d in axes else 1 for d in range(len(shape))]
    return c.op("slice", v, begin=tuple(begin), size=shape, stride=tuple(stride))


def _pad(c: AtenContext, x: Any, pad: Sequence[Extent], value: Any = 0) -> Value:
    """Padding names the innermost dimension first; negative numbers take some away."""
    v = c.value(x)
    before, after = _around(pad, c.rank(v))
    v = _cropped(c, v, before, after)
    more = {"before": tuple(map(_more, before)), "after": tuple(map(_more, after))}
    if all(isinstance(n, int) and not n for n in (*more["before"], *more["after"])):
        return v
    number = float(value) if is_float(c.dtype(v)) else int(value)
    return c.op("pad", v, **more, value=number)


def _around(pad: Sequence[Extent], rank: int) -> tuple[list[Extent], list[Extent]]:
    if len(pad) > 2 * rank:
        raise Unsupported("there is more padding than dimensions")
    before: list[Extent] = [0] * rank
    after = [*before]
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return before, after


def _more(n: Extent) -> Extent:
    """A number if it is more than 0, else 0."""
    low, high = range_of(n)
    return n if low >= 0 else 0 if high <= 0 else max(n, 0)


def _cropped(c: AtenContext, v: Value, before: Sequence[Extent], after: Sequence[Extent]) -> Value:
    shape = c.shape(v)
    begin = [_more(-n) for n in before]
    size = [n - _more(-b) - _more(-a) for n, b, a in zip(shape, before, after, strict=True)]
    return c.slice(v, begin, size, [1] * len(shape))


def _pad_self(mode: str, c: AtenContext, x: Any, pad: Sequence[Extent]) -> Value:
    v = c.value(x)
    before, after = _around(pad, c.rank(v))
    if min(*before, *after) < 0:
        raise Unsupported("with negative padding")
    return c.op("pad_self", v, before=tuple(before), after=tuple(after), mode=mode)


def _roll(c: AtenContext, x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """What leaves at the end of a dimension comes back at its beginning."""
    v = c.value(x)
    if not dims:
        (shift,) = shifts
        shape = c.shape(v)
        return c.reshape(_roll(c, c.reshape(v, (math.prod(shape),)), [shift], [0]), shape)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = c.axis(dim, c.rank(v))
        extent = c.shape(v)[axis]
        first = shift % extent if isinstance(extent, int) and extent else shift
        if first == 0:
            continue
        at = extent - first if first > 0 else -first
        parts = c.along(v, axis, at, extent - at), c.along(v, axis, 0, at)
        v = c.op("concat", *parts, axis=axis)
    return v


def _triangle(c: AtenContext, x: Any, diagonal: int = 0, *, upper: bool) -> Value:
    return c.op("trilu", c.value(x), k=int(diagonal), upper=upper)


CONVERTERS: dict[str, Converter] = {
    "slice.Tensor": _slice,
    "select.int": _select,
    "split_with_sizes": _split_with_sizes,
    "split.Tensor": _split,
    "unbind": _unbind,
    "flip": _flip,
    "roll": _roll,
    "constant_pad_nd": _pad,
    **{f"reflection_pad{n}d": partial(_pad_self, "reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": partial(_pad_self, "edge") for n in (1, 2, 3)},
    "triu": partial(_triangle, upper=True),
    "tril": partial(_triangle, upper=False),
}
