"""Panels of unpacked weights, which register tiles one below the other share.

``S0 S1 R0`` stand around ``S2 R1 S3``: within, weights of few bits are the same for all rows.
Where S2 has several register tiles of rows, weights are unpacked once in front of it, to floats in
memory, and the tiles are those of any product. Else a tile unpacks them as it multiplies
(`space.scaled`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilework.space.blocks import Block
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Binary, Expr, binary, walk

PANEL = "panel"
"""The attribute of products whose weights may be unpacked so: without it, schedules are those of
records that are older than panels."""
_LEAST = 4
"""Register tiles that make up for a way through memory."""
_MOST_BYTES = 1 << 18
"""Of a panel: what a second cache holds beside what else passes through it."""
_FLOAT = 4


def factors(block: Block) -> tuple[Expr, Expr] | None:
    """Data and scaled weights of a block whose weights may be unpacked to a panel, else None."""
    scaled, levels = block.scaled, block.levels
    if PANEL not in block.op.attrs:
        return None
    if scaled is None or scaled.whole is not None or block.dots is not None or block.ragged:
        return None
    if (levels.spatial, levels.reduce) != (4, 2) or not isinstance(scaled.terms, Binary):
        return None
    *rows, _ = block.spatial
    for data, weight in ((scaled.terms.a, scaled.terms.b), (scaled.terms.b, scaled.terms.a)):
        whole = binary("*", weight, scaled.factor)
        if scaled.terms.op == "*" and not any(a in rows for a in _axes(whole)):
            return data, whole
    return None


def panels(nest: BlockNest) -> NDArray[np.bool_]:
    """In which rows weights are unpacked to a panel."""
    none = np.zeros(nest.count, bool)
    if factors(nest.block) is None:
        return none
    *rows, last = nest.block.spatial
    one = np.ones(nest.count, np.int64)
    tiles = math.prod([nest.tiles[a][-2] for a in rows], start=one)
    held = [*(nest.tiles[a][-1] for a in nest.block.reduce), *nest.tiles[last][-2:]]
    floats = math.prod(held, start=one)
    return np.asarray((tiles >= _LEAST) & (floats * _FLOAT <= _MOST_BYTES))


def sharing(nest: BlockNest) -> NDArray[np.float64]:
    """How many register tiles share an unpacked weight in each row; 1 where there is no panel."""
    used = np.ones(nest.count)
    for axis in nest.block.spatial[:-1]:
        size = np.maximum(nest.tiles[axis][-1], 1)
        used = used * np.minimum(nest.tiles[axis][-2], np.ceil(axis.typical / size))
    return np.where(panels(nest), used, 1.0)


def _axes(e: Expr) -> set[Axis]:
    return {n for n in walk(e) if isinstance(n, Axis)}
