"""Features of every buffer that a nest stores to, for P candidates at once.

One row per stored buffer: operation counts; vector, unroll and parallel structure; for each of up
to `BUFFERS` buffers the bytes and cache lines it moves and how it is reused; the arithmetic
intensity of growing parts of the nest; allocation. A value v is given as ``log2(1 + v)``, one-hot
entries as they are.

The definitions are those of Ansor's per-store features with these differences:

* ``float_mad`` counts products that are added: they become one instruction. (``float_mul`` and
  ``float_addsub`` count them too.) Ansor names the column and never fills it.
* The place of vectorised, expanded and parallel loops is told: the columns ``*_type`` say whether
  the innermost, outermost or a middle loop is of that kind, and spatial or reduced. Ansor tells
  "none" from "any".
* Coefficients of indices, and so strides and regions, are exact; regions end at the tensor.
* ``lines`` divides by the extent of every loop that it skips, where Ansor divides by the innermost
  loop's each time. A scalar takes one line.
* ``unique_lines`` takes the longest contiguous run of the buffer's own region.
* A buffer keeps its columns whatever the candidate (the stored one first, then those read in
  order of their size in memory, largest first); Ansor sorts by lines, so that columns change
  their meaning from candidate to candidate.
* Integer operations count the index arithmetic as it is declared: the generator hoists most of it.
* No columns for GPUs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.features.loops import BufferAccess, Floats, Index, Loop, Mask, Statement

LINE_BYTES = 64.0
BUFFERS = 5
CURVE_POINTS = 10

_CLASSES = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")
OPS: tuple[str, ...] = (
    *(f"float_{c}" for c in _CLASSES), *(f"int_{c}" for c in _CLASSES), "bool_op", "select_op",
)  # fmt: skip
PLACES: tuple[str, ...] = (
    "none", "inner_spatial", "middle_spatial", "outer_spatial", "inner_reduce", "middle_reduce",
    "outer_reduce", "mixed",
)  # fmt: skip
_ACCESS = ("read", "write", "update")
_REUSE = ("loop", "serial", "none")
_BLOCK: tuple[str, ...] = (
    *(f"acc_{k}" for k in _ACCESS), "bytes", "unique_bytes", "lines", "unique_lines",
    *(f"reuse_{k}" for k in _REUSE), "reuse_dis_iter", "reuse_dis_bytes", "reuse_ct",
    "bytes_d_reuse", "unique_bytes_d_reuse", "lines_d_reuse", "unique_lines_d_reuse", "stride",
)  # fmt: skip

STORE_FEATURES: tuple[str, ...] = (
    *OPS,
    *(
        f"{kind}_{what}"
        for kind in ("vec", "unroll", "parallel")
        for what in ("num", "prod", "len", *(f"type_{p}" for p in PLACES))
    ),
    *(f"B{b}.{name}" for b in range(BUFFERS) for name in _BLOCK),
    *(f"arith_intensity_curve_{i}" for i in range(CURVE_POINTS)),
    "alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod",
    "outer_prod", "num_loops", "auto_unroll_max_step",
)  # fmt: skip
"""Column names of a row."""

_RAW = np.array([
    "_type_" in n or n.rpartition(".")[2].startswith(("acc_", "reuse_loop", "reuse_serial",
                                                      "reuse_none"))
    for n in STORE_FEATURES
])  # fmt: skip


def store_features(
    statements: Sequence[Statement], count: int, *, raw: bool = False
) -> NDArray[Any]:
    """Features of the stored buffers of statements in execution order: float32, P x rows x F.

    Rows are the distinct stored buffers in the order of their first store. Operations add up over
    all stores to a buffer; everything else describes the last one.

    Args:
        statements: of one program.
        count: P.
        raw: values as they are, float64 (for tests and readers), not their logarithms.
    """
    regions = _Regions(statements, count)
    last: dict[Hashable, int] = {}
    for number, statement in enumerate(statements):
        last[statement.stored.buffer] = number
    rows = []
    for buffer, number in last.items():
        mine = [i for i, s in enumerate(statements) if s.stored.buffer == buffer]
        rows.append(_row(regions, mine, number))
    table = np.empty((len(rows), len(STORE_FEATURES), count))
    for r, columns in enumerate(rows):
        for c, column in enumerate(columns):
            table[r, c] = column
    if raw:
        return np.ascontiguousarray(table.transpose(2, 0, 1))
    small = table.astype(np.float32)
    logs = np.copysign(np.log2(1 + np.abs(small)), small)
    return np.ascontiguousarray(np.where(_RAW[:, None], small, logs).transpose(2, 0, 1))


@dataclass(eq=False)
class _LoopTotals:
    """What all statements inside a loop touch during one run of it."""

    bytes: Floats
    element_bytes: float
    entries: dict[Hashable, list[Floats]]


class _Regions:
    """Touched elements of every access at every loop of its statement."""

    def __init__(self, statements: Sequence[Statement], count: int) -> None:
        self.statements, self.count = statements, count
        self.one = np.ones(count)
        self.touched: list[list[list[Floats]]] = []
        self.widths: list[list[list[Floats]]] = []
        self.loops: dict[int, _LoopTotals] = {}
        for statement in statements:
            self._visit(statement)

    def _visit(self, statement: Statement) -> None:
        spans: dict[Hashable, Floats] = {}
        widths = [[self._width(a, d, spans) for d in range(len(a.shape))]
                  for a in statement.accesses]  # fmt: skip
        now = [self._product(w) for w in widths]
        levels = []
        for loop in reversed(statement.loops):
            span = spans.get(loop.axis, self.one) * loop.extent
            limit = statement.limits.get(loop.axis)
            spans[loop.axis] = span if limit is None else np.minimum(span, limit)
            now = list(now)
            for i, access in enumerate(statement.accesses):
                if access.depends_on(loop.axis):
                    widths[i] = [
                        self._width(access, d, spans) if _in(index, loop.axis) else widths[i][d]
                        for d, index in enumerate(access.indices)
                    ]
                    now[i] = self._product(widths[i])
            levels.append(now)
            self._enter(loop, statement, now)
        self.touched.append(levels[::-1])
        self.widths.append(widths)

    def _enter(self, loop: Loop, statement: Statement, touched: list[Floats]) -> None:
        known = self.loops.get(id(loop))
        if known is None:
            known = self.loops[id(loop)] = _LoopTotals(np.zeros(self.count), 0.0, {})
        for access, elements in zip(statement.accesses, touched, strict=True):
            known.bytes = known.bytes + elements * access.element_bytes
            known.element_bytes += access.element_bytes
            known.entries.setdefault(access.buffer, []).append(elements)

    def _width(self, access: BufferAccess, dim: int, spans: dict[Hashable, Floats]) -> Floats:
        index, extent = access.indices[dim], float(access.shape[dim])
        if index.coefficients is None:
            moving = any(axis in spans for axis in index.others)
            return np.full(self.count, extent) if moving else self.one
        width = self.one + index.spread if index.spread else self.one
        for axis, c in index.coefficients.items():
            if axis in spans:
                width = width + abs(c) * (spans[axis] - 1.0)
        return width if width is self.one else np.clip(width, 0.0, extent)

    def _product(self, widths: list[Floats]) -> Floats:
        out = self.one
        for width in widths:
            if width is not self.one:
                out = out * width
        return out


def _in(index: Index, axis: Hashable) -> bool:
    return axis in (index.others if index.coefficients is None else index.coefficients)


def _row(regions: _Regions, mine: list[int], number: int) -> list[Floats]:
    """All columns of one stored buffer, raw."""
    statement = regions.statements[number]
    one, zero = regions.one, np.zeros(regions.count)
    products = [_product_of(s.loops, one) for s in (regions.statements[i] for i in mine)]
    columns: list[Floats] = []
    for op in OPS:
        total = zero
        for i, product in zip(mine, products, strict=True):
            amount = regions.statements[i].ops.get(op, 0.0)
            if amount:
                total = total + amount * product
        columns.append(total)
    outer = products[mine.index(number)]
    for kind in ("vector", "unrolled", "parallel"):
        columns += _structure(statement.loops, kind, one, zero)
    kept = _kept(statement)
    for access in kept:
        columns += _buffer(regions, number, statement.accesses.index(access), outer)
    columns += [zero] * (len(_BLOCK) * (BUFFERS - len(kept)))
    columns += _curve(regions, number)
    columns += _allocation(statement, outer, one, zero)
    loops = zero
    for loop in statement.loops:
        loops = loops + (loop.extent > 1)
    return [*columns, outer, loops, zero if statement.unroll is None else statement.unroll]


def _product_of(loops: Sequence[Loop], one: Floats) -> Floats:
    out = one
    for loop in loops:
        out = out * loop.extent
    return out


def _kept(statement: Statement) -> list[BufferAccess]:
    """The stored buffer, then the largest of those read; the order depends on no candidate."""
    others = sorted(
        statement.accesses[1:], key=lambda a: -float(np.prod(a.shape)) * a.element_bytes
    )
    return [statement.accesses[0], *others][:BUFFERS]


def _structure(loops: Sequence[Loop], kind: str, one: Floats, zero: Floats) -> list[Floats]:
    """Number, product and innermost extent of the loops of a kind, and where they are."""
    number, product, inner = zero, zero, zero
    places = {p: zero for p in PLACES}
    depth = zero
    of_kind: list[tuple[Loop, Mask]] = []
    for loop in loops:
        exists = loop.extent > 1
        mask: Mask | None = getattr(loop, kind)
        if mask is not None:
            here = mask & exists
            if here.any():
                of_kind.append((loop, here))
                number = number + here
                product = np.where(here, np.maximum(product, 1.0) * loop.extent, product)
                inner = np.where(here, loop.extent, inner)
        depth = depth + exists
    if not of_kind:
        places["none"] = one
    else:
        _place(loops, of_kind, depth, number, places)
    return [number, product, inner, *(places[p] for p in PLACES)]


def _place(
    loops: Sequence[Loop],
    of_kind: list[tuple[Loop, Mask]],
    depth: Floats,
    number: Floats,
    places: dict[str, Floats],
) -> None:
    """One-hot place of the loops of a kind: of the only one there is, or mixed."""
    before = np.zeros(len(depth))
    masks = {id(loop): mask for loop, mask in of_kind}
    single = number == 1
    for loop in loops:
        exists = loop.extent > 1
        mask = masks.get(id(loop))
        if mask is not None:
            what = "reduce" if loop.reduce else "spatial"
            at = mask & single
            last = at & (before == depth - 1)
            first = at & (before == 0) & ~last
            middle = at & ~last & ~first
            for name, where in (("inner", last), ("outer", first), ("middle", middle)):
                key = f"{name}_{what}"
                places[key] = np.maximum(places[key], where)
        before = before + exists
    places["none"] = (number == 0).astype(np.float64)
    places["mixed"] = (number > 1).astype(np.float64)


def _buffer(regions: _Regions, number: int, at: int, outer: Floats) -> list[Floats]:
    """The columns of one buffer of a statement."""
    statement = regions.statements[number]
    access = statement.accesses[at]
    one, zero = regions.one, np.zeros(regions.count)
    size = float(access.element_bytes)
    total = outer * size
    unique = size * one
    if statement.loops:
        first = regions.loops[id(statement.loops[0])].entries[access.buffer][0]
        unique = first * size
    stride, lines = _stride_and_lines(statement, access, outer, one, zero)
    run = _run(access, regions.widths[number][at], one) * size
    unique_lines = np.maximum(1.0, unique / np.minimum(run, LINE_BYTES))
    kinds, distance, distance_bytes, times = _reuse(regions, number, access)
    reused = times > 0.5
    divisor = np.where(reused, np.maximum(times, 0.5), 0.5)
    moved = [total, unique, lines, unique_lines]
    return [
        *(one if access.kind == k else zero for k in _ACCESS),
        *moved,
        *kinds,
        distance,
        distance_bytes,
        times,
        *(m / divisor for m in moved),
        stride,
    ]


def _run(access: BufferAccess, widths: Sequence[Floats], one: Floats) -> Floats:
    """Contiguous elements of the region that a whole nest touches."""
    run, whole = one, np.ones(len(one), bool)
    for width, extent in zip(reversed(widths), reversed(access.shape), strict=True):
        run = np.where(whole, run * width, run)
        whole = whole & (width >= extent)
    return np.maximum(run, 1.0)


def _stride_and_lines(
    statement: Statement, access: BufferAccess, outer: Floats, one: Floats, zero: Floats
) -> tuple[Floats, Floats]:
    if not access.shape:
        return one, one
    spans: dict[Hashable, Floats] = {}
    stride, ratio, reported = zero, one, zero
    open_ = np.ones(len(one), bool)
    inside = np.zeros(len(one), bool)  # whether a loop that exists lies further in
    for loop in reversed(statement.loops):
        exists = loop.extent > 1
        inner = spans.get(loop.axis)
        coefficient = _stride(access, loop.axis)
        if coefficient:
            here = open_ & exists
            step = coefficient * inner if inner is not None else coefficient * one
            stride = np.where(here, step, stride)
            reported = np.where(here & ~inside, step, reported)
            open_ = open_ & ~exists
        else:
            ratio = np.where(open_, ratio * loop.extent, ratio)
        inside = inside | exists
        spans[loop.axis] = loop.extent if inner is None else inner * loop.extent
    lines = outer / ratio * np.minimum(1.0, stride * access.element_bytes / LINE_BYTES)
    return reported, np.maximum(1.0, lines)


def _stride(access: BufferAccess, axis: Hashable) -> float:
    """Elements between neighbours along an axis, by the last dimension that it moves."""
    inner = 1.0
    for index, extent in zip(reversed(access.indices), reversed(access.shape), strict=True):
        if _in(index, axis):
            known = index.coefficients
            return inner * (2.0 if known is None else abs(known[axis]))
        inner *= extent
    return 0.0


def _reuse(
    regions: _Regions, number: int, access: BufferAccess
) -> tuple[list[Floats], Floats, Floats, Floats]:
    """One-hot kind of reuse, its distance in iterations and in bytes, and how often."""
    statement = regions.statements[number]
    count = regions.count
    distance, bytes_ = np.ones(count), np.zeros(count)
    times = np.zeros(count)
    loop_kind, serial = np.zeros(count), np.zeros(count)
    open_ = np.ones(count, bool)
    inside = np.zeros(count, bool)
    for loop in reversed(statement.loops):
        exists = loop.extent > 1
        here = open_ & exists
        totals = regions.loops[id(loop)]
        if access.depends_on(loop.axis):
            distance = np.where(here, distance * loop.extent, distance)
            bytes_ = np.where(here, totals.bytes, bytes_)
            entries = totals.entries[access.buffer]
            if len(entries) > 1:
                least = np.minimum.reduce(entries)
                distance = np.where(here, least / loop.extent, distance)
                bytes_ = np.where(here, totals.bytes / loop.extent, bytes_)
                times = np.where(here, len(entries) - 1.0, times)
                serial = np.where(here, 1.0, serial)
                open_ = open_ & ~exists
        else:
            bytes_ = np.where(here & ~inside, totals.element_bytes, bytes_)
            times = np.where(here, loop.extent, times)
            loop_kind = np.where(here, 1.0, loop_kind)
            open_ = open_ & ~exists
        inside = inside | exists
        if not open_.any():
            break
    none = open_.astype(np.float64)
    distance, bytes_ = np.where(open_, 0.0, distance), np.where(open_, 0.0, bytes_)
    return [loop_kind, serial, none], distance, bytes_, times


def _curve(regions: _Regions, number: int) -> list[Floats]:
    """Arithmetic intensity (operations per byte) at 10 %, ..., 100 % of the operations."""
    statement = regions.statements[number]
    ops = sum(v for k, v in statement.ops.items() if k.startswith("float_") and k != "float_mad")
    count = regions.count
    if not ops or not statement.loops:
        return [np.zeros(count)] * CURVE_POINTS
    points, heights = [], []
    done = np.full(count, float(ops))
    for loop in reversed(statement.loops):
        done = done * loop.extent
        points.append(done)
        heights.append(done / np.maximum(regions.loops[id(loop)].bytes, 1.0))
    x, y = np.stack(points, axis=1), np.stack(heights, axis=1)
    share = np.arange(1, CURVE_POINTS + 1) / CURVE_POINTS
    want = x[:, -1:] * share
    upper = np.zeros(want.shape, np.int64)
    for level in range(x.shape[1] - 1):
        upper += x[:, level : level + 1] < want * (1 - 1e-12)
    lower = np.maximum(upper - 1, 0)
    index = np.arange(count)[:, None]
    x1, y1 = x[index, upper], y[index, upper]
    x0, y0 = x[index, lower], y[index, lower]
    gap = np.where(x1 > x0, x1 - x0, 1.0)
    value = np.where(upper > 0, y0 + (y1 - y0) * (want - x0) / gap, y1)
    return list(value.T)


def _allocation(statement: Statement, outer: Floats, one: Floats, zero: Floats) -> list[Floats]:
    """Bytes, elements moved, and the loops outside and inside of the allocation."""
    if statement.alloc is None:
        return [zero] * 4
    size, position = statement.alloc
    outside = _product_of(statement.loops[:position], one)
    elements = size / statement.stored.element_bytes
    return [size, elements * outside, outside, outer / outside]
