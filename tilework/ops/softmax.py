"""Softmax."""

from __future__ import annotations

from tilework import te
from tilework.ops.storage import computed


def softmax(x: te.Tensor, axis: int = -1) -> te.Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``."""
    axis %= x.ndim
    outer = [n for d, n in enumerate(x.shape) if d != axis] or [1]
    scalar = x.ndim == 1  # a reduction of a vector still has one element

    def at(idx: tuple[te.Expr, ...], k: te.Expr) -> tuple[te.Expr, ...]:
        rest = () if scalar else idx
        return (*rest[:axis], k, *rest[axis:])

    def others(idx: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
        rest = (*idx[:axis], *idx[axis + 1 :])
        return rest or (te.const(0, "int32"),)

    k = te.reduce_axis(x.shape[axis], "k")
    top = te.compute(
        outer, lambda *i: te.max(computed(x[at(i, k)]), axis=k), name="T_softmax_maxelem"
    )
    powers = te.compute(
        x.shape, lambda *i: te.exp(computed(x[i]) - top[others(i)]), name="T_softmax_exp"
    )
    k2 = te.reduce_axis(x.shape[axis], "k")
    total = te.compute(
        outer, lambda *i: te.sum(powers[at(i, k2)], axis=k2), name="T_softmax_expsum"
    )
    return te.compute(x.shape, lambda *i: powers[i] / total[others(i)], name="T_softmax_norm")
