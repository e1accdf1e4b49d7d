"""The terms of one fetch: fragments of the operands, and a multiply-add for each point and term.

Where an operand lies dense along the innermost terms and these are all expanded, several of them
are loaded together::

    for k in 0..2 (expanded):                a is staged as [row, k], b as [k, column]
      a[0..4][0..4] = vectors along k
      for j in 0..4 (expanded):
        b[0..8] = vectors along columns
        acc += a[.][j] * b[.]
"""

from __future__ import annotations

from collections.abc import Mapping

from tilework.kinds.cuda.expansion import expansion
from tilework.kinds.cuda.lower.flat import clamped
from tilework.kinds.cuda.lower.fragments import Fragment, Place
from tilework.kinds.cuda.lower.staged import Staged, element
from tilework.kinds.cuda.lower.terms import add, reduce_index, reduce_loops, reduce_vars, reduction
from tilework.kinds.cuda.lower.thread_tile import VECTORS, Held, ThreadTile
from tilework.kinds.cuda.staging import Operand, operands
from tilework.lower.common import (
    Index,
    bind,
    load,
    loop_var,
    nest,
    placed,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.context import LoweringContext
from tilework.lower.ir import Buffer, Load, Stmt, seq
from tilework.space.nest import BlockNest
from tilework.te.expr import Axis, Expr, IfThenElse, Read, binary, children
from tilework.te.tensor import Operation


class Terms:
    """Innermost loops over terms, of which some neighbours are taken together.

    Args:
        block_nest: of one row.
        count: terms of the innermost loop that are taken together; divides its extent.

    Attributes:
        count: of terms.
        term: one of them.
    """

    def __init__(self, block_nest: BlockNest, count: int) -> None:
        self.nest, self.count = block_nest, count
        self.term = loop_var("term", count)
        self._vars = reduce_vars(block_nest)
        self._last = innermost(block_nest)
        if self._last is not None:
            extent = self._vars[self._last].points // count
            self._group = loop_var(f"{self._last.name}.g", extent)

    def at(self, term: Expr) -> dict[Axis, Expr]:
        """The place of a term in the fetch."""
        out = reduce_index(self._vars)
        if self.count > 1 and self._last is not None:
            out[self._last] = weighted_sum([(var_or_zero(self._group), self.count), (term, 1)])
        return out

    def loop(self, before: Stmt | None, each: Stmt) -> Stmt:
        """``before`` for all groups of terms, and ``each`` for all terms of them."""
        body = seq(before, nest([(self.term, self.count, "unroll")], each))
        rest = dict(self._vars)
        if self.count > 1 and self._last is not None:
            body = nest([(self._group, self._group.points, "unroll")], body)
            rest[self._last] = loop_var("done", 1)
        return reduce_loops(self.nest, rest, body)


def innermost(block_nest: BlockNest) -> Axis | None:
    """The axis of the innermost loop over terms; None if there is only one term."""
    long = [a for a in block_nest.block.reduce if int(block_nest.tiles[a][-1][0]) > 1]
    return long[-1] if long else None


class Inner:
    """Computes fetches.

    Args:
        ctx: the program's context.
        block_nest: of one row.
        tile: the thread's points.
        acc: their sums.
        staged: operands in shared memory, by their reads.
    """

    def __init__(
        self, ctx: LoweringContext, block_nest: BlockNest, tile: ThreadTile, acc: Buffer,
        staged: Mapping[Read, Staged],
    ) -> None:  # fmt: skip
        self.ctx, self.nest, self.block = ctx, block_nest, block_nest.block
        self.tile, self.acc, self.staged = tile, acc, staged

    def compute(self, stage: Expr, first: Index) -> Stmt:
        """All terms of a fetch.

        Args:
            stage: where it is staged.
            first: the first point of the block's tile and of the fetch, along each axis.
        """
        terms, dense = self._terms(stage, first)
        fragments = self._fragments(stage, first, terms, dense)
        term = var_or_zero(terms.term)
        together = [f.fill() for f in fragments.values() if f.together > 1]
        alone = [f.fill(term) for f in fragments.values() if f.together == 1]
        update = self._update(fragments, first, terms)
        return terms.loop(seq(*together) if together else None, seq(*alone, update))

    def _terms(self, stage: Expr, first: Index) -> tuple[Terms, set[Read]]:
        """How many terms are taken together, and the operands that are loaded so."""
        last = innermost(self.nest)
        if last is not None:
            extent = int(self.nest.tiles[last][-1][0])
            expanded = int(expansion(self.nest)[last][0]) == extent
            for count in VECTORS if expanded else ():
                if extent % count == 0:
                    terms = Terms(self.nest, count)
                    fragments = self._fragments(stage, first, terms, set())
                    dense = {read for read, f in fragments.items() if f.is_dense(count)}
                    if dense:
                        return terms, dense
        return Terms(self.nest, 1), set()

    def _fragments(
        self, stage: Expr, first: Index, terms: Terms, dense: set[Read]
    ) -> dict[Read, Fragment]:
        """Registers for the operands that are loaded whatever the data are."""
        eager = eager_reads(self.block.source)
        out: dict[Read, Fragment] = {}
        for operand in operands(self.block):
            read = operand.read
            count = terms.count if read in dense else 1
            if read in self.staged:
                place = self._staged_place(read, stage, terms)
            elif operand.stageable and operand.attached is None and read in eager:
                place = self._memory_place(operand, first, terms)
            else:
                continue
            out[read] = Fragment(operand, self.tile, place, count)
        return out

    def _staged_place(self, read: Read, stage: Expr, terms: Terms) -> Place:
        staged = self.staged[read]
        return lambda held, term: staged.read(stage, self._local(held, terms, term))

    def _memory_place(self, operand: Operand, first: Index, terms: Terms) -> Place:
        buffer = self.ctx.buffers[operand.read.tensor.op]

        def place(held: Held, term: Expr) -> Load:
            local = self._local(held, terms, term)
            indices = []
            for form in operand.forms or ():
                where = {a: binary("+", first[a], local[a]) for a in form.coefficients}
                indices.append(placed(form, where))
            return load(buffer, indices)

        return place

    def _local(self, held: Held, terms: Terms, term: Expr) -> dict[Axis, Expr]:
        """The place in the block's tile and in the fetch, along the axes that are held."""
        return {a: self.tile.local(a, held) for a in held.virtual} | terms.at(term)

    def _update(self, fragments: Mapping[Read, Fragment], first: Index, terms: Terms) -> Stmt:
        """One term of all points."""
        axes, term = self.tile.axes, var_or_zero(terms.term)
        held = self.tile.held(axes)

        def resolve(op: Operation, read: Read, indices: tuple[Expr, ...]) -> Expr:
            if read in fragments:
                return fragments[read].at(held, term)
            return element(self.ctx, self.block, op, indices)

        local = self._local(held, terms, term)
        at = {a: binary("+", first[a], x) for a, x in local.items()}
        safe = at | clamped({a: at[a] for a in axes}, self.tile.covered())
        node = reduction(self.block)
        value = bind(node.source, safe, resolve)
        return held.each(add(self.acc, held.where(axes), node, value))


def eager_reads(e: Expr) -> set[Read]:
    """The reads that are made whatever the data are: those on no side of an `IfThenElse`."""
    if isinstance(e, Read):
        return {e}
    parts = (e.cond,) if isinstance(e, IfThenElse) else children(e)
    return {r for part in parts for r in eager_reads(part)}
