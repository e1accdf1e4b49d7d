"""Operators along one dimension whose elements have an order: prefix sums, the k largest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilework import te
from tilework.dtypes import is_float
from tilework.index.extents import Extent
from tilework.index.symbols import range_of
from tilework.ops.storage import computed
from tilework.te.expr import reduce_identity

# above this many elements a prefix is a sum of sums of blocks: of n elements in blocks of b, its
# work is n * b within them and (n / b)^2 among them, least at the cube root of 2 n
_WHOLE, _BLOCKS_OF = 64, 16
_KINDS = ("sum", "prod")
_GROUPS, _FEWEST_GROUPS, _FEW_IN_GROUP = 2, 64, 4
_VECTOR, _COMPARED = 16, 3
_USUAL = 1.4
"""Candidates for each of the k: of ``2 k`` groups ``-2 log(1 - 1 / 2)`` on average."""
_NOWHERE = te.const(reduce_identity("max", "int32"), "int32")
"""In place of an index where there is none; negative."""


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
    most = range_of(extent)[1]
    block = extent
    if most > _WHOLE:
        block = _BLOCKS_OF * max(round((2 * most) ** (1 / 3) / _BLOCKS_OF), 1)
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

        return te.compute(x.shape, whole, name=f"T_cum{kind}")

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

    local = te.compute((*outer, blocks, block, *inner), within, name=f"cum{kind}_within")
    s = te.reduce_axis(block, "s")
    total = te.compute(
        (*outer, blocks, *inner),
        lambda *ax: reduce(guarded(ax, ax[axis], s), axis=s),
        name=f"cum{kind}_blocks",
    )
    c = te.reduce_axis(blocks, "c")
    carry = te.compute(
        (*outer, blocks, *inner),
        lambda *ax: reduce(
            te.select(c < ax[axis], total[(*ax[:axis], c, *ax[axis + 1 :])], neutral), axis=c
        ),
        name=f"cum{kind}_carry",
    )

    def joined(*ax: te.Expr) -> te.Expr:
        i = extent - 1 - ax[axis] if reverse else ax[axis]
        b = i // block
        one = local[(*ax[:axis], b, i % block, *ax[axis + 1 :])]
        rest = carry[(*ax[:axis], b, *ax[axis + 1 :])]
        return one * rest if kind == "prod" else one + rest

    return te.compute(x.shape, joined, name=f"T_cum{kind}")


def _better(a: te.Expr, b: te.Expr, largest: bool) -> te.Expr:
    """Whether ``a`` comes before ``b`` wherever both stand: any number comes before NaN."""
    if not is_float(a.dtype):
        return a > b if largest else a < b
    not_worse = a <= b if largest else a >= b  # does not hold of NaN, either
    return te.all(te.equal(a, a), te.logical_not(not_worse))


def top_k(x: te.Tensor, k: Extent, axis: int, *, largest: bool = True) -> te.Tensor:
    """Indices (int64) of the ``k`` largest (smallest) elements along ``axis``, best first.

    Of equal elements the one with the lower index comes first; NaN comes after all numbers. The
    rank of an element is the number of elements that come before it; the index at place r is that
    of the element of rank r.

    Where there are many elements and k is small, those alone are ranked that may be among the k:
    of `_GROUPS * k` groups of elements, the best k of their best ones are as good as the one of
    rank k - 1 at least. How many there are is data: about 1.4 k of numbers in any order, all where
    all are equal.
    """
    groups = max(_GROUPS * range_of(k)[1], _FEWEST_GROUPS)
    if not isinstance(k, int) or k == 0 or range_of(x.shape[axis])[0] < _FEW_IN_GROUP * groups:
        return _ranked(x, k, axis, largest)
    return _selected(x, k, axis, groups, largest)


def _ranked(x: te.Tensor, k: Extent, axis: int, largest: bool) -> te.Tensor:
    """`top_k` by the ranks of all elements."""
    rank = _ranks(x, axis, largest)

    def placed(ax: _Point, i: te.Expr) -> te.Expr:
        here = te.equal(ax[axis], rank[_moved(ax, axis, i)])
        return te.select(here, i, _NOWHERE)

    return _places(x, k, axis, x.shape[axis], placed)


def _selected(x: te.Tensor, k: int, axis: int, groups: int, largest: bool) -> te.Tensor:
    """`top_k` by the ranks of the elements that may be among the k."""
    extent = x.shape[axis]
    value = computed(x[(0,) * x.ndim])
    kind = "max" if largest else "min"
    worst = te.const(reduce_identity(kind, value.dtype), value.dtype)
    m = te.reduce_axis(extent // groups, "m")  # a rest of elements is in no group

    def best(*ax: te.Expr) -> te.Expr:
        return te.reduced(kind, computed(x[_moved(ax, axis, m * groups + ax[axis])]), axis=m)

    def resized(n: Extent) -> tuple[Extent, ...]:
        return (*x.shape[:axis], n, *x.shape[axis + 1 :])

    bests = te.compute(resized(groups), best, name="top_k_best")
    rank = _ranks(bests, axis, largest)
    g = te.reduce_axis(groups, "g")

    def bounded(*ax: te.Expr) -> te.Expr:
        at = _moved(ax, axis, g)
        return te.reduced(kind, te.select(te.equal(rank[at], k - 1), bests[at], worst), axis=g)

    bound = te.compute(resized(1), bounded, name="top_k_bound")

    def chosen(*ax: te.Expr) -> te.Expr:
        least = bound[_moved(ax, axis, te.const(0, "int32"))]
        unknown = te.equal(least, worst)  # that of a group of NaN, too
        out = te.logical_not(_better(least, computed(x[ax]), largest))
        return te.select(te.any(unknown, out), te.const(1, "int32"), te.const(0, "int32"))

    choice = te.compute(x.shape, chosen, name="top_k_choice")
    count = cumulative(choice, axis)
    e = te.reduce_axis(extent, "e")

    def slotted(*ax: te.Expr) -> te.Expr:
        at = _moved(ax, axis, e)
        place = te.select(choice[at] > 0, count[at] - 1, _NOWHERE)
        return te.max(te.select(te.equal(ax[axis], place), e, _NOWHERE), axis=e)

    slot = te.compute(x.shape, slotted, name="top_k_slot")

    def candidate(*ax: te.Expr) -> te.Expr:
        at = te.maximum(slot[ax], 0)
        return computed(x[_moved(ax, axis, at)])

    candidates = te.compute(x.shape, candidate, name="top_k_candidate")
    last = te.compute(
        resized(1),
        lambda *ax: count[_moved(ax, axis, extent - 1 + te.const(0, "int32"))],
        name="top_k_count",
    )
    order = _ranks(candidates, axis, largest, last, _USUAL * k)

    def placed(ax: _Point, i: te.Expr) -> te.Expr:
        at = _moved(ax, axis, i)
        place = te.select(slot[at] >= 0, order[at], _NOWHERE)
        return te.select(te.equal(ax[axis], place), slot[at], _NOWHERE)

    return _places(x, k, axis, extent, placed)


_Point = tuple[te.Expr, ...]


def _moved(ax: _Point, axis: int, to: te.Expr) -> _Point:
    """A point that is elsewhere along an axis."""
    return (*ax[:axis], to, *ax[axis + 1 :])


def _ranks(
    x: te.Tensor, axis: int, largest: bool, count: te.Tensor | None = None, few: float = 0
) -> te.Tensor:
    """How many elements along an axis come before each.

    Of the first ``count`` if it is given, which are ``few`` as a rule; ranks of others mean
    nothing.
    """
    j = te.reduce_axis(x.shape[axis], "j")

    def ranked(*ax: te.Expr) -> te.Expr:
        mine, other = computed(x[ax]), computed(x[_moved(ax, axis, j)])
        # who comes first wins unless the other one is better, so that ranks are distinct
        early = te.all(j < ax[axis], te.logical_not(_better(mine, other, largest)))
        late = te.all(j > ax[axis], _better(other, mine, largest))
        one, zero = te.const(1, "int32"), te.const(0, "int32")
        counts = te.select(te.any(early, late), one, zero)
        if count is None:
            return te.sum(counts, axis=j)
        some = count[_moved(ax, axis, zero)]
        first = ax[axis] // _VECTOR * _VECTOR
        return te.sum(counts, axis=j, limits={j: te.select(first < some, some, zero)})

    attrs: dict[str, Any] = {}
    if count is not None:  # of data, so that operations are told here
        others = math.prod(range_of(n)[1] for d, n in enumerate(x.shape) if d != axis)
        terms = {"j": few**2 / range_of(x.shape[axis])[1]}
        attrs = {"terms": terms, "FLOP": _COMPARED * few**2 * float(others)}
    return te.compute(x.shape, ranked, "top_k_rank", attrs)


def _places(
    x: te.Tensor,
    k: Extent,
    axis: int,
    extent: Extent,
    placed: Callable[[_Point, te.Expr], te.Expr],
) -> te.Tensor:
    """Indices by the places that ``placed`` says of each of some elements."""
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    i = te.reduce_axis(extent, "i")
    place = te.compute(shape, lambda *ax: te.max(placed(ax, i), axis=i), name="top_k_place")
    return te.compute(shape, lambda *ax: te.cast("int64", place[ax]), name="T_top_k")
