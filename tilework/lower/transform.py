"""Lowering of transforms by constant matrices: straight-line code on registers.

Before::

    for tile, i, j, a, b:  out[tile, i, j] += data[tile, a, b] * M[a, i] * N[b, j]

After (values ``v`` live in registers, the last axis is a vector)::

    parallel tile:
      for b:  v = data[tile, :, b]; v' = M^T v        in few operations
      for i:  out[tile, i, :] = epilogue(N^T v'[i, :])

A tile whose data lies inside the padding everywhere is computed without its conditions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from tilework.lower.common import (
    bind,
    const,
    loop_var,
    nest,
    plain_read,
    var_or_zero,
)
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.lower.ir import Load, Stmt, Store, seq
from tilework.space.capabilities import Transform
from tilework.space.nest import BlockNest
from tilework.space.straightline import straight_line
from tilework.te import expr as x


class TransformTile:
    """The code of one tile: loads, sums and stores in the order in which they are made.

    Args:
        ctx, block_nest, transform: the program's context, and the block.
        base: where the tile begins.
        sizes: its points along each axis.
        data: what is transformed.
        within: puts a store at a position behind a condition; by default there is none.
    """

    def __init__(
        self,
        ctx: LoweringContext,
        block_nest: BlockNest,
        transform: Transform,
        base: dict[x.Axis, x.Expr],
        sizes: dict[x.Axis, int],
        data: x.Expr,
        within: Callable[[dict[x.Axis, x.Expr], Stmt], Stmt] | None = None,
    ) -> None:
        self.within = within
        self.ctx, self.block, self.transform = ctx, block_nest.block, transform
        self.base, self.sizes, self.data = base, sizes, data
        self.programs = [straight_line(s.matrix[: sizes[s.spatial]]) for s in transform.stages]
        last = self.block.spatial[-1]
        self.lane = loop_var(f"{last.name}.t", sizes[last])
        count = self._count()
        self.values = ctx.temporary(
            f"{self.block.op.name}.values", [count, sizes[last]], self.block.op.dtype, "register"
        )
        self.used = 0

    def _count(self) -> int:
        """Values of a tile: what is loaded, and every sum."""
        columns = [p.inputs for p in self.programs]
        rows = [len(p.outputs) for p in self.programs]
        total = 1
        for n in columns:
            total *= n
        for k, program in enumerate(self.programs):
            others = 1
            for j in range(len(self.programs)):
                others *= 1 if j == k else rows[j] if j < k else columns[j]
            total += others * len(program.sums)
        return total

    def code(self) -> Stmt:
        """The tile's statements in one vector loop."""
        result = self.block.result
        start = dict(zip(result.axes, (self.base[a] for a in self.block.spatial), strict=True))
        sizes = {o: self.sizes[a] for o, a in zip(result.axes, self.block.spatial, strict=True)}
        claim = self.ctx.tactics.claim_tile(self.ctx.buffers[result], start, sizes)
        tile = nest([(self.lane, self.lane.extent, "vector")], seq(*self._statements()))
        return seq(claim, tile)

    def _statements(self) -> Iterator[Stmt]:
        known: dict[tuple[int, ...], int] = {}  # the data, then what each stage makes of it
        for k, program in enumerate(self.programs):
            numbered: dict[tuple[int, ...], int] = {}
            ranges = [
                range(len(p.outputs)) if j < k else range(p.inputs)
                for j, p in enumerate(self.programs)
                if j != k
            ]
            for rest in itertools.product(*ranges):
                numbers = []
                for i in range(program.inputs):
                    at = (*rest[:k], i, *rest[k:])
                    if k == 0:
                        known[at] = self.used
                        yield self._set(self._load(at))
                    numbers.append(known[at])
                for terms in program.sums:
                    numbers.append(self.used)
                    yield self._set(self._sum([(c, numbers[v]) for c, v in terms]))
                for i, value in enumerate(program.outputs):
                    at = (*rest[:k], i, *rest[k:])
                    numbered[at] = numbers[value]
                    if k == len(self.programs) - 1:
                        yield self._store(at, numbered[at])
            known = numbered

    def _set(self, value: x.Expr) -> Stmt:
        self.used += 1
        return Store(self.values, (const(self.used - 1), var_or_zero(self.lane)), value)

    def _get(self, number: int) -> x.Expr:
        where = (const(number), var_or_zero(self.lane))
        return Load(self.values.dtype, self.values, where)

    def _load(self, at: tuple[int, ...]) -> x.Expr:
        axes = self._point({})
        axes |= {s.reduce: const(i) for s, i in zip(self.transform.stages, at, strict=True)}
        return bind(self.data, axes, plain_read(self.ctx))

    def _sum(self, terms: list[tuple[float, int]]) -> x.Expr:
        dtype = self.values.dtype
        if not terms:
            return x.Const(dtype, 0.0)
        start = next((t for t in terms if t[0] == 1), terms[0])
        out = self._get(start[1])
        if start[0] != 1:
            out = x.binary("*", out, x.Const(dtype, start[0]))
        for c, value in (t for t in terms if t is not start):
            if abs(c) == 1:
                out = x.binary("+" if c > 0 else "-", out, self._get(value))
            else:
                out = x.binary("+", out, x.binary("*", x.Const(dtype, c), self._get(value)))
        return out

    def _point(self, rows: dict[x.Axis, int]) -> dict[x.Axis, x.Expr]:
        """Index of each spatial axis at some rows of the tile."""
        out = {a: x.binary("+", self.base[a], const(rows.get(a, 0))) for a in self.block.spatial}
        last = self.block.spatial[-1]
        return out | {last: x.binary("+", self.base[last], var_or_zero(self.lane))}

    def _store(self, at: tuple[int, ...], number: int) -> Stmt:
        block = self.block
        rows = {s.spatial: i for s, i in zip(self.transform.stages, at, strict=True)}
        point = self._point(rows)
        store = store_result(self.ctx, block, point, self._get(number))
        return store if self.within is None else self.within(point, store)
