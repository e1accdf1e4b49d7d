"""Normalisation: layer, instance, group, root mean square, local response."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilework import te
from tilework.ops.reductions import arg_extremum, each, log_sum_exp, reduced_index, total
from tilework.ops.scalars import share
from tilework.ops.storage import computed


def normalize(
    x: te.Tensor, axes: Sequence[int], epsilon: float, *, center: bool = True
) -> te.Tensor:
    """``(x - mean) / sqrt(variance + epsilon)`` over the dimensions ``axes``.

    Two passes, the second over differences from the mean: what a single pass saves it would lose
    in digits. Without ``center`` the mean counts as 0: root-mean-square normalisation.

    Args:
        x: the data.
        axes: dimensions, counted from the front, in order.
        epsilon: what is added to the variance.
        center: whether the mean is subtracted.
    """
    part = share(math.prod(x.shape[d] for d in axes), computed(x[(0,) * x.ndim]).dtype)
    mean: te.Tensor | None = None
    if center:
        mean = each(total(x, "sum", axes, True, name="norm_sum"), lambda v: v * part, "norm_mean")

    def difference(v: te.Expr, ax: Sequence[te.Expr]) -> te.Expr:
        return v if mean is None else v - mean[reduced_index(ax, axes)]

    def square(v: te.Expr, ax: tuple[te.Expr, ...]) -> te.Expr:
        d = difference(v, ax)
        return d * d

    squares = total(x, "sum", axes, True, square, "norm_squares", positions=True)
    inverse = each(squares, lambda v: te.rsqrt(v * part + epsilon), "norm_inverse")
    return te.compute(
        x.shape,
        lambda *ax: difference(computed(x[ax]), ax) * inverse[reduced_index(ax, axes)],
        name="norm",
    )


def group_norm(x: te.Tensor, groups: int, epsilon: float) -> te.Tensor:
    """Normalise each group of channels of feature maps [N, ..., C] over positions and channels.

    Sums run over positions first, channel by channel: elements that are neighbours in memory.
    """
    _, *size, c = x.shape
    if c % groups:
        raise ValueError(f"group_norm: {groups} groups do not divide {c} channels")
    part = share(math.prod(size) * (c // groups), computed(x[(0,) * x.ndim]).dtype)
    spatial = range(1, x.ndim - 1)

    def at_channel(ax: Sequence[te.Expr]) -> tuple[te.Expr, te.Expr]:
        return ax[0], ax[-1]

    mean = _shared(
        total(x, "sum", spatial, False, name="norm_sum"), groups, lambda v: v * part, "norm_mean"
    )

    def square(v: te.Expr, ax: tuple[te.Expr, ...]) -> te.Expr:
        d = v - mean[at_channel(ax)]
        return d * d

    inverse = _shared(
        total(x, "sum", spatial, False, square, "norm_squares", positions=True),
        groups,
        lambda v: te.rsqrt(v * part + epsilon),
        "norm_inverse",
    )
    return te.compute(
        x.shape,
        lambda *ax: (computed(x[ax]) - mean[at_channel(ax)]) * inverse[at_channel(ax)],
        name="norm",
    )


def _shared(
    sums: te.Tensor, groups: int, function: Callable[[te.Expr], te.Expr], name: str
) -> te.Tensor:
    """``function`` of the sum over each group of channels, for each channel: [N, C] -> [N, C]."""
    n, c = sums.shape
    width = c // groups
    if width == 1:
        return each(sums, function, name)
    k = te.reduce_axis(width, "k")
    group = te.compute(
        (n, groups), lambda i, g: te.sum(sums[i, g * width + k], axis=k), name=f"{name}_group"
    )
    value = each(group, function, f"{name}_value")
    return te.compute((n, c), lambda i, j: value[i, j // width], name=name)


def local_response_norm(
    x: te.Tensor, axis: int, size: int, alpha: float, beta: float, bias: float
) -> te.Tensor:
    """``x / (bias + alpha / size * s) ** beta``, with s the sum of squares of near channels.

    Near are ``size`` channels along ``axis``: the element's own, as many before as behind it, and
    one more behind if ``size`` is even.
    """
    before, after = (size - 1) // 2, size // 2
    extent = x.shape[axis]
    k = te.reduce_axis(size, "k")

    def summed(*ax: te.Expr) -> te.Expr:
        channel = ax[axis] + k - before
        value = computed(x[(*ax[:axis], channel, *ax[axis + 1 :])])
        inside: list[te.Expr] = []
        if before:
            inside.append(channel >= 0)
        if after:
            inside.append(channel < extent)
        square = value * value
        zero = te.const(0.0, square.dtype)
        return te.sum(te.if_then_else(te.all(*inside), square, zero) if inside else square, axis=k)

    squares = te.compute(x.shape, summed, name="lrn_squares")

    def body(*ax: te.Expr) -> te.Expr:
        scale = squares[ax] * (alpha / size) + bias
        value = computed(x[ax])
        if beta == 0.75:  # what networks use: roots instead of a power
            root = te.sqrt(scale)
            return value / (root * te.sqrt(root))
        if beta == 0.5:
            return value / te.sqrt(scale)
        return value / te.pow(scale, te.const(beta, scale.dtype))

    return te.compute(x.shape, body, name="lrn")


def log_softmax(x: te.Tensor, axis: int) -> te.Tensor:
    """Logarithm of `softmax` along ``axis``, with the logarithm of small results exact.

    As in `softmax`, all results are NaN where an element is infinity.
    """
    total_ = log_sum_exp(x, [axis], True, infinite=False)
    return te.compute(
        x.shape,
        lambda *ax: computed(x[ax]) - total_[reduced_index(ax, [axis])],
        name="T_log_softmax",
    )


def hardmax(x: te.Tensor, axis: int) -> te.Tensor:
    """1 at the first largest element along ``axis``, 0 elsewhere, and where it is NaN."""
    where = arg_extremum(x, "max", axis, True)

    def body(*ax: te.Expr) -> te.Expr:
        hit = te.equal(te.cast("int64", ax[axis]), where[reduced_index(ax, [axis])])
        value = computed(x[ax])
        one, zero = te.const(1.0, value.dtype), te.const(0.0, value.dtype)
        return te.select(te.all(hit, te.equal(value, value)), one, zero)

    return te.compute(x.shape, body, name="T_hardmax")
