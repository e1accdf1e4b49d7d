"""Interpolation along one dimension, from tables of positions and weights."""

from __future__ import annotations

from tilework import te
from tilework.index.extents import known
from tilework.ops.indices import index
from tilework.ops.storage import computed


def resample(
    x: te.Tensor, positions: te.Tensor, weights: te.Tensor, axis: int, *, unrolled: bool = True
) -> te.Tensor:
    """Weighted sums of a few elements along ``axis``.

    ``out[..., i, ...] = sum(weights[i, t] * x[..., positions[i, t], ...] for t)``

    Args:
        x: the tensor.
        positions: integers [extent of the result, taps]; one outside ``x`` counts as the nearest
            inside.
        weights: as many, of the type that is computed in.
        axis: the dimension.
        unrolled: write the sum out instead of declaring a reduction. That is for two taps or so:
            the stage may then be computed within its reader.
    """
    extent, taps = positions.shape[0], known(positions.shape[1])
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])

    def term(ax: tuple[te.Expr, ...], t: te.Expr) -> te.Expr:
        at = index(positions[(ax[axis], t)], x.shape[axis], negative=False)
        return computed(x[(*ax[:axis], at, *ax[axis + 1 :])]) * weights[(ax[axis], t)]

    if not unrolled:
        r = te.reduce_axis(taps, "tap")
        return te.compute(shape, lambda *ax: te.sum(term(ax, r), axis=r), name="T_resample")

    def body(*ax: te.Expr) -> te.Expr:
        total = term(ax, te.const(0, "int32"))
        for t in range(1, taps):
            total = total + term(ax, te.const(t, "int32"))
        return total

    return te.compute(shape, body, name="T_resample")
