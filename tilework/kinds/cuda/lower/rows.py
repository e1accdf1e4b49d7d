"""Row chains: a row stays in its lanes' registers, from its first stage to its result.

Softmax, for example::

    h[i] = x[row, i * lanes + lane]                        what several stages read
    top = max of h[i];  combine top over the lanes
    e[i] = exp(h[i] - top)
    sum = sum of e[i];  combine sum over the lanes
    y[row, i * lanes + lane] = e[i] / sum

Neighbouring columns are accessed in vectors where they may be. All loops over columns are
expanded. `tilework.kinds.cuda.row_chain` says what is held.
"""

from __future__ import annotations

from collections.abc import Callable

from tilework.kinds.cuda.lower.across import Groups, combine
from tilework.kinds.cuda.lower.flat import chosen, named, place
from tilework.kinds.cuda.lower.terms import add, start
from tilework.kinds.cuda.row_chain import Place, chain_of, per_thread, width
from tilework.lower.common import (
    COMBINE,
    ZERO,
    bind,
    const,
    load,
    loop_var,
    nest,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Buffer, If, Let, Load, Region, Stmt, Store, seq
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, Read, Reduce, binary, compare
from tilework.te.tensor import Compute, Operation

Element = tuple[Expr, Expr]
"""Of what a thread holds: the number of the vector, and the lane in it."""


def lower_rows(ctx: LoweringContext, block_nest: BlockNest) -> Region:
    """The region of a block of the form "rows"."""
    return _Rows(ctx, block_nest).region()


class _Rows:
    def __init__(self, ctx: LoweringContext, block_nest: BlockNest) -> None:
        self.ctx, self.chain = ctx, chain_of(block_nest.block)
        self.lanes, self.groups = chosen(block_nest, "lanes"), chosen(block_nest, "groups")
        self.width = int(width(block_nest)[0])
        self.vectors = int(per_thread(block_nest)[0]) // self.width
        self.work = Groups.of(self.chain.count, self.groups, self.lanes)
        self.names, self.row = place(self.work.point, {a: a.points for a in self.chain.rows})
        shape = (self.vectors, self.width)
        self.held: dict[tuple[Operation, Place], Buffer] = {
            (op, at): ctx.temporary(f"{op.name}.row", shape, op.dtype, "register")
            for op, at in self.chain.held()
        }
        self.scalars: dict[Compute, Buffer] = {}

    def region(self) -> Region:
        loads = [
            self._columns(self._fetch(op, at, buffer))
            for (op, at), buffer in self.held.items()
            if op not in self.chain.bodies
        ]
        stages = [self._stage(s) for s in self.chain.stages]
        body = named(self.names, seq(*loads, *stages))
        return self.work.region(self.chain.anchor.name, body)

    def _stage(self, stage: Compute) -> Stmt | None:
        """What computes a stage; nothing where it is computed inside its only reader."""
        out: Stmt | None = None
        if isinstance(self.chain.bodies[stage], Reduce):
            out = self._reduce(stage)
        elif not self.chain.wide(stage) and stage is not self.chain.anchor:
            self.scalars[stage] = self._register(stage, (1,))
            out = Store(self.scalars[stage], (ZERO,), self._value(stage, {}, (ZERO, ZERO)))
        elif self._own(stage) in self.held:
            buffer = self.held[self._own(stage)]
            out = self._columns(lambda at, e: Store(buffer, e, self._value(stage, at, e)))
        if stage is self.chain.anchor:
            return seq(out, self._store(stage))
        return out

    def _own(self, stage: Compute) -> tuple[Operation, Place]:
        """How a stage is held: at its own place."""
        return stage, tuple(self.chain.places[stage][a] for a in stage.axes)

    def _reduce(self, stage: Compute) -> Stmt:
        """A reduction of the row: first of what each lane holds, then over the lanes."""
        node = self.chain.bodies[stage]
        assert isinstance(node, Reduce)
        parts = self._register(stage, (self.width,))
        total = self.scalars[stage] = self._register(stage, (1,)) if self.width > 1 else parts
        begin = seq(*(start(parts, (const(v),), node) for v in range(self.width)))

        def step(at: dict[Axis, Expr], e: Element) -> Stmt:
            return add(parts, (e[1],), node, self._value(stage, at, e))

        folded: Expr = load(parts, (ZERO,))
        for v in range(1, self.width):
            folded = binary(COMBINE[node.kind], folded, load(parts, (const(v),)))
        fold = Store(total, (ZERO,), folded) if self.width > 1 else None
        joined = combine(self.ctx, total, node.kind, self.lanes, self.groups)
        return seq(begin, self._columns(step), fold, joined)

    def _store(self, stage: Compute) -> Stmt:
        """The anchor's elements; those of rows alone by the first lane."""
        out = self.ctx.buffers[stage]

        def store(at: dict[Axis, Expr], e: Element) -> Stmt:
            places = self.chain.places[stage]
            everywhere = {**self.row, **at}
            index = [ZERO if (p := places[a]) is None else everywhere[p] for a in stage.axes]
            if stage in self.scalars:
                return Store(out, tuple(index), load(self.scalars[stage], (ZERO,)))
            return Store(out, tuple(index), self._value(stage, at, e))

        if self.chain.wide(stage):
            return self.work.once(self._columns(store), every_lane=True)
        return self.work.once(store({}, (ZERO, ZERO)))

    def _fetch(
        self, op: Operation, at: Place, buffer: Buffer
    ) -> Callable[[dict[Axis, Expr], Element], Stmt]:
        """Loads of an array that is held."""

        def fetch(columns: dict[Axis, Expr], e: Element) -> Stmt:
            where = {**self.row, **columns}
            index = [ZERO if a is None else where[a] for a in at]
            return Store(buffer, e, load(self.ctx.buffers[op], index))

        return fetch

    def _columns(self, make: Callable[[dict[Axis, Expr], Element], Stmt]) -> Stmt:
        """``make`` of all the columns that a thread has, given their place and their element."""
        vector, lane = loop_var("i", self.vectors), loop_var("v", self.width)
        count = self.chain.terms // self.width
        number = loop_var("u", max(self.vectors * self.lanes, 2))
        extents = {a: a.points for a in self.chain.columns}
        last = self.chain.columns[-1]
        extents[last] //= self.width
        names, at = place(number, extents)
        at[last] = weighted_sum([(at[last], self.width), (var_or_zero(lane), 1)])
        body = nest(
            [(lane, self.width, "vector")], make(at, (var_or_zero(vector), var_or_zero(lane)))
        )
        body = named(names, body)
        if self.vectors * self.lanes > count:
            body = If(compare("<", number, const(count)), body)
        value = weighted_sum([(var_or_zero(vector), self.lanes), (var_or_zero(self.work.lane), 1)])
        return nest([(vector, self.vectors, "unroll")], Let(number, value, body))

    def _value(self, stage: Compute, columns: dict[Axis, Expr], e: Element) -> Expr:
        """What a stage computes (or reduces) at a place."""
        body = self.chain.bodies[stage]
        source = body.source if isinstance(body, Reduce) else body
        where = {**self.row, **columns}
        axes = {
            a: ZERO if p is None else where[p]
            for a, p in self.chain.places[stage].items()
            if p is None or p in where
        }
        known: dict[Compute, Expr] = {}

        def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
            at = self.chain.place(stage, read)
            buffer = self.held.get((op, at)) if at is not None else None
            if buffer is not None:
                return Load(op.dtype, buffer, e)
            if not isinstance(op, Compute) or op not in self.chain.bodies:
                return load(self.ctx.buffers[op], indices)
            if op in self.scalars:
                return load(self.scalars[op], (ZERO,))
            if op not in known:
                known[op] = self._value(op, columns, e)
            return known[op]

        return bind(source, axes, resolve)

    def _register(self, stage: Compute, shape: tuple[int, ...]) -> Buffer:
        return self.ctx.temporary(f"{stage.name}.acc", shape, stage.dtype, "register")
