"""Operators that write at positions which are data, turned round: each output asks who writes it.

Without a reduction the last writer wins. An index outside its dimension writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilework import te
from tilework.index.extents import Extent
from tilework.ops.indices import from_start, index, matches
from tilework.te.expr import reduce_identity

REDUCTIONS = ("none", "add", "mul", "max", "min")
_OF_PREDICATES = {"add": "max", "mul": "min"}
_Combine = Callable[[te.Expr, te.Expr], te.Expr]
_COMBINE: dict[str, tuple[str, _Combine]] = {
    "add": ("sum", lambda a, b: a + b),
    "mul": ("prod", lambda a, b: a * b),
    "max": ("max", te.maximum),
    "min": ("min", te.minimum),
}


def scatter_elements(
    x: te.Tensor, indices: te.Tensor, updates: te.Tensor, axis: int, reduction: str = "none"
) -> te.Tensor:
    """``out = x``, then ``out[..., indices[p], ...] = updates[p]`` along ``axis`` for every p.

    Args:
        x: the tensor to start from.
        indices: where along ``axis``; negative ones count from the end. Its other extents may be
            smaller than those of ``x``.
        updates: as many as indices.
        axis: of the dimension that the indices mean.
        reduction: how an update joins what is there: one of `REDUCTIONS`.
    """
    inside = [d for d in range(x.ndim) if d != axis and indices.shape[d] != x.shape[d]]

    def writer(k: te.Expr, ax: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
        return (*ax[:axis], k, *ax[axis + 1 :])

    def writes(k: te.Expr, ax: tuple[te.Expr, ...]) -> te.Expr:
        place = from_start(indices[writer(k, ax)], x.shape[axis])
        return te.equal(te.cast(place.dtype, ax[axis]), place)

    def guard(ax: tuple[te.Expr, ...]) -> te.Expr | None:
        return te.all(*(ax[d] < indices.shape[d] for d in inside)) if inside else None

    def update(k: te.Expr, ax: tuple[te.Expr, ...]) -> te.Expr:
        return updates[writer(k, ax)]

    return _scattered(x, indices.shape[axis], writes, update, guard, reduction)


def scatter_rows(
    x: te.Tensor,
    indices: te.Tensor,
    updates: te.Tensor,
    extents: Sequence[Extent],
    reduction: str = "none",
) -> te.Tensor:
    """``out = x``, then the row at position ``indices[p]`` is written by row p of ``updates``.

    Args:
        x: rows [P, R], where P counts the positions in dimensions of ``extents``.
        indices: positions [J, number of extents]; negative numbers count from the end.
        updates: rows [J, R].
        extents: of the dimensions that the positions mean.
        reduction: how an update joins what is there: one of `REDUCTIONS`.
    """

    def flat(j: te.Expr) -> te.Expr:
        row: te.Expr = te.const(0, "int32")
        inside: list[te.Expr] = []
        for d, extent in enumerate(extents):
            given = indices[(j, te.const(d, "int32"))]
            safe = index(given, extent)
            row = row * extent + safe
            inside.append(matches(given, safe, extent))
        return te.select(te.all(*inside), row, te.const(-1, "int32"))

    count = indices.shape[0]
    rows = te.compute((count,), flat, name="scatter_row", axis_names=["ax0"])
    if reduction == "none":
        k = te.reduce_axis(count, "k")
        last = _last((x.shape[0],), k, lambda i: te.select(te.equal(i, rows[k]), k, _NOBODY))
        return replace_rows(x, last, updates)
    return _scattered(
        x,
        count,
        lambda k, ax: te.equal(ax[0], rows[k]),
        lambda k, ax: updates[(k, ax[1])],
        lambda ax: None,
        reduction,
    )


def replace_rows(x: te.Tensor, rows: te.Tensor, updates: te.Tensor) -> te.Tensor:
    """Rows of ``x`` [P, R], some of them replaced.

    Row p becomes row ``rows[p]`` of ``updates`` [J, R], where that number is not negative.
    """

    def body(*ax: te.Expr) -> te.Expr:
        at = index(rows[ax[0]], updates.shape[0], negative=False)
        return te.if_then_else(rows[ax[0]] >= 0, updates[(at, ax[1])], x[ax])

    return te.compute(x.shape, body, name="T_replace_rows")


_At = tuple[te.Expr, ...]
_NOBODY = te.const(reduce_identity("max", "int32"), "int32")
"""In place of the last writer where there is none; negative."""


def _last(shape: Sequence[Extent], k: te.Axis, writer: Callable[..., te.Expr]) -> te.Tensor:
    """The greatest number of a writer of each element."""
    return te.compute(shape, lambda *ax: te.max(writer(*ax), axis=k), name="scatter_winner")


def _scattered(
    x: te.Tensor,
    count: Extent,
    writes: Callable[[te.Expr, _At], te.Expr],
    update: Callable[[te.Expr, _At], te.Expr],
    guard: Callable[[_At], te.Expr | None],
    reduction: str,
) -> te.Tensor:
    """``count`` candidates for every element; ``writes`` says which of them mean it."""
    k = te.reduce_axis(count, "k")

    def chosen(inner: te.Expr, ax: _At, other: te.Expr) -> te.Expr:
        inside = guard(ax)
        return inner if inside is None else te.if_then_else(inside, inner, other)

    if reduction == "none":
        winner = _last(
            x.shape,
            k,
            lambda *ax: chosen(te.select(writes(k, ax), k, _NOBODY), ax, _NOBODY),
        )

        def body(*ax: te.Expr) -> te.Expr:
            at = index(winner[ax], count, negative=False)
            return te.if_then_else(winner[ax] >= 0, update(at, ax), x[ax])

        return te.compute(x.shape, body, name="T_scatter")

    if x.dtype == "bool":
        reduction = _OF_PREDICATES.get(reduction, reduction)
    kind, combine = _COMBINE[reduction]
    neutral = te.const(reduce_identity(kind, x.dtype), x.dtype)

    def gathered(*ax: te.Expr) -> te.Expr:
        value = chosen(te.select(writes(k, ax), update(k, ax), neutral), ax, neutral)
        return te.reduced(kind, value, axis=k)

    total = te.compute(x.shape, gathered, name=f"scatter_{kind}")
    return te.compute(x.shape, lambda *ax: combine(x[ax], total[ax]), name="T_scatter")
