"""The original's 164 features of each store, for whole populations.

A program is one row for every buffer that it stores to; rows hold log2(1 + value), but for one-hot
entries. Counts in brackets:

- operations by class (16);
- vectorised, unrolled and parallel loops: number, product, innermost extent, kind (33);
- the grid of a GPU, of which a CPU has none (8);
- five buffers, those with most cache lines first: kind of access, bytes and lines touched, how and
  how far apart they are used again, stride of the innermost loop (5 x 18);
- arithmetic intensity at ten shares of the operations (10);
- allocation (4), loops around the store and the limit of expansion (3).

Of the quirks of the original two are mended, as its describers suggest: each loop that a buffer
does not depend on divides its lines by its own extent, and contiguous bytes are the buffer's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce as fold

import numpy as np
from numpy.typing import NDArray

from ansor.operations import NAMES as OPERATIONS
from ansor.program import Access, Loop, Store, stores_of
from tilework.space.sketch import Sketch

Floats = NDArray[np.float64]
LINE_BYTES = 64
BUFFERS, SAMPLES = 5, 10
_POSITIONS = (
    "none", "inner_spatial", "middle_spatial", "outer_spatial",
    "inner_reduce", "middle_reduce", "outer_reduce", "mixed",
)  # fmt: skip
_BUFFER = (
    "acc_read", "acc_write", "acc_both", "bytes", "unique_bytes", "lines", "unique_lines",
    "reuse_loop", "reuse_serial", "reuse_none", "reuse_dis_iter", "reuse_dis_bytes", "reuse_ct",
    "bytes_d_reuse", "unique_bytes_d_reuse", "lines_d_reuse", "unique_lines_d_reuse", "stride",
)  # fmt: skip
_RAW = {"acc_read", "acc_write", "acc_both", "reuse_loop", "reuse_serial", "reuse_none"}


def _annotation(kind: str) -> tuple[str, ...]:
    counts = (f"{kind}_num", f"{kind}_prod", f"{kind}_len")
    return (*counts, *(f"{kind}_type_{p}" for p in _POSITIONS))


_GPU = ("blockIdx_x", "blockIdx_y", "blockIdx_z", "threadIdx_x", "threadIdx_y", "threadIdx_z")
NAMES: tuple[str, ...] = (
    *OPERATIONS,
    *_annotation("vec"),
    *_annotation("unroll"),
    *_annotation("parallel"),
    "is_gpu",
    *(f"{name}_len" for name in (*_GPU, "vthread")),
    *(f"B{i}.{name}" for i in range(BUFFERS) for name in _BUFFER),
    *(f"arith_intensity_curve_{i}" for i in range(SAMPLES)),
    "alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod",
    "outer_prod", "num_loops", "auto_unroll_max_step",
)  # fmt: skip
"""Names of the 164 columns."""


def features(sketch: Sketch, rows: NDArray[np.int32]) -> NDArray[np.float32]:
    """Features of P rows of a sketch: P x S x 164 for its S stores."""
    stores = stores_of(sketch, rows)
    out = np.zeros((len(rows), len(stores), len(NAMES)), np.float32)
    if not len(rows):
        return out
    seen: dict[int, list[Entry]] = {}
    for i, store in enumerate(stores):
        out[:, i] = store_features(store, seen, len(rows))
    return out


def slog(values: Floats) -> Floats:
    """log2(1 + v), odd around 0."""
    result: Floats = np.sign(values) * np.log2(np.abs(values) + 1.0)
    return result


@dataclass(frozen=True, eq=False)
class Entry:
    """What one store touches of a buffer in all iterations of one loop."""

    buffer: object
    elements: Floats
    element_bytes: int


def store_features(store: Store, seen: dict[int, list[Entry]], count: int) -> Floats:
    """Features of one store, P x 164.

    Args:
        store: the store.
        seen: by identity of a loop, what stores before this one touch inside it; this one is
            added to it.
        count: P.
    """
    one = np.ones(count)
    prod = fold(lambda total, loop: total * loop.extent, store.loops, one)
    touched = [_touched(access, store.loops, one) for access in store.accesses]
    for level, loop in enumerate(store.loops):
        entries = seen.setdefault(id(loop), [])
        for access, regions in zip(store.accesses, touched, strict=True):
            entries.append(Entry(access.buffer, regions[level][0], access.element_bytes))
    columns: list[Floats] = [slog(prod * c) for c in store.operations.counts]
    for kind in ("vector", "unroll", "parallel"):
        columns += _annotated(store.loops, kind, one)
    columns += [0 * one, *(one for _ in range(7))]  # slog(1) of every extent of a grid
    columns += _buffers(store, touched, seen, prod, one)
    columns += [slog(c) for c in _intensity(store, touched, one)]
    columns += [slog(c) for c in _allocation(store, prod, one)]
    loops = fold(lambda n, loop: n + (loop.extent > 1), store.loops, 0 * one)
    columns += [slog(prod), slog(loops), slog(store.unroll * one)]
    return np.stack([np.broadcast_to(c, (count,)) for c in columns], axis=1)


def _touched(
    access: Access, loops: Sequence[Loop], one: Floats
) -> list[tuple[Floats, tuple[Floats, ...]]]:
    """Elements, and extents of the region, that loops from each level inwards touch.

    The last item is of no loop at all.
    """
    spans = [one + gap for gap in access.spread]
    extents = [float(size) for size in access.shape]

    def region() -> tuple[Floats, tuple[Floats, ...]]:
        sides = tuple(np.minimum(s, size) for s, size in zip(spans, extents, strict=True))
        return fold(np.multiply, sides, one), sides

    out = [region()]
    for loop in reversed(loops):
        for d, index in enumerate(access.dims):
            if index is None:  # found in data, or otherwise not linear: anything
                spans[d] = one * extents[d]
                continue
            for axis, part in loop.parts.items():
                if axis in index:
                    spans[d] = spans[d] + abs(index[axis]) * part.step * (part.extent - 1)
        out.append(region())
    return out[::-1]


def _annotated(loops: Sequence[Loop], kind: str, one: Floats) -> list[Floats]:
    """Number, product and innermost extent of the loops of a kind; where they are, one-hot."""
    number, product, length = 0 * one, one, 0 * one
    for loop in loops:
        if loop.kind == kind:
            real = loop.extent > 1
            number = number + real
            product = product * loop.extent
            length = np.where(real, loop.extent, length)
    some = number > 0
    hot = [0 * one for _ in _POSITIONS]
    hot[0], hot[-1] = 1.0 - some, 1.0 * some
    return [slog(number), slog(np.where(some, product, 0.0)), slog(length), *hot]


def _buffers(
    store: Store,
    touched: Sequence[list[tuple[Floats, tuple[Floats, ...]]]],
    seen: dict[int, list[Entry]],
    prod: Floats,
    one: Floats,
) -> list[Floats]:
    """The columns of the five buffers with most lines, then most bytes; zeros for missing ones."""
    found, keys = [], []
    for access, regions in zip(store.accesses, touched, strict=True):
        found.append(_buffer(store, access, regions, seen, prod, one))
        keys.append((found[-1][_BUFFER.index("lines")], found[-1][_BUFFER.index("bytes")]))
    table = np.stack([np.stack([c * one for c in columns], axis=1) for columns in found], axis=1)
    lines, size = (np.stack([k[i] * one for k in keys], axis=1) for i in (0, 1))
    order = np.lexsort((-size, -lines), axis=1)[:, :BUFFERS]
    table = np.take_along_axis(table, order[:, :, None], axis=1)
    raw = np.array([name in _RAW for name in _BUFFER])
    table = np.where(raw, table, slog(table))
    missing = np.zeros((len(one), BUFFERS - table.shape[1], len(_BUFFER)))
    flat = np.concatenate([table, missing], axis=1).reshape(len(one), -1)
    return list(flat.T)


def _buffer(
    store: Store,
    access: Access,
    regions: list[tuple[Floats, tuple[Floats, ...]]],
    seen: dict[int, list[Entry]],
    prod: Floats,
    one: Floats,
) -> list[Floats]:
    """One buffer's columns, not yet logarithms."""
    size = access.element_bytes
    whole, sides = regions[0]
    total, unique = prod * size, whole * size
    stride, innermost, skipped = _stride(access, store.loops, one)
    share = np.minimum(1.0, stride * size / LINE_BYTES)
    lines = np.maximum(1.0, prod / skipped * share)
    contiguous, going = one * size, one > 0
    for side, extent in zip(reversed(sides), reversed(access.shape), strict=True):
        contiguous = np.where(going, contiguous * side, contiguous)
        going = going & (side >= extent)
    unique_lines = np.maximum(1.0, unique / np.minimum(contiguous, LINE_BYTES))
    kind, far, apart, times = _reuse(store, access, regions, seen, one)
    by = np.where(times > 0.5, 1.0 / np.maximum(times, 1.0), 2.0)
    counts = [total, unique, lines, unique_lines]
    return [
        *(one * (access.kind == kind) for kind in ("read", "write", "both")),
        *counts,
        1.0 * (kind == 1), 1.0 * (kind == 2), 1.0 * (kind == 0),
        far, apart, times,
        *(c * by for c in counts),
        innermost,
    ]  # fmt: skip


