"""Values of reductions over a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilework.dtypes import is_float
from tilework.te.expr import Axis, Binary, Expr, Reduce
from tilework.te.grid import Grid, held_type

# reductions of at most this many terms (pooling windows) run as a loop over the terms
_LOOP_LIMIT = 64

# extrema leave NaN out, as kernels do
_COMBINE: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.fmax, "min": np.fmin,
}  # fmt: skip


def loops_over_terms(reduce: Reduce) -> bool:
    """Whether `reduced` goes term by term, without an array of all terms."""
    terms = math.prod(a.extent for a in reduce.axes)
    product = reduce.kind == "sum" and len(_factors(reduce.source)) > 1
    return terms <= _LOOP_LIMIT and not product


def _factors(e: Expr) -> list[Expr]:
    if isinstance(e, Binary) and e.op == "*":
        return [*_factors(e.a), *_factors(e.b)]
    return [e]


def reduced(grid: Grid, reduce: Reduce, num_spatial: int) -> np.ndarray:
    """Value of a reduction over the grid; its reduce dimensions come out with extent 1."""
    if reduce.limits:
        return _ragged(grid, reduce)
    factors = _factors(reduce.source)
    if reduce.kind == "sum" and len(factors) > 1:
        return _sum_of_products(grid, [grid(f) for f in factors], num_spatial, reduce.axes)
    combine = _COMBINE[reduce.kind]
    if loops_over_terms(reduce):
        total: np.ndarray | None = None
        for term in grid.points(reduce.axes):
            value = np.asarray(term(reduce.source))
            total = value.copy() if total is None else combine(total, value)
        assert total is not None
        return _numbers(total, reduce)
    value = grid.full(reduce.source, reduce.axes)
    dims = tuple(grid.ranges[a].dim for a in reduce.axes)
    typed = {"dtype": value.dtype} if value.dtype.kind in "iu" else {}  # sums in their own type
    return _numbers(combine.reduce(value, axis=dims, keepdims=True, **typed), reduce)


def _numbers(value: Any, reduce: Reduce) -> np.ndarray:
    """``value``, with the neutral element where an extremum found nothing but NaN."""
    array = np.asarray(value)
    if reduce.kind in ("sum", "prod") or not is_float(reduce.dtype):
        return array
    return np.where(np.isnan(array), array.dtype.type(reduce.identity), array)


def _ragged(grid: Grid, reduce: Reduce) -> np.ndarray:
    """A reduction whose numbers of terms are data: term by term, each where it counts."""
    limits = {a: grid.lift(grid(limit)) for a, limit in reduce.limits}
    rest = tuple(a for a in reduce.axes if a not in limits)
    dims = tuple(grid.ranges[a].dim for a in rest)
    combine = _COMBINE[reduce.kind]
    identity = held_type(reduce.dtype, grid.dtype).type(reduce.identity)
    longest = [max(0, min(a.points, int(limit.max()))) for a, limit in limits.items()]
    total = np.full((1,) * grid.ndim, identity)
    for term in grid.points(tuple(limits), longest):
        counts = np.ones((1,) * grid.ndim, bool)
        for a, limit in limits.items():
            counts = counts & (term.ranges[a].start < limit)
        value = term.full(reduce.source, rest, counts)
        value = np.asarray(combine.reduce(value, axis=dims, keepdims=True)) if dims else value
        total = combine(total, np.where(counts, value, identity))
    return np.asarray(total)


def _sum_of_products(
    grid: Grid, factors: list[np.ndarray], num_spatial: int, axes: Sequence[Axis]
) -> np.ndarray:
    """Contract all factors over the reduce dimensions through matrix products."""
    # merge down to two operands; a factor that varies along few dimensions merges cheaply
    arrays = [grid.lift(f) for f in factors]
    arrays.sort(key=lambda a: a.size)
    while len(arrays) > 2:
        arrays = sorted([arrays[0] * arrays[1], *arrays[2:]], key=lambda a: a.size)
    y, x = arrays
    reduce_dims = [grid.ranges[a].dim for a in axes]
    silent = math.prod(
        grid.ranges[a].count
        for a, d in zip(axes, reduce_dims, strict=True)
        if x.shape[d] == y.shape[d] == 1
    )
    only_x = tuple(d for d in reduce_dims if x.shape[d] > 1 and y.shape[d] == 1)
    only_y = tuple(d for d in reduce_dims if y.shape[d] > 1 and x.shape[d] == 1)
    x, y = (v.sum(axis=d, keepdims=True) if d else v for v, d in ((x, only_x), (y, only_y)))
    k = [d for d in reduce_dims if x.shape[d] > 1]
    spatial = range(num_spatial)
    both = [d for d in spatial if x.shape[d] > 1 and y.shape[d] > 1]
    m = [d for d in spatial if x.shape[d] > 1 and d not in both]
    n = [d for d in spatial if y.shape[d] > 1 and d not in both]

    def matrix(v: np.ndarray, rows: list[int], columns: list[int]) -> np.ndarray:
        sizes = [math.prod(v.shape[d] for d in dims) for dims in (both, rows, columns)]
        rest = [d for d in range(v.ndim) if d not in (*both, *rows, *columns)]
        return v.transpose(*both, *rows, *columns, *rest).reshape(sizes)

    product = np.matmul(matrix(x, m, k), matrix(y, k, n))
    if silent > 1:
        product = product * product.dtype.type(silent)
    shape = [*(x.shape[d] for d in (*both, *m)), *(y.shape[d] for d in n)]
    order = [*both, *m, *n]
    product = product.reshape(shape).transpose([order.index(d) for d in sorted(order)])
    lengths = [max(x.shape[d], y.shape[d]) if d in order else 1 for d in range(x.ndim)]
    return np.asarray(product.reshape(lengths))
