"""Operators along one dimension whose elements have an order: prefix sums, the k largest."""

from __future__ import annotations

import math

from tilework import te
from tilework.dtypes import is_float
from tilework.index.symbols import range_of
from tilework.ops.elementwise import axis_names
from tilework.ops.storage import computed

# above this many elements a prefix is a sum of sums of blocks, so that its work is n * sqrt(n)
_WHOLE = 64
_KINDS = ("sum", "prod")


def cumulative(
    x: te.Tensor, axis: int, kind: str = "sum", *, exclusive: bool = False, reverse: bool = False
) -> te.Tensor:
    """Sums (products) of all elements up to each one along ``axis``.

    Args:
        x: the tensor.
        axis: the dimension.
        kind: ``"sum"`` or ``"prod"``.
        exclusive: leave the element itself out.
        reverse: of all elements from each one on, instead.
    """
    if kind not in _KINDS:
        raise ValueError(f"unknown kind '{kind}'; known: {', '.join(_KINDS)}")
    extent = x.shape[axis]
    names = axis_names(x.ndim)
    most = range_of(extent)[1]
    block = extent if most <= _WHOLE else math.isqrt(most - 1) + 1
    blocks = -(-extent // block)
    neutral = te.const(1 if kind == "prod" else 0, computed(x[(0,) * x.ndim]).dtype)
    reduce = te.prod if kind == "prod" else te.sum

    def at(ax: tuple[te.Expr, ...], position: te.Expr) -> te.Expr:
        """The element that comes ``position``-th in the direction of summation."""
        return computed(x[(*ax[:axis], extent - 1 - position if reverse else position,
                           *ax[axis + 1 :])])  # fmt: skip

    def before(k: te.Expr, i: te.Expr) -> te.Expr:
        return k < i if exclusive else k <= i

    r = te.reduce_axis(block, "r")
    if blocks == 1:

        def whole(*ax: te.Expr) -> te.Expr:
            i = extent - 1 - ax[axis] if reverse else ax[axis]
            return reduce(te.select(before(r, i), at(ax, r), neutral), axis=r)

        return te.compute(x.shape, whole, name=f"T_cum{kind}", axis_names=names)

    ragged = blocks * block != extent
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]

    def guarded(ax: tuple[te.Expr, ...], b: te.Expr, k: te.Expr) -> te.Expr:
        value = at(ax, b * block + k)
        if not ragged:
            return value
        return te.if_then_else(b * block + k < extent, value, neutral)

    def within(*ax: te.Expr) -> te.Expr:
        b, i, point = ax[axis], ax[axis + 1], (*ax[: axis + 1], *ax[axis + 2 :])
        return reduce(te.select(before(r, i), guarded(point, b, r), neutral), axis=r)

    local = te.compute(
        (*outer, blocks, block, *inner),
        within,
        name=f"cum{kind}_within",
        axis_names=axis_names(x.ndim + 1),
    )
    s = te.reduce_axis(block, "s")
    total = te.compute(
        (*outer, blocks, *inner),
        lambda *ax: reduce(guarded(ax, ax[axis], s), axis=s),
        name=f"cum{kind}_blocks",
        axis_names=names,
    )
    c = te.reduce_axis(blocks, "c")
    carry = te.compute(
        (*outer, blocks, *inner),
        lambda *ax: reduce(
            te.select(c < ax[axis], total[(*ax[:axis], c, *ax[axis + 1 :])], neutral), axis=c
        ),
        name=f"cum{kind}_carry",
        axis_names=names,
    )

    def joined(*ax: te.Expr) -> te.Expr:
        i = extent - 1 - ax[axis] if reverse else ax[axis]
        b = i // block
        one = local[(*ax[:axis], b, i % block, *ax[axis + 1 :])]
        rest = carry[(*ax[:axis], b, *ax[axis + 1 :])]
        return one * rest if kind == "prod" else one + rest

    return te.compute(x.shape, joined, name=f"T_cum{kind}", axis_names=names)


def _better(a: te.Expr, b: te.Expr, largest: bool) -> te.Expr:
    """Whether ``a`` comes before ``b`` wherever both stand: any number comes before NaN."""
    if not is_float(a.dtype):
        return a > b if largest else a < b
    not_worse = a <= b if largest else a >= b  # does not hold of NaN, either
    return te.all(te.equal(a, a), te.logical_not(not_worse))


def top_k(x: te.Tensor, k: int, axis: int, *, largest: bool = True) -> te.Tensor:
    """Indices (int64) of the ``k`` largest (smallest) elements along ``axis``, best first.

    Of equal elements the one with the lower index comes first; NaN comes after all numbers. The
    rank of an element is the number of elements that come before it; the index at place r is that
    of the element of rank r.
    """
    extent = x.shape[axis]
    names = axis_names(x.ndim)
    j = te.reduce_axis(extent, "j")

    def ranked(*ax: te.Expr) -> te.Expr:
        mine, other = computed(x[ax]), computed(x[(*ax[:axis], j, *ax[axis + 1 :])])
        # who comes first wins unless the other one is better, so that ranks are distinct
        early = te.all(j < ax[axis], te.logical_not(_better(mine, other, largest)))
        late = te.all(j > ax[axis], _better(other, mine, largest))
        one, zero = te.const(1, "int32"), te.const(0, "int32")
        return te.sum(te.select(te.any(early, late), one, zero), axis=j)

    rank = te.compute(x.shape, ranked, name="top_k_rank", axis_names=names)
    i = te.reduce_axis(extent, "i")

    def placed(*ax: te.Expr) -> te.Expr:
        here = te.equal(rank[(*ax[:axis], i, *ax[axis + 1 :])], ax[axis])
        return te.max(te.select(here, i, te.const(0, "int32")), axis=i)

    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    place = te.compute(shape, placed, name="top_k_place", axis_names=names)
    return te.compute(
        shape, lambda *ax: te.cast("int64", place[ax]), name="T_top_k", axis_names=names
    )
