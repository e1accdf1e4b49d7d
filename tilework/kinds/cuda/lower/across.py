"""Reductions across threads: neighbouring threads share the terms of a point.

::

    acc = 0
    for i in 0 .. terms / lanes:  acc += term[i * lanes + lane]
    combine acc over the lanes                     by shuffles; above 32 through shared memory
    lane 0:  out[point] = epilogue(acc)

A block computes several points, its groups. All its threads take part in combining: those without
a point compute the last one again and do not store it.
"""

from __future__ import annotations

import math

from tilework.index.extents import known
from tilework.kinds.cuda.lower.flat import chosen, guarded, named, place
from tilework.kinds.cuda.lower.terms import add, reduction, start
from tilework.lower.common import (
    ZERO,
    bind,
    const,
    loop_var,
    plain_read,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.epilogue import store_result
from tilework.lower.ir import Buffer, Combine, For, If, Let, Load, Region, Stmt, seq
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, binary, compare

WARP = 32


def lower_across(ctx: LoweringContext, block_nest: BlockNest) -> Region:
    """The region of a block of the form "across"."""
    block = block_nest.block
    node = reduction(block)
    lanes, groups = chosen(block_nest, "lanes"), chosen(block_nest, "groups")
    work = Groups.of(math.prod(a.points for a in block.spatial), groups, lanes)
    point_names, point = place(work.point, {a: a.points for a in block.spatial})
    terms = math.prod(a.points for a in block.reduce)
    term = loop_var("k", max(terms, 2))
    term_names, index = place(term, {a: a.points for a in block.reduce})
    acc = ctx.temporary(f"{block.op.name}.acc", (1,), block.op.dtype, "register")
    value = bind(node.source, point | index, plain_read(ctx))
    step: Stmt = named(term_names, add(acc, (ZERO,), node, value))
    if terms % lanes:
        step = If(compare("<", term, const(terms)), step)
    count = -(-terms // lanes)
    turn = loop_var("turn", count)
    number = weighted_sum([(var_or_zero(turn), lanes), (var_or_zero(work.lane), 1)])
    step = Let(term, number, step)
    if count > 1:
        copies = min(max(chosen(block_nest, "unroll"), 1), count)
        step = For(turn, count, "serial", step, expand=copies)
    store = work.once(store_result(ctx, block, point, Load(acc.dtype, acc, (ZERO,))))
    joined = combine(ctx, acc, node.kind, lanes, groups)
    body = named(point_names, seq(start(acc, (ZERO,), node), step, joined, store))
    return work.region(block.result.name, body)


def combine(ctx: LoweringContext, acc: Buffer, kind: str, lanes: int, groups: int) -> Stmt | None:
    """All lanes get the reduction of what each has; above a warp they need shared memory."""
    if lanes == 1:
        return None
    scratch = None
    if lanes > WARP:
        size = lanes * groups // WARP * known(acc.size)
        scratch = ctx.temporary(f"{acc.name}.part", (size,), acc.dtype, "block")
    return Combine(acc, kind, lanes, scratch)


class Groups:
    """Points shared out among groups of neighbouring threads.

    Attributes:
        block, group, lane: loop variables.
        point: stands for the group's point; the last one where there are too few.
    """

    def __init__(self, block: Axis, group: Axis, lane: Axis, total: int) -> None:
        self.block, self.group, self.lane, self.total = block, group, lane, total
        self.point = loop_var("p", max(total, 2))
        self._raw = loop_var("q", max(block.points * group.points, 2))

    @staticmethod
    def of(total: int, groups: int, lanes: int) -> Groups:
        """``total`` points, ``groups`` in a block, ``lanes`` threads each."""
        block = loop_var("block", -(-total // groups))
        return Groups(block, loop_var("group", groups), loop_var("lane", lanes), total)

    @property
    def whole(self) -> bool:
        """Whether every group has a point of its own."""
        return self.block.points * self.group.points == self.total

    def once(self, store: Stmt, *, every_lane: bool = False) -> Stmt:
        """A store by the group's first lane, or by every lane, of a point of its own."""
        conds: list[Expr] = []
        if self.lane.points > 1 and not every_lane:
            conds.append(compare("==", self.lane, const(0)))
        if not self.whole:
            conds.append(compare("<", self._raw, const(self.total)))
        return guarded(conds, store)

    def region(self, name: str, body: Stmt) -> Region:
        """The region in which all groups run ``body``."""
        groups = self.group.points
        number = weighted_sum([(var_or_zero(self.block), groups), (var_or_zero(self.group), 1)])
        last = const(self.total - 1)
        point = self._raw if self.whole else binary("min", self._raw, last)
        body = Let(self._raw, number, Let(self.point, point, body))
        return Region(name, (self.block,), body, (self.group, self.lane))
