"""Tiles of a reduction that a block of threads computes from operands in shared memory.

Each thread computes a register tile for each of its virtual points, which lie a whole block of
threads apart::

    acc = 0
    for fetches:
      barrier; all threads fetch the boxes of the staged operands; barrier
      for inner terms (expanded as the row says):
        a[...], b[...] = fragments of the operands, in vectors where they are aligned
        acc[...] += a * b
    out = epilogue(acc), in vectors

With two stages a fetch is on its way while the one before it is computed with, past the registers
where the machine can, else in registers::

    fetch 0
    for fetches:
      wait for what is on its way; barrier
      send for the next one; compute; put the next one from registers to the other stage

One barrier a fetch suffices: what is written then was read before that barrier.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tilework.kinds.cuda.geometry import least_blocks, registers_asked
from tilework.kinds.cuda.lower.flat import Names, chosen, guarded, guards, named, place
from tilework.kinds.cuda.lower.inner import Inner
from tilework.kinds.cuda.lower.staged import Staged
from tilework.kinds.cuda.lower.terms import reduction, start
from tilework.kinds.cuda.lower.thread_tile import ThreadTile
from tilework.kinds.cuda.staging import DIRECT, box, operands, spans
from tilework.lower.common import (
    ZERO,
    Index,
    const,
    load,
    loop_var,
    nest,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.lower.ir import Barrier, Commit, If, Let, Region, Stmt, Wait, seq
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, Read, binary, compare


def lower_tiled(ctx: LoweringContext, block_nest: BlockNest, *, asynchronous: bool) -> Region:
    """The region of a block of the form "tiled".

    Args:
        ctx: the program's context.
        block_nest: of one row.
        asynchronous: whether the machine copies to shared memory past the registers.

    Raises:
        ScheduleError: a staged operand is itself a reduction.
    """
    return _Tiled(ctx, block_nest, asynchronous).region()


class _Tiled:
    def __init__(self, ctx: LoweringContext, block_nest: BlockNest, asynchronous: bool) -> None:
        self.ctx, self.nest, self.block = ctx, block_nest, block_nest.block
        self.asynchronous = asynchronous
        self.tile = ThreadTile(block_nest)
        self.count = math.prod(v.points for v in self.tile.threads.values())
        self.thread = loop_var("tid", self.count)
        self.terms = {a: int(block_nest.tiles[a][-1][0]) for a in self.block.reduce}
        self.fetches = {a: int(block_nest.tiles[a][0][0]) for a in self.block.reduce}
        stages = chosen(block_nest, "stages")
        self.stages = stages if math.prod(self.fetches.values()) > 1 else 1
        self.staged = self._staged()
        sizes = tuple(self.tile.size[a][n] for a in self.tile.axes for n in (1, 3))
        op = self.block.op
        self.acc = ctx.temporary(f"{op.name}.acc", sizes, op.dtype, "register")
        self.inner = Inner(ctx, block_nest, self.tile, self.acc, self.staged)

    def _staged(self) -> dict[Read, Staged]:
        out, span = {}, spans(self.nest)
        for i, operand in enumerate(operands(self.block)):
            if operand.stageable and chosen(self.nest, f"stage{i}") != DIRECT:
                region = box(self.nest, i, operand, span)
                out[operand.read] = Staged(
                    self.ctx, self.block, operand, region, self.stages, self.thread, self.count
                )
        return out

    def region(self) -> Region:
        """All of it."""
        first = self.tile.held(self.tile.axes)
        begin = first.each(start(self.acc, first.where(self.tile.axes), reduction(self.block)))
        two = self.staged and self.stages > 1
        body = seq(begin, self._two_stages() if two else self._one_stage(), self._finish())
        least = least_blocks(np.array([self.count]), registers_asked(self.nest))
        return Region(
            self.block.result.name,
            tuple(self.tile.grid.values()),
            body,
            tuple(self.tile.threads.values()),
            self.thread,
            int(least[0]),
        )

    # -- fetches --------------------------------------------------------------------------------

    def _one_stage(self) -> Stmt:
        variables = {a: loop_var(f"{a.name}.o", n) for a, n in self.fetches.items()}
        point = self._fetch_point({a: var_or_zero(v) for a, v in variables.items()})
        fills = [s.fill(ZERO, point) for s in self.staged.values()]
        loops = [(v, v.points, "serial") for v in variables.values() if v.points > 1]
        again = Barrier() if fills and loops else None
        ready = Barrier() if fills else None
        return nest(loops, seq(again, *fills, ready, self.inner.compute(ZERO, point)))

    def _two_stages(self) -> Stmt:
        total = math.prod(self.fetches.values())
        number, following = loop_var("fetch", total), loop_var("next", total)
        stage, other = loop_var("stage", 2), loop_var("other", 2)
        names, here = self._fetch_of(number)
        later_names, later = self._fetch_of(following)
        begin = self._fetch_point(dict.fromkeys(self.fetches, ZERO))
        passing = [s for s in self.staged.values() if self.asynchronous and s.passes(later)]
        others = [s for s in self.staged.values() if s not in passing]
        commit = Commit() if passing else None
        prologue = seq(
            *(s.copy(ZERO, begin) for s in passing), commit, *(s.fill(ZERO, begin) for s in others)
        )
        send = seq(
            *(s.copy(other, later) for s in passing), commit, *(s.take(later) for s in others)
        )
        send = Let(following, binary("+", number, const(1)), named(later_names, send))
        more = compare("<", number, const(total - 1))
        step = seq(
            Wait(0) if passing else None,
            Barrier(),
            If(more, send),
            named(names, self.inner.compute(stage, here)),
            If(more, seq(*(s.put(other) for s in others))) if others else None,
        )
        step = Let(other, binary("-", const(1), stage), step)
        step = Let(stage, binary("%", number, const(2)), step)
        return seq(prologue, nest([(number, total, "serial")], step))

    def _fetch_of(self, number: Axis) -> tuple[Names, Index]:
        """The first point of a fetch by its number."""
        names, point = place(number, self.fetches)
        return names, self._fetch_point(point)

    def _fetch_point(self, number: Mapping[Axis, Expr]) -> Index:
        """The first point of the block's tile and of a fetch, along each axis."""
        out = {a: self.tile.first(a) for a in self.tile.axes}
        for axis, n in number.items():
            out[axis] = weighted_sum([(n, self.terms[axis])])
        return out

    # -- results --------------------------------------------------------------------------------

    def _finish(self) -> Stmt:
        """The epilogue on the register tile."""
        axes = self.tile.axes
        held = self.tile.held(axes, axes[-1] if axes else None)
        at = {a: binary("+", self.tile.first(a), self.tile.local(a, held)) for a in axes}
        done = load(self.acc, held.where(axes))
        store = store_result(self.ctx, self.block, at, done)
        return held.each(guarded(guards(at, self.tile.covered()), store))
