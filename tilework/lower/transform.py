"""Lowering of transforms by constant matrices: straight-line code on registers.

Before::

    for tile, i, j, a, b:  out[tile, i, j] += data[tile, a, b] * M[a, i] * N[b, j]

After (values ``v`` live in registers, the last axis is a vector)::

    parallel tile:
      for b:  v = data[tile, :, b]; v' = M^T v        in few operations
      for i:  out[tile, i, :] = epilogue(N^T v'[i, :])

A tile whose data lies inside the padding everywhere is computed without its conditions. Both codes
share all but their loads, and indices are shared among statements: there are hundreds, and what is
one node is looked at once by all that works on programs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from tilework.lower.common import (
    LoopSpec,
    Resolver,
    binding,
    const,
    load,
    loop_var,
    nest,
    plain_read,
    var_or_zero,
)
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.lower.ir import Buffer, Load, Stmt, Store, seq
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
        within: puts a store at a position behind a condition; by default there is none.
        cut: axes that may end within the tile. What is transformed has all of it, so that results
            wait in memory, and a loop stores those that there are.
    """

    def __init__(
        self,
        ctx: LoweringContext,
        block_nest: BlockNest,
        transform: Transform,
        base: dict[x.Axis, x.Expr],
        sizes: dict[x.Axis, int],
        within: Callable[[dict[x.Axis, x.Expr], Stmt], Stmt] | None = None,
        cut: Sequence[x.Axis] = (),
    ) -> None:
        self.within, self.cut = within, cut
        self.ctx, self.block, self.transform = ctx, block_nest.block, transform
        self.base, self.sizes = base, sizes
        self.programs = [straight_line(s.matrix[: sizes[s.spatial]]) for s in transform.stages]
        last = self.block.spatial[-1]
        self.lane = loop_var(f"{last.name}.t", sizes[last])
        self.values = ctx.temporary(
            f"{self.block.op.name}.values",
            [self._count(), sizes[last]],
            self.block.op.dtype,
            "register",
        )
        shape = [sizes[a] for a in self.block.spatial]
        name, dtype = f"{self.block.op.name}.held", self.block.op.dtype
        self.held = ctx.shared(name, shape, dtype) if cut else None
        self._indices: dict[tuple[x.Axis, int], x.Expr] = {}
        self._loads: list[Load] = []
        self._statements = [*self._made()]

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

    def code(self, data: x.Expr) -> Stmt:
        """The tile's statements in one vector loop.

        Args:
            data: what is transformed.
        """
        result = self.block.result
        start = dict(zip(result.axes, (self.base[a] for a in self.block.spatial), strict=True))
        sizes = {o: self.sizes[a] for o, a in zip(result.axes, self.block.spatial, strict=True)}
        output = self.ctx.buffers[result]
        claim = None if self.cut else self.ctx.tactics.claim_tile(output, start, sizes)
        stages = [s.reduce for s in self.transform.stages]
        points = AtPoints(data, self._point({}), stages, plain_read(self.ctx))
        loaded = (
            s if isinstance(s, Stmt) else self._set(s[0], points.at(s[1]))
            for s in self._statements
        )
        tile = nest([(self.lane, self.lane.extent, "vector")], seq(*loaded))
        return seq(claim, tile, None if self.held is None else self._existing(self.held))

    def _existing(self, held: Buffer) -> Stmt:
        """Stores of the results that there are."""
        *outer, last = self.block.spatial
        point: dict[x.Axis, x.Expr] = {last: var_or_zero(self.lane)}
        loops: list[LoopSpec] = []
        for a in outer:
            row = loop_var(f"{a.name}.t", self.sizes[a])
            left = x.binary("-", const(a.extent), self.base[a])
            count = x.binary("min", const(row.extent), left) if a in self.cut else row.extent
            loops.append((row, count, "serial"))
            point[a] = var_or_zero(row)
        at = {a: x.binary("+", self.base[a], point[a]) for a in self.block.spatial}
        done = load(held, [point[a] for a in self.block.spatial])
        store = store_result(self.ctx, self.block, at, done)
        return nest([*loops, (self.lane, self.lane.extent, "vector")], store)

    def _made(self) -> Iterator[Stmt | tuple[int, tuple[int, ...]]]:
        """The statements; of a load, the value's number and where the data is."""
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
                        known[at] = self._new()
                        yield known[at], at
                    numbers.append(known[at])
                for terms in program.sums:
                    total = self._sum([(c, numbers[v]) for c, v in terms])
                    numbers.append(self._new())
                    yield self._set(numbers[-1], total)
                for i, value in enumerate(program.outputs):
                    at = (*rest[:k], i, *rest[k:])
                    numbered[at] = numbers[value]
                    if k == len(self.programs) - 1:
                        yield self._store(at, numbered[at])
            known = numbered

    def _new(self) -> int:
        """The number of a value that is made next."""
        where = (const(len(self._loads)), var_or_zero(self.lane))
        self._loads.append(Load(self.values.dtype, self.values, where))
        return len(self._loads) - 1

    def _set(self, number: int, value: x.Expr) -> Stmt:
        return Store(self.values, self._loads[number].indices, value)

    def _sum(self, terms: list[tuple[float, int]]) -> x.Expr:
        dtype = self.values.dtype
        if not terms:
            return x.Const(dtype, 0.0)
        start = next((t for t in terms if t[0] == 1), terms[0])
        out: x.Expr = self._loads[start[1]]
        if start[0] != 1:
            out = x.binary("*", out, x.Const(dtype, start[0]))
        for c, value in (t for t in terms if t is not start):
            term = self._loads[value]
            if abs(c) == 1:
                out = x.binary("+" if c > 0 else "-", out, term)
            else:
                out = x.binary("+", out, x.binary("*", x.Const(dtype, c), term))
        return out

    def _point(self, rows: Mapping[x.Axis, int]) -> dict[x.Axis, x.Expr]:
        """Index of each spatial axis at some rows of the tile."""
        return {a: self._index(a, rows.get(a, 0)) for a in self.block.spatial}

    def _index(self, axis: x.Axis, row: int) -> x.Expr:
        if (axis, row) not in self._indices:
            step = var_or_zero(self.lane) if axis is self.block.spatial[-1] else const(row)
            self._indices[axis, row] = x.binary("+", self.base[axis], step)
        return self._indices[axis, row]

    def _store(self, at: tuple[int, ...], number: int) -> Stmt:
        rows = {s.spatial: i for s, i in zip(self.transform.stages, at, strict=True)}
        if self.held is not None:
            here = {a: const(rows.get(a, 0)) for a in self.block.spatial[:-1]}
            return Store(self.held, (*here.values(), var_or_zero(self.lane)), self._loads[number])
        point = self._point(rows)
        store = store_result(self.ctx, self.block, point, self._loads[number])
        return store if self.within is None else self.within(point, store)


