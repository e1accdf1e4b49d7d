"""Blocks that multiply small constant matrices into their data, one axis after the other.

    out(.., i, j, ..) = sum over (a, b) data(.., a, b, ..) * M[a, i] * N[b, j]

Such a block is computed as straight-line code on registers, first along one axis and then along
the next, for one vector of the last axis at a time. Two axes of alpha points and m rows then cost
alpha m (alpha + m) operations instead of alpha^2 m^2, and fewer (`tilework.space.straightline`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tilework.space.blocks import Block
from tilework.space.straightline import Matrix, straight_line
from tilework.te.expr import Axis, Binary, Const, Expr, Lookup, Reduce, substitute, walk


@dataclass(frozen=True, eq=False)
class Stage:
    """The product along one axis: ``reduce`` runs over columns, ``spatial`` over rows.

    ``spatial`` is an axis of the matrix's rows, or one that is cut into tiles of so many rows.
    """

    reduce: Axis
    spatial: Axis
    matrix: Matrix


@dataclass(frozen=True, eq=False)
class Transform:
    """What a block computes: its data, and the products in the order in which they are done."""

    data: Expr
    stages: tuple[Stage, ...]

    def operations(self) -> int:
        """Vector operations of one tile (all rows of all matrices)."""
        total = 0
        for k, stage in enumerate(self.stages):
            others = 1
            for j, s in enumerate(self.stages):
                others *= 1 if j == k else len(s.matrix if j < k else s.matrix[0])
            total += others * straight_line(stage.matrix).operations
        return total

    def points(self) -> tuple[int, int]:
        """Elements that a tile reads, and that it computes."""
        reads = writes = 1
        for s in self.stages:
            reads *= len(s.matrix[0])
            writes *= len(s.matrix)
        return reads, writes


@lru_cache(maxsize=1024)
def transform_of(block: Block) -> Transform | None:
    """The block as a transform by constant matrices; None if it is anything else."""
    body = block.body
    if not isinstance(body, Reduce) or body.kind != "sum" or not block.const_axes:
        return None
    factors = list(_factors(body.source))
    data = [f for f in factors if not isinstance(f, Lookup)]
    if len(data) != 1:
        return None
    tiles = block.op.attrs.get("tile", {})
    stages: list[Stage] = []
    for lookup in factors:
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


def _factors(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Binary) and e.op == "*":
        yield from _factors(e.a)
        yield from _factors(e.b)
    else:
        yield e


def _whole_tile(e: Expr) -> Expr | None:
    """Stands for ``axis // tile``, which is the same for all rows of a tile."""
    divides = isinstance(e, Binary) and e.op == "//" and isinstance(e.b, Const)
    return Const("int32", 0) if divides else None


def _stage(lookup: Lookup, tiles: dict[str, int]) -> Stage | None:
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
    return Stage(column, spatial, matrix)