def _stride(access: Access, loops: Sequence[Loop], one: Floats) -> tuple[Floats, Floats, Floats]:
    """Stride in elements of the innermost loop that moves the access; 0 where none does.

    Returns:
        that stride; the same where that loop is the innermost of all, else 0; and how many
        iterations of loops inside it touch the same element.
    """
    if not access.shape:
        return one, one, one
    stride, innermost, skipped = 0 * one, 0 * one, one
    waiting, first = one > 0, one > 0
    inner = [float(np.prod(access.shape[d + 1 :])) for d in range(len(access.shape))]
    for loop in reversed(loops):
        real = loop.extent > 1
        own = 0 * one
        for index, elements in zip(access.dims, inner, strict=True):
            for axis, part in loop.parts.items():
                if index is not None and axis in index:
                    step = abs(index[axis]) * part.step * elements
                    own = np.where(part.extent > 1, step, own)  # the last dimension counts
        found = waiting & real & (own > 0)
        stride = np.where(found, own, stride)
        innermost = np.where(found & first, own, innermost)
        skipped = np.where(waiting & real & ~found, skipped * loop.extent, skipped)
        waiting = waiting & ~found
        first = first & ~real
    return stride, innermost, np.where(waiting, 1.0, skipped)


def _reuse(
    store: Store,
    access: Access,
    regions: list[tuple[Floats, tuple[Floats, ...]]],
    seen: dict[int, list[Entry]],
    one: Floats,
) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
    """How a buffer is used again: 1 by a loop it does not depend on, 2 by another store, 0 not.

    Returns:
        the kind; iterations and bytes between two uses; number of uses.
    """
    kind = np.zeros(len(one), np.int64)
    far, apart, times = 0 * one, 0 * one, 0 * one
    iterations, between, unset, open_ = one, 0 * one, one > 0, one > 0
    for loop in reversed(store.loops):
        entries = seen[id(loop)]
        real = open_ & (loop.extent > 1)
        moves = loop.occurs(access.axes) if access.axes else one < 0
        stop = real & ~moves
        single = float(sum(e.element_bytes for e in entries))
        kind = np.where(stop, 1, kind)
        far = np.where(stop, iterations, far)
        apart = np.where(stop, np.where(unset, single, between), apart)
        times = np.where(stop, loop.extent, times)
        open_ = open_ & ~stop
        go = real & moves
        volume = fold(lambda b, e: b + e.elements * e.element_bytes, entries, 0 * one)
        iterations = np.where(go, iterations * loop.extent, iterations)
        between = np.where(go, volume, between)
        unset = unset & ~go
        same = [e.elements for e in entries if e.buffer == access.buffer]
        if len(same) > 1:
            kind = np.where(go, 2, kind)
            far = np.where(go, fold(np.minimum, same) / loop.extent, far)
            apart = np.where(go, volume / loop.extent, apart)
            times = np.where(go, len(same) - 1.0, times)
            open_ = open_ & ~go
    return kind, far, apart, times


