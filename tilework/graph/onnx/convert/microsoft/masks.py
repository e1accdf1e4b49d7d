"""Which keys a query may not look at, as numbers that are added to the scores."""

from __future__ import annotations

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.graph.onnx.context import OnnxContext, Unsupported
from tilework.graph.onnx.convert.normal import like
from tilework.graph.onnx.convert.slices import sliced


def positions(c: OnnxContext, count: int, *before: int) -> str:
    """0 to ``count - 1`` as int32 of shape [*before, count]."""
    return c.b.constant(np.arange(count, dtype=np.int32).reshape(*before, count), "positions")


def later(c: OnnxContext, queries: int, keys: int, past: int, dtype: str) -> str:
    """What keys later than the query get: [1, 1, queries, keys].

    As in ONNX Runtime, queries are counted from the end of the past, however many keys are new,
    and the last query sees all keys. It writes the smallest number in place of any other mask; a
    sum with another mask is the same number.
    """
    hidden = np.triu(np.ones((queries, keys), bool), past + 1)
    hidden[-1] = False
    lowest = np.where(hidden, np.finfo(np.float32).min, np.float32(0))
    with np.errstate(over="ignore"):  # the smallest of a narrower type is minus infinity
        return c.b.constant(lowest[None, None].astype(numpy_dtype(dtype)), "causal")


def padding(
    c: OnnxContext, name: str, shape: tuple[int, int, int], past: int, filler: float, scores: str
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
            full: tuple[int, ...] = (batch, 1, 1, keys)
        elif extents in ((batch, 1), (1, 1)):
            return None
        elif extents == (batch, queries, keys):
            full = (batch, 1, queries, keys)
        elif extents[:2] == (batch, 1) and len(extents) == 4 and min(extents[2:]) >= keys:
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


def _between(c: OnnxContext, m: str, batch: int, keys: int, *, starts: bool) -> str:
    """Whether each key stands before its sequence's end, and not before its start."""
    ends = _column(c, m, 0, batch)
    places = c.op("cast", positions(c, keys, 1, 1, 1), to=c.b.types[m].dtype)
    seen = c.op("less", places, ends)
    if starts:
        seen = c.op("logical_and", seen, c.op("greater_equal", places, _column(c, m, 1, batch)))
    return seen


def _column(c: OnnxContext, m: str, i: int, batch: int) -> str:
    part = sliced(c, m, (i * batch,), (batch,), (1,))
    return c.op("reshape", part, shape=(batch, 1, 1, 1))
