"""Reductions over any dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilework import te
from tilework.dtypes import finite_range, is_float, is_unsigned
from tilework.index.extents import Extent
from tilework.ops.scalars import literal
from tilework.ops.storage import computed

_Map = Callable[[te.Expr], te.Expr]


def _same(v: te.Expr) -> te.Expr:
    return v


def _square(v: te.Expr) -> te.Expr:
    return v * v


# kind of the sum or extremum, what is done to each element, what is done to the result
_PLAIN: dict[str, tuple[str, _Map, _Map | None]] = {
    "sum": ("sum", _same, None),
    "prod": ("prod", _same, None),
    "max": ("max", _same, None),
    "min": ("min", _same, None),
    "l1": ("sum", te.abs, None),
    "l2": ("sum", _square, te.sqrt),
    "sum_square": ("sum", _square, None),
    "log_sum": ("sum", _same, te.log),
}

REDUCTIONS = (*_PLAIN, "mean", "log_sum_exp")


def reduce(x: te.Tensor, kind: str, axes: Sequence[int], keepdims: bool) -> te.Tensor:
    """Reduce ``x`` over the dimensions ``axes``.

    Args:
        x: the data.
        kind: one of `REDUCTIONS`.
        axes: dimensions, counted from the front, each once, in order; without any, each element
            is reduced alone.
        keepdims: whether reduced dimensions stay, with one element.

    Raises:
        ValueError: no such kind of reduction.
    """
    if kind == "mean":
        return mean(x, axes, keepdims)
    if kind == "log_sum_exp":
        return log_sum_exp(x, axes, keepdims)
    if kind not in _PLAIN:
        raise ValueError(f"unknown reduction '{kind}'; known: {', '.join(REDUCTIONS)}")
    how, before, after = _PLAIN[kind]
    if after is None:
        return total(x, how, axes, keepdims, before, f"T_{kind}")
    inner = total(x, how, axes, keepdims, before, f"T_{kind}_sum")
    return each(inner, after, f"T_{kind}")


def total(
    x: te.Tensor,
    kind: str,
    axes: Sequence[int],
    keepdims: bool,
    element: Callable[..., te.Expr] = _same,
    name: str = "T_reduce",
    *,
    positions: bool = False,
) -> te.Tensor:
    """``kind`` (``sum``, ``prod``, ``max``, ``min``) of ``element`` of each element of ``x``.

    With ``positions``, ``element`` gets the indices in ``x`` as well, as a second argument. The
    other arguments are those of `reduce`.
    """
    taps = {d: te.reduce_axis(x.shape[d], f"k{d}") for d in axes}
    shape = reduced_shape(x.shape, axes, keepdims)

    def body(*ax: te.Expr) -> te.Expr:
        free = iter(ax)
        where: list[te.Expr] = []
        for d in range(x.ndim):
            if keepdims or d not in taps:
                i = next(free)
                where.append(taps.get(d, i))
            else:
                where.append(taps[d])
        value = computed(x[tuple(where)])
        source = element(value, tuple(where)) if positions else element(value)
        return te.reduced(kind, source, axis=list(taps.values())) if taps else source

    return te.compute(shape, body, name=name)


def reduced_shape(
    shape: Sequence[Extent], axes: Sequence[int], keepdims: bool
) -> tuple[Extent, ...]:
    """Extents after a reduction over ``axes``."""
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def reduced_index(ax: Sequence[te.Expr], axes: Sequence[int]) -> tuple[te.Expr, ...]:
    """Where the element at ``at`` finds its own group's result of a reduction that keeps axes."""
    return tuple(te.const(0, "int32") if d in axes else i for d, i in enumerate(ax))


def each(x: te.Tensor, function: _Map, name: str) -> te.Tensor:
    """``function`` of each element."""
    return te.compute(x.shape, lambda *ax: function(computed(x[ax])), name=name)


def mean(x: te.Tensor, axes: Sequence[int], keepdims: bool, name: str = "T_mean") -> te.Tensor:
    """Arithmetic mean; of integers, rounded towards zero, and summed in 64 bits."""
    count = math.prod(x.shape[d] for d in axes)
    if is_float(x.dtype):
        inner = total(x, "sum", axes, keepdims, name=f"{name}_sum")
        return each(inner, lambda v: v / literal(count, v.dtype), name)
    wide = "uint64" if is_unsigned(x.dtype) else "int64"
    inner = total(x, "sum", axes, keepdims, lambda v: te.cast(wide, v), f"{name}_sum")
    share = literal(count, wide)
    return each(inner, lambda v: te.cast(x.dtype, te.truncdiv(v, share)), name)


def log_sum_exp(
    x: te.Tensor, axes: Sequence[int], keepdims: bool, *, infinite: bool = True
) -> te.Tensor:
    """``log(sum(exp(x)))`` without overflow: the largest element is taken out first.

    Where an element is infinity, so is the result; it is NaN without ``infinite``.
    """
    top = total(x, "max", axes, True, name="T_log_sum_exp_max")
    low, high = finite_range(computed(x[(0,) * x.ndim]).dtype)

    def shift(ax: Sequence[te.Expr]) -> te.Expr:
        # an infinity must not be taken from itself
        most = te.maximum(computed(top[reduced_index(ax, axes)]), low)
        return te.minimum(most, high) if infinite else most

    inner = total(
        x,
        "sum",
        axes,
        keepdims,
        lambda v, ax: te.exp(v - shift(ax)),
        "T_log_sum_exp_sum",
        positions=True,
    )
    return te.compute(
        inner.shape,
        lambda *ax: te.log(inner[ax]) + computed(top[_at_kept(ax, axes, x.ndim, keepdims)]),
        name="T_log_sum_exp",
    )


def arg_extremum(
    x: te.Tensor, kind: str, axis: int, keepdims: bool, last: bool = False
) -> te.Tensor:
    """Position along ``axis`` of the largest or smallest element, as int64.

    NaN counts as no number, with one exception, which is ONNX Runtime's: where the first element
    along ``axis`` is NaN, the position is 0.

    Args:
        x: the data.
        kind: ``"max"`` or ``"min"``.
        axis: dimension, counted from the front.
        keepdims: whether that dimension stays, with one element.
        last: which of several equal elements is meant; by default the first.
    """
    best = total(x, kind, [axis], True, name=f"T_arg{kind}_value")
    nowhere = literal(-1 if last else x.shape[axis], "int32")

    def position(v: te.Expr, ax: tuple[te.Expr, ...]) -> te.Expr:
        hit = te.equal(v, computed(best[reduced_index(ax, [axis])]))
        return te.select(hit, ax[axis], nowhere)

    place = total(
        x,
        "max" if last else "min",
        [axis],
        keepdims,
        position,
        f"T_arg{kind}_position",
        positions=True,
    )

    def checked(*ax: te.Expr) -> te.Expr:
        if not is_float(x.dtype):
            return te.cast("int64", place[ax])
        # also where nothing is found: an axis of NaN alone begins with one
        first = x[_at_kept(ax, [axis], x.ndim, keepdims)]
        none = te.isnan(computed(first))
        return te.cast("int64", te.select(none, te.const(0, "int32"), place[ax]))

    return te.compute(place.shape, checked, name=f"T_arg{kind}")


def _at_kept(
    ax: Sequence[te.Expr], axes: Sequence[int], ndim: int, keepdims: bool
) -> tuple[te.Expr, ...]:
    """Position in a result with all dimensions of a position in one with ``keepdims``."""
    if keepdims:
        return tuple(ax)
    free = iter(ax)
    return tuple(te.const(0, "int32") if d in axes else next(free) for d in range(ndim))
