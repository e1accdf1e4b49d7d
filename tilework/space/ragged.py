"""Reductions whose number of terms is data: what their nests must respect.

    out[.., j, ..] = sum over e < limit(j // R) of ...

A register tile runs through its terms once, for all its points. So it must not reach over points
with other limits: its size on an axis that the limit depends on through ``j // R`` divides R, and
is 1 where the limit depends on the axis in another way. Such a reduce axis is never tiled: its
loop ends where the data say. To have several sums in flight, the row's unroll limit keeps up to 8
accumulators of each element, which take the terms in turns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import is_float
from tilework.index.extents import known
from tilework.space.blocks import Block
from tilework.space.capabilities import Ragged
from tilework.te.expr import Axis, Binary, Const, Expr, Read, Reduce, children, walk

_COPIES_FROM = (32, 96, 192)


def ragged_block(block: Block) -> Block:
    """The block with its `Ragged`, where data decide how many terms it sums."""
    ends = dict(block.body.limits) if isinstance(block.body, Reduce) else {}
    return replace(block, ragged=Ragged(ends, _whole_steps(block, ends))) if ends else block


def _whole_steps(block: Block, ends: Mapping[Axis, Expr]) -> dict[Axis, int]:
    """Per spatial axis that limits or positions found in data depend on: what tiles divide."""
    out: dict[Axis, int] = {}

    def visit(e: Expr) -> None:
        match e:
            case Binary(op="//", a=Axis() as axis, b=Const() as size):
                out[axis] = math.gcd(out.get(axis, 0), known(size.whole))
            case Axis():
                out[e] = 1
            case _:
                for child in children(e):
                    visit(child)

    for limit in ends.values():
        visit(limit)
    for read in data_indices(block.source):
        visit(read)
    return {a: d for a, d in out.items() if a.kind == "spatial"}


def data_indices(e: Expr) -> list[Read]:
    """The reads of integers inside the indices of other reads, outermost first."""
    reads = []
    for read in walk(e):
        if isinstance(read, Read):
            inside = [n for i in read.indices for n in walk(i)]
            reads += [n for n in inside if isinstance(n, Read) and not is_float(n.dtype)]
    return list(dict.fromkeys(reads))


def copies(unroll: NDArray[np.int64]) -> NDArray[np.int64]:
    """Accumulators of each element, by a row's unroll limit: 1, 2, 4 or 8."""
    steps = sum((unroll >= n).astype(np.int64) for n in _COPIES_FROM)
    return np.left_shift(np.ones_like(unroll), steps)
