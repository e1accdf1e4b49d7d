"""Blocks that multiply small constant matrices into their data, one axis after the other.

    out(.., i, j, ..) = sum over (a, b) data(.., a, b, ..) * M[a, i] * N[b, j]

Such a block is computed as straight-line code on registers, first along one axis and then along
the next, for one vector of the last axis at a time. Two axes of alpha points and m rows then cost
alpha m (alpha + m) operations instead of alpha^2 m^2, and fewer (`tilework.space.straightline`).
"""

from __future__ import annotations

from dataclasses import replace

from tilework.space.blocks import Block
from tilework.space.capabilities import Product, Transform
from tilework.te.expr import Axis, Binary, Const, Expr, Lookup, Reduce, substitute, walk
from tilework.te.trees import factors


def constant_transform(block: Block) -> Block:
    """The block with its `Transform`, where it multiplies by constant matrices."""
    transform = _transform(block)
    return block if transform is None else replace(block, transform=transform)


def _transform(block: Block) -> Transform | None:
    body = block.body
    if not isinstance(body, Reduce) or body.kind != "sum" or not block.const_axes:
        return None
    parts = list(factors(body.source))
    data = [f for f in parts if not isinstance(f, Lookup)]
    if len(data) != 1:
        return None
    tiles = block.op.attrs.get("tile", {})
    stages: list[Product] = []
    for lookup in parts:
        if isinstance(lookup, Lookup):
            stage = _stage(lookup, tiles)
            if stage is None:
                return None
            stages.append(stage)
    rows = {s.spatial for s in stages}
    columns = [s.reduce for s in stages]
    if set(columns) != set(block.reduce) or len(columns) != len(set(columns)):
        return None
    if len(rows) != len(stages) or not rows <= set(block.spatial[:-1]):
        return None
    if any(n in rows for n in walk(substitute(data[0], _whole_tile))):
        return None  # the data of a tile would differ from row to row
    return Transform(data[0], tuple(stages))


def _whole_tile(e: Expr) -> Expr | None:
    """Stands for ``axis // tile``, which is the same for all rows of a tile."""
    divides = isinstance(e, Binary) and e.op == "//" and isinstance(e.b, Const)
    return Const("int32", 0) if divides else None


def _stage(lookup: Lookup, tiles: dict[str, int]) -> Product | None:
    if len(lookup.shape) != 2:
        return None
    column, row = lookup.indices
    if not isinstance(column, Axis) or column.kind != "reduce":
        return None
    spatial, rows = row, lookup.shape[1]
    if isinstance(row, Binary) and row.op == "%" and isinstance(row.b, Const):
        spatial = row.a
        if row.b.value != rows or not isinstance(spatial, Axis) or tiles.get(spatial.name) != rows:
            return None
    elif not isinstance(row, Axis) or row.extent != rows:
        return None
    if not isinstance(spatial, Axis) or column.extent != lookup.shape[0]:
        return None
    matrix = tuple(lookup.values[i::rows] for i in range(rows))
    return Product(column, spatial, matrix)