def _intensity(
    store: Store, touched: Sequence[list[tuple[Floats, tuple[Floats, ...]]]], one: Floats
) -> list[Floats]:
    """Operations per byte touched, at ten even shares of all operations, innermost first.

    Between the levels of the nest it is linear in the operations; before the first, the first's.
    """
    if not store.operations.floats or not store.loops:
        return [0 * one for _ in range(SAMPLES)]
    ops, points = store.operations.floats * one, []
    for level in reversed(range(len(store.loops))):
        loop = store.loops[level]
        ops = ops * loop.extent
        volume = fold(
            lambda b, pair: b + pair[1][level][0] * pair[0].element_bytes,  # noqa: B023
            zip(store.accesses, touched, strict=True),
            0 * one,
        )
        points.append((ops, ops / volume, loop.extent > 1))
    some = fold(np.logical_or, [real for _, _, real in points])
    out = []
    for i in range(SAMPLES):
        wanted = ops * (i + 1) / SAMPLES
        value, lower_ops, lower, found = 0 * one, 0 * one, 0 * one, ~some
        started = one < 0
        for at, intensity, real in points:
            here = ~found & real & (at >= wanted * (1 - 1e-12))
            slope = (wanted - lower_ops) / np.maximum(at - lower_ops, 1e-30)
            between = lower + slope * (intensity - lower)
            value = np.where(here, np.where(started, between, intensity), value)
            found = found | here
            move = ~found & real
            lower_ops, lower = np.where(move, at, lower_ops), np.where(move, intensity, lower)
            started = started | move
        out.append(value)
    return out


def _allocation(store: Store, prod: Floats, one: Floats) -> list[Floats]:
    if store.allocated is None:
        return [0 * one] * 4
    elements, outside = store.allocated
    size = store.accesses[0].element_bytes
    return [elements * size, elements * outside, outside * one, prod / outside]
