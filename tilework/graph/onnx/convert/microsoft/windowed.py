"""A cache of the last positions alone (`sliding_window_cache`), from which the first fall off.

Of T tokens of a sequence a cache of C rows holds the last L. With a window of W, G = C - W + 1::

    L = T                          where T <= C
    L = T - G * ceil((T - C) / G)  else: G rows fall off at once
"""

from __future__ import annotations

import numpy as np

from tilework.frozen import frozen
from tilework.graph.onnx.context import OnnxContext, Unsupported
from tilework.graph.onnx.convert.microsoft.masks import positions, whole
from tilework.graph.onnx.convert.normal import like
from tilework.index.extents import Extent
from tilework.index.symbols import certain

_NOWHERE = np.iinfo(np.int32).max
"""The position of a row that holds none."""


@frozen
class Window:
    """What a run makes of such a cache.

    Attributes:
        rows: value [B]: where the first new token goes.
        fallen: value [B]: how many rows fall off before.
        places: value [B, 1, 1, 1, C + S]: the positions of the cache's rows as they were before,
            and of the new tokens.
    """

    rows: str
    fallen: str
    places: str

    def kept(self, c: OnnxContext, past: str, new: str) -> str:
        """The cache [B, M, C, H] behind the run, ``new`` [B, M, S, H] in it."""
        return c.op("write_rows", past, new, self.rows, self.fallen, axis=2, circular=False)


def window_of(
    c: OnnxContext, ends: str, starts: str | None, cached: Extent, new: Extent, window: int
) -> Window:
    """What a run of S new tokens makes of a cache of C rows.

    Args:
        ends, starts: values [B, 1] as int32: T of each sequence behind the run, and before.

    Raises:
        Unsupported: the window is longer than the cache.
    """
    assert starts is not None
    if certain(lambda: cached < window):
        raise Unsupported(f"a window of {window} does not fit into a cache of {cached}")
    before, behind = (_gone(c, n, cached, window) for n in (starts, ends))
    batch = c.b.shape(ends)[0]
    held = c.op("add", positions(c, cached, 1), before)
    held = c.op("where", c.op("less", held, starts), held, like(c, _NOWHERE, held))
    fresh = c.op("add", positions(c, new, 1), starts)
    places = c.op("concat", held, fresh, axis=1)
    flat = (c.op("subtract", a, b) for a, b in ((starts, behind), (behind, before)))
    rows, fallen = (c.op("reshape", x, shape=(batch,)) for x in flat)
    return Window(rows, fallen, c.op("reshape", places, shape=(batch, 1, 1, 1, cached + new)))


def _gone(c: OnnxContext, count: str, cached: Extent, window: int) -> str:
    """How many of the first of so many tokens have fallen off."""
    at_once = whole(c, cached - window + 1)
    over = c.op("maximum", c.op("subtract", count, whole(c, cached)), like(c, 0, count))
    upper = c.op("add", over, c.op("subtract", at_once, like(c, 1, at_once)))
    return c.op("subtract", upper, c.op("floor_mod", upper, at_once))
