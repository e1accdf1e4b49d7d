"""Fetches of a product's operands: from global into shared memory, past the registers.

Before (a convolution; m = output positions, k = taps and channels)::

    A_s[stage, m, k] = padded(data[y(m) + ry(k), x(m) + rx(k), c(k)])

After, for a block of T threads and pieces of 16 bytes along k::

    for q:  r = q * T / pieces + tid / pieces,  c = tid % pieces
        copy A_s[stage, r, c ^ s(r)] <- data[...]      zeros outside of the map and of m and k
"""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.index.extents import known_shape
from tilework.kinds.cuda.lower.flat import named, place
from tilework.kinds.cuda.mma.product import points
from tilework.kinds.cuda.mma.shared import SharedTile
from tilework.lower.common import (
    bind,
    const,
    load,
    loop_var,
    nest,
    var_or_zero,
    weighted_sum,
)
from tilework.lower.ir import AsyncCopy, Buffer, For, If, Let, Stmt, Store
from tilework.space.bounds import conjunction
from tilework.te.expr import Axis, Const, Expr, IfThenElse, binary, compare, walk


@frozen(eq=False)
class Fetch:
    """How one operand is fetched.

    Attributes:
        tile: where to.
        source: where from; its dimensions are in the order in which the operand lies.
        outer: axes of m or n, flattened, and ``first``, the first of their points in the block.
        inner: axes of k, flattened.
        batch: index along each axis of the batch.
        block_k: terms of a fetch.
        threads: of the block, and ``thread``, the number of each.
    """

    tile: SharedTile
    source: Buffer
    outer: tuple[Axis, ...]
    first: Expr
    inner: tuple[Axis, ...]
    batch: dict[Axis, Expr]
    block_k: int
    threads: int
    thread: Axis

    def stmt(self, stage: Expr, start: Expr) -> Stmt:
        """The thread's copies of one fetch.

        Args:
            stage: where to.
            start: the first term of k.
        """
        tile, threads = self.tile, self.threads
        row, piece = loop_var("row", tile.rows), loop_var("piece", tile.pieces)
        if tile.pieces <= threads:
            apart = threads // tile.pieces
            turns = -(-tile.rows // apart)
            turn = loop_var("turn", turns)
            own = binary("//", self.thread, const(tile.pieces))
            where = weighted_sum([(var_or_zero(turn), apart), (own, 1)])
            which = binary("%", self.thread, const(tile.pieces))
            overhang = turns * apart > tile.rows
        else:
            each = tile.pieces // threads
            turn = loop_var("turn", tile.rows * each)
            where = binary("//", turn, const(each))
            which = weighted_sum([(binary("%", turn, const(each)), threads), (self.thread, 1)])
            overhang = False
        body = self._piece(stage, start, row, piece)
        if overhang:
            body = If(compare("<", row, const(tile.rows)), body)
        body = Let(row, where, Let(piece, which, body))
        return nest([(turn, turn.points, "unroll")], body)

    def _piece(self, stage: Expr, start: Expr, row: Axis, piece: Axis) -> Stmt:
        """The copy of one piece."""
        along = weighted_sum([(piece, self.tile.piece)])
        shift, within = (row, along) if self.tile.factor.along == "k" else (along, row)
        guards: list[Expr] = []
        point = loop_var("point", _bound(self.outer, self._size))
        number = binary("+", self.first, shift)
        names, at = place(point, {a: a.points for a in self.outer})
        if points(self.outer) % self._size:
            guards.append(compare("<", point, const(points(self.outer))))
        term_names, terms = self._terms(start, within, guards)
        body = self._copy(stage, row, piece, {**self.batch, **at, **terms}, guards)
        body = named(names, named(term_names, body))
        return Let(point, number, body)

    @property
    def _size(self) -> int:
        """Points of m or n of a tile."""
        rows = known_shape(self.tile.buffer.shape[1:])
        return rows[0] if self.tile.factor.along == "k" else rows[1]

    def _terms(
        self, start: Expr, within: Expr, guards: list[Expr]
    ) -> tuple[list[tuple[Axis, Expr]], dict[Axis, Expr]]:
        """Variables to name, and the index along each axis of k, ``within`` behind ``start``."""
        *outer, last = self.inner
        if last.points % self.block_k == 0:  # a fetch has the same taps everywhere
            shift, tap = const(last.points), loop_var("tap", max(points(tuple(outer)), 2))
            names, at = place(tap, {a: a.points for a in outer})
            names = [(tap, binary("//", start, shift)), *names] if _wide(outer) else []
            at[last] = binary("+", binary("%", start, shift), within)
            if last.points == self.block_k:
                at[last] = within
            elif not _wide(outer):
                at[last] = binary("+", start, within)
            return names, at
        total = points(self.inner)
        term = loop_var("term", _bound(self.inner, self.block_k))
        names, at = place(term, {a: a.points for a in self.inner})
        if total % self.block_k:
            guards.append(compare("<", term, const(total)))
        return [(term, binary("+", start, within)), *names], at

    def _copy(
        self, stage: Expr, row: Expr, piece: Expr, at: dict[Axis, Expr], guards: list[Expr]
    ) -> Stmt:
        factor, source, tile = self.tile.factor, self.source, self.tile

        def index(e: Expr) -> Expr:
            return bind(e, at, lambda op, read, indices: read)

        start = tuple(index(factor.read.indices[d]) for d in factor.order)
        conditions = list(guards)
        if factor.guard is not None:
            conditions.append(index(factor.guard))
        when = conjunction(conditions)
        if source.own_strides is None and factor.whole:
            there = tile.at(stage, row, piece)
            return AsyncCopy(tile.buffer, there, source, start, tile.piece, when)
        # of rows that are no whole pieces, and of what lies in a larger array, nothing is aligned
        one = loop_var("e", tile.piece)
        axis = factor.axis
        if axis.points % tile.piece:  # a row ends within a piece
            conditions.append(compare("<", binary("+", at[axis], one), const(axis.points)))
            when = conjunction(conditions)
        value: Expr = load(source, self._moved(start, one))
        if when is not None:
            value = IfThenElse(value.dtype, when, value, Const(value.dtype, 0))
        store = Store(tile.buffer, tile.at(stage, row, piece, one), value)
        return For(one, tile.piece, "unroll", store)

    def _moved(self, start: tuple[Expr, ...], one: Axis) -> list[Expr]:
        """``start`` moved by ``one`` along the dimension that pieces lie along."""
        factor = self.tile.factor
        along = [any(x is factor.axis for x in walk(i)) for i in factor.read.indices]
        return [
            binary("+", e, one) if along[d] else e
            for d, e in zip(factor.order, start, strict=True)
        ]


def _wide(axes: list[Axis]) -> bool:
    return any(a.points > 1 for a in axes)


def _bound(axes: tuple[Axis, ...], size: int) -> int:
    """Points of whole tiles of so many."""
    return max(-(-points(axes) // size) * size, 2)
