"""Which keys a query may not look at, as numbers that are added to the scores."""

from __future__ import annotations

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.onnx.context import OnnxContext, Unsupported
from tilework.graph.onnx.convert.normal import like
from tilework.graph.onnx.convert.slices import sliced
from tilework.graph.operators import Shape
from tilework.index.extents import Extent
from tilework.index.symbols import Symbolic


def positions(c: OnnxContext, count: Extent, *before: int) -> str:
    """0 to ``count - 1`` as int32 of shape [*before, count]."""
    if isinstance(count, Symbolic):
        return _counted(c, (*before, count), len(before))
    return c.b.constant(np.arange(count, dtype=np.int32).reshape(*before, count), "positions")


def _counted(c: OnnxContext, shape: Shape, axis: int, first: Extent = 0, step: int = 1) -> str:
    """Numbers along one dimension."""
    attrs = {"shape": shape, "axis": axis, "start": first, "step": step}
    return c.op("arange", name="positions", dtype="int32", **attrs)


def whole(c: OnnxContext, number: Extent) -> str:
    """A number as int32, of one dimension if a run brings it, else of none."""
    if isinstance(number, Symbolic):
        return _counted(c, (1,), 0, number, 0)
    return c.b.constant(np.asarray(number, np.int32), "scalar")


def later(c: OnnxContext, queries: Extent, keys: Extent, past: Extent, dtype: str) -> str:
    """What keys later than the query get: [1, 1, queries, keys].

    As in ONNX Runtime, queries are counted from the end of the past, however many keys are new,
    and the last query sees all keys. It writes the smallest number in place of any other mask; a
    sum with another mask is the same number.
    """
    if isinstance(queries, Symbolic) or isinstance(keys, Symbolic) or isinstance(past, Symbolic):
        return _later_in_runs(c, queries, keys, past, dtype)
    hidden = np.triu(np.ones((queries, keys), bool), past + 1)
    hidden[-1] = False
    lowest = np.where(hidden, np.finfo(np.float32).min, np.float32(0))
    with np.errstate(over="ignore"):  # the smallest of a narrower type is minus infinity
        return c.b.constant(lowest[None, None].astype(numpy_dtype(dtype)), "causal")


def _later_in_runs(c: OnnxContext, queries: Extent, keys: Extent, past: Extent, dtype: str) -> str:
    """The same, computed in each run."""
    place = _counted(c, (1, 1, 1, keys), 3)
    last_seen = _counted(c, (1, 1, queries, 1), 2, past)
    end = _counted(c, (1, 1, 1, 1), 0, past + queries - 1, 0)
    hidden = c.op("logical_and", c.op("greater", place, last_seen), c.op("less", last_seen, end))
    with np.errstate(over="ignore"):
        lowest = np.full((1, 1, 1, 1), np.finfo(np.float32).min).astype(numpy_dtype(dtype))
    zero = c.b.constant(np.zeros_like(lowest), "zero")
    return c.op("where", hidden, c.b.constant(lowest, "lowest"), zero, name="causal")


def padding(
    c: OnnxContext,
    name: str,
    shape: tuple[Extent, Extent, Extent],
    past: Extent,
    filler: float,
    scores: str,
) -> str | None:
    """What a mask of keys adds to ``scores`` [B, N, S, T]; None if it leaves all as they are.

    Args:
        name: ONNX name of the mask. [B]: how many keys there are; [2 B]: their ends, then where
            they start; [3 B + 2]: its first B are the lengths; [B, T], [B, S, T] and [B, 1, M, M]
            with M >= T: positive where a key may be seen; [B, 1] or [1, 1]: means nothing.
        shape: B, S and T.
        past: keys that come before those of the first query.
        filler: what hidden keys get.

    Raises:
        Unsupported: the mask has none of these shapes.
    """
    batch, queries, keys = shape
    extents, m = c.shape(name), c.value(name)
    if extents in ((batch,), (2 * batch,), (3 * batch + 2,)):
        seen = _between(c, m, batch, keys, starts=extents == (2 * batch,))
    else:
        if extents == (batch, keys):
            full: Shape = (batch, 1, 1, keys)
        elif extents in ((batch, 1), (1, 1)):
            return None
        elif extents == (batch, queries, keys):
            full = (batch, 1, queries, keys)
        elif (
            extents[:2] == (batch, 1) and len(extents) == 4 and all(n >= keys for n in extents[2:])
        ):
            # ONNX Runtime has it on GPUs alone
            full = (batch, 1, queries, keys)
            m = sliced(c, m, (0, 0, past, 0), full, (1, 1, 1, 1))
        else:
            raise Unsupported(
                f"a mask of shape {list(extents)} is unknown where batch, queries and keys are "
                f"{batch}, {queries} and {keys}"
            )
        seen = c.op("greater", c.op("reshape", m, shape=full), like(c, 0, m))
    return c.op("where", seen, like(c, 0.0, scores), like(c, filler, scores))


def _between(c: OnnxContext, m: str, batch: Extent, keys: Extent, *, starts: bool) -> str:
    """Whether each key stands before its sequence's end, and not before its start."""
    ends = _column(c, m, 0, batch)
    places = c.op("cast", positions(c, keys, 1, 1, 1), to=c.b.types[m].dtype)
    seen = c.op("less", places, ends)
    if starts:
        seen = c.op("logical_and", seen, c.op("greater_equal", places, _column(c, m, 1, batch)))
    return seen


def _column(c: OnnxContext, m: str, i: int, batch: Extent) -> str:
    part = sliced(c, m, (i * batch,), (batch,), (1,))
    return c.op("reshape", part, shape=(batch, 1, 1, 1))