class AtPoints:
    """An expression at many points, as `tilework.lower.common.bind` has it at one.

    What depends on some of the moving axes is one node wherever these are at the same places.

    Args:
        e: the expression.
        fixed: indices of axes that are the same at all points.
        moving: the other ones.
        resolve: what stands for a read.
    """

    def __init__(
        self,
        e: x.Expr,
        fixed: Mapping[x.Axis, x.Expr],
        moving: Sequence[x.Axis],
        resolve: Resolver,
    ) -> None:
        self._e, self._moving = e, moving
        self._axes = {**fixed}
        self._change = binding(self._axes, resolve)
        self._parts: dict[x.Expr, tuple[int, ...]] = {}
        self._known: dict[tuple[object, ...], x.Expr] = {}

    def at(self, numbers: Sequence[int]) -> x.Expr:
        """The expression where each moving axis is at a number."""
        self._axes.update({a: const(i) for a, i in zip(self._moving, numbers, strict=True)})
        return self._value(self._e, numbers)

    def _value(self, e: x.Expr, numbers: Sequence[int]) -> x.Expr:
        key = (e, *[numbers[i] for i in self._moved_by(e)])
        if key not in self._known:
            kids = tuple([self._value(k, numbers) for k in x.children(e)])
            new = self._change(e, kids)
            self._known[key] = x.rebuild(e, kids) if new is None else new
        return self._known[key]

    def _moved_by(self, e: x.Expr) -> tuple[int, ...]:
        """The positions of the moving axes that a node depends on."""
        if e not in self._parts:
            below = {i for k in x.children(e) for i in self._moved_by(k)}
            below |= {i for i, a in enumerate(self._moving) if a is e}
            self._parts[e] = tuple(sorted(below))
        return self._parts[e]
