"""Operators that choose elements: by position, or by indices that are data.

An index outside its dimension is never followed: it counts as the nearest one inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilework import te
from tilework.dtypes import is_integer
from tilework.index.extents import Extent, known
from tilework.index.symbols import same
from tilework.ops.elementwise import broadcast_index
from tilework.ops.indices import index, matches
from tilework.ops.scalars import literal
from tilework.ops.storage import computed
from tilework.te.written import WRITTEN


def _step(i: te.Expr, begin: Extent, stride: int) -> te.Expr:
    at = i if stride == 1 else i * stride
    return at + begin if begin != 0 else at


def strided_slice(
    x: te.Tensor, begin: Sequence[Extent], size: Sequence[Extent], stride: Sequence[int]
) -> te.Tensor:
    """Elements ``begin[d], begin[d] + stride[d], ...`` of each dimension d, ``size[d]`` of them.

    Strides may be negative.
    """

    def body(*ax: te.Expr) -> te.Expr:
        return x[tuple(_step(i, b, s) for i, b, s in zip(ax, begin, stride, strict=True))]

    return te.compute(size, body, name="T_slice")


def arange(shape: Sequence[Extent], axis: int, start: Extent, step: int, dtype: str) -> te.Tensor:
    """``start, start + step, ...`` along ``axis``; with a step of 0 the same number everywhere."""

    def body(*ax: te.Expr) -> te.Expr:
        whole = _step(ax[axis], start, step) if step else literal(start, "int32")
        return te.cast(dtype, whole)

    return te.compute(shape, body, name="T_arange")


def expand(x: te.Tensor, shape: Sequence[Extent]) -> te.Tensor:
    """``x`` with its dimensions of extent 1 repeated to ``shape`` (NumPy's broadcasting)."""
    return te.compute(shape, lambda *ax: broadcast_index(x, ax, shape), name="T_expand")


def take(x: te.Tensor, indices: te.Tensor, axis: int, *, negative: bool = True) -> te.Tensor:
    """Entries of ``x`` along ``axis``: its dimension is replaced by those of ``indices``.

    With ``negative``, negative indices count from the end.
    """
    inner = axis + indices.ndim

    def body(*ax: te.Expr) -> te.Expr:
        at = index(indices[ax[axis:inner]], x.shape[axis], negative=negative)
        return x[(*ax[:axis], at, *ax[inner:])]

    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return te.compute(shape, body, name="T_take")


def take_along(x: te.Tensor, indices: te.Tensor, axis: int) -> te.Tensor:
    """``out[..., i, ...] = x[..., indices[..., i, ...], ...]`` along ``axis``, element by element.

    The other extents of ``indices`` may be smaller than those of ``x``.
    """

    def body(*ax: te.Expr) -> te.Expr:
        at = index(indices[ax], x.shape[axis])
        return x[(*ax[:axis], at, *ax[axis + 1 :])]

    return te.compute(indices.shape, body, name="T_take_along")


def gather_nd(x: te.Tensor, indices: te.Tensor, batch_dims: int = 0) -> te.Tensor:
    """Entries of ``x`` at whole positions.

    The last dimension of ``indices`` holds a position in the dimensions of ``x`` behind the first
    ``batch_dims``, which both share; the result has the dimensions of ``indices`` without it, then
    those of ``x`` that the positions leave open.
    """
    depth = known(indices.shape[-1])
    outer = indices.ndim - 1
    shape = (*indices.shape[:-1], *x.shape[batch_dims + depth :])

    def body(*ax: te.Expr) -> te.Expr:
        at = [
            index(indices[(*ax[:outer], te.const(d, "int32"))], x.shape[batch_dims + d])
            for d in range(depth)
        ]
        return x[(*ax[:batch_dims], *at, *ax[outer:])]

    return te.compute(shape, body, name="T_gather_nd")


def append_rows(past: te.Tensor, new: te.Tensor, starts: te.Tensor, rows: Extent) -> te.Tensor:
    """Keys or values of sequences [B, M, P, H] with new ones [B, M, S, H] behind, [B, M, C, H].

    What stands behind the new ones is 0.

    Args:
        past: what there is of each sequence, and anything behind.
        new: as many for each sequence.
        starts: [B, 1], how many rows of ``past`` are a sequence's.
        rows: C.
    """
    cached, count = past.shape[2], new.shape[2]

    def body(b: te.Expr, m: te.Expr, i: te.Expr, h: te.Expr) -> te.Expr:
        behind = i - te.cast("int32", starts[b, te.const(0, "int32")])
        row = new[b, m, index(behind, count, negative=False), h]
        zero = te.const(0, past.dtype)
        fresh = te.select(te.all(behind >= 0, behind < count), row, zero)
        kept = te.select(behind < 0, past[b, m, i, h], fresh)
        return kept if same(rows, cached) else te.if_then_else(i < cached, kept, fresh)

    return te.compute((*past.shape[:2], rows, past.shape[3]), body, name="T_append_rows")


def write_rows(
    cache: te.Tensor,
    new: te.Tensor,
    starts: te.Tensor,
    fallen: te.Tensor | None = None,
    *,
    axis: int,
    circular: bool,
) -> te.Tensor:
    """A cache [B, .., P, ..] with new rows [B, .., S, ..] in place of some along ``axis``.

    What would stand outside is left out.

    Args:
        starts: [B], where each sequence's first new row goes.
        fallen: [B], how many of each sequence's first rows fall off before: others take their
            places. None: none do.
        circular: rows behind the last are the first ones again; starts are from 0 to P - 1 then.
    """
    cached, count = cache.shape[axis], new.shape[axis]

    def body(*at: te.Expr) -> te.Expr:
        behind = at[axis] - te.cast("int32", starts[at[0]])
        if circular:
            behind = te.select(behind < 0, behind + cached, behind)
        row = index(behind, count, negative=False)
        fresh = new[(*at[:axis], row, *at[axis + 1 :])]
        old = at[axis]
        if fallen is not None:
            old = index(old + te.cast("int32", fallen[at[0]]), cached, negative=False)
        kept = cache[(*at[:axis], old, *at[axis + 1 :])]
        return te.select(te.all(behind >= 0, behind < count), fresh, kept)

    attrs = {WRITTEN: axis, "circular": circular}
    return te.compute(cache.shape, body, name="T_write_rows", attrs=attrs)


def one_hot(indices: te.Tensor, values: te.Tensor, depth: int, axis: int) -> te.Tensor:
    """``values[1]`` at each index of a new dimension of extent ``depth``, elsewhere ``values[0]``.

    Negative indices count from the end; an index outside the dimension matches nothing. Indices
    may be floats, whose fraction is cut off; NaN matches nothing.
    """

    def body(*ax: te.Expr) -> te.Expr:
        at = indices[(*ax[:axis], *ax[axis + 1 :])]
        off, on = (values[te.const(i, "int32")] for i in (0, 1))
        return te.select(_same(at, ax[axis], depth), on, off)

    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    return te.compute(shape, body, name="T_one_hot")


def _same(at: te.Expr, position: te.Expr, extent: int) -> te.Expr:
    if is_integer(at.dtype):
        return matches(at, position, extent)
    whole = te.trunc(computed(at))  # not every float is an integer
    place = te.cast(whole.dtype, position)
    return te.any(te.equal(whole, place), te.equal(whole + float(extent), place))


def trilu(x: te.Tensor, k: int, *, upper: bool) -> te.Tensor:
    """The upper (lower) triangle of the last two dimensions, zeros elsewhere.

    The triangle ends at the diagonal ``column - row = k``, which belongs to it.
    """

    def body(*ax: te.Expr) -> te.Expr:
        row, column = ax[-2], ax[-1]
        kept = column >= row + k if upper else column <= row + k
        return te.if_then_else(kept, x[ax], te.const(0, x.dtype))

    return te.compute(x.shape, body, name="T_trilu")


def reverse_sequence(
    x: te.Tensor, lengths: te.Tensor, batch_axis: int, time_axis: int
) -> te.Tensor:
    """The first ``lengths[b]`` entries along ``time_axis`` in reverse order, for each b.

    A length beyond the dimension counts as its extent, a negative one as none.
    """
    extent = x.shape[time_axis]

    def body(*ax: te.Expr) -> te.Expr:
        t = ax[time_axis]
        length = index(lengths[ax[batch_axis]], extent + 1, negative=False)
        at = index(te.select(t < length, length - 1 - t, t), extent, negative=False)
        return x[(*ax[:time_axis], at, *ax[time_axis + 1 :])]

    return te.compute(x.shape, body, name="T_reverse_sequence")
