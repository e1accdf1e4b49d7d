"""Operators that only move data."""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te
from tilework.index.extents import Extent
from tilework.ops.storage import computed


def transpose(x: te.Tensor, perm: Sequence[int]) -> te.Tensor:
    """Reorder dimensions: dimension d of the result is dimension ``perm[d]`` of ``x``."""
    inverse = [perm.index(d) for d in range(x.ndim)]
    return te.compute(
        [x.shape[p] for p in perm],
        lambda *ax: x[tuple(ax[i] for i in inverse)],
        name="T_transpose",
    )


def concatenate(parts: Sequence[te.Tensor], axis: int) -> te.Tensor:
    """Join ``parts`` along dimension ``axis``; their other extents agree."""
    axis %= parts[0].ndim
    ends: list[Extent] = []
    for p in parts:
        ends.append((ends[-1] if ends else 0) + p.shape[axis])

    def body(*ax: te.Expr) -> te.Expr:
        def read(i: int) -> te.Expr:
            start = ends[i] - parts[i].shape[axis]
            element = parts[i][(*ax[:axis], ax[axis] - start, *ax[axis + 1 :])]
            return element if len({p.dtype for p in parts}) == 1 else computed(element)

        value = read(len(parts) - 1)
        for i in range(len(parts) - 2, -1, -1):
            value = te.if_then_else(ax[axis] < ends[i], read(i), value)
        return value

    shape = list(parts[0].shape)
    shape[axis] = ends[-1]
    return te.compute(shape, body, name="T_concat")
