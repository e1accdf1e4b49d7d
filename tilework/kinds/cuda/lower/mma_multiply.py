"""What a warp multiplies of one stage: fragments of both operands, and sums of their products.

Each thread of a warp holds its part of a matrix in registers, as the instruction asks for: of 16
rows of A and of 8 columns of B, for 16 terms of k (or 8 of tf32). ``ldmatrix`` brings four
matrices of 8 rows by 16 bytes at once, for which each thread names one row; its transposing form
serves operands of two bytes that lie along m or n. Of floats that lie so, threads read words.
"""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.index.extents import known, known_shape
from tilework.kinds.cuda.mma.instructions import (
    COLUMNS,
    COLUMNS_OF,
    INSTRUCTIONS,
    ROUND_TF32,
    ROWS,
    ROWS_OF,
    Kind,
)
from tilework.kinds.cuda.mma.shared import SharedTile
from tilework.lower.common import const, load, loop_var, nest, var_or_zero, weighted_sum
from tilework.lower.ir import Buffer, For, Intrinsic, Load, Stmt, seq
from tilework.te.expr import Axis, Expr, binary

REGISTERS = 4
"""That one ``ldmatrix`` fills, and an instruction takes of A."""


@frozen(eq=False)
class Multiply:
    """One warp's part of a tile.

    Attributes:
        kind: what is multiplied.
        a, b: where the operands are in shared memory.
        fragments_a, fragments_b: registers for one step: rows by 16 x 4, columns by 16 x 4.
        sums: accumulators: rows by 16 x columns by 8 x 4.
        row, column: where the warp's part begins in the block's tile.
        lane: the thread's number in its warp.
        steps: of the instruction along k in one stage.
    """

    kind: Kind
    a: SharedTile
    b: SharedTile
    fragments_a: Buffer
    fragments_b: Buffer
    sums: Buffer
    row: Expr
    column: Expr
    lane: Axis
    steps: int

    def stmt(self, stage: Expr) -> Stmt:
        """Multiply what is in a stage."""
        step = loop_var("step", self.steps)
        at = var_or_zero(step)
        body = seq(self._rows(stage, at), self._columns(stage, at), self._products())
        return nest([(step, self.steps, "unroll")], body)

    # -- fragments ----------------------------------------------------------------------------

    def _rows(self, stage: Expr, step: Expr) -> Stmt:
        """Fragments of A: 8x8 matrices of rows 0-7 and 8-15 and of either half of the terms."""
        count = known(self.fragments_a.shape[0])
        i = loop_var("i", count)
        first = weighted_sum([(self.row, 1), (var_or_zero(i), ROWS)])
        place = self.fragments_a, var_or_zero(i), self.a, stage, step, first
        if self.a.words:
            body = self._words(*place, rows=True)
        else:
            body = self._matrices(*place, self._digit(8, 2), self._digit(16, 2))
        return nest([(i, count, "unroll")], body)

    def _columns(self, stage: Expr, step: Expr) -> Stmt:
        """Fragments of B, of 16 columns at once: both halves of the terms of 0-7, then of 8-15."""
        count = known(self.fragments_b.shape[0])
        j = loop_var("j", count)
        first = weighted_sum([(self.column, 1), (var_or_zero(j), 2 * COLUMNS)])
        place = self.fragments_b, var_or_zero(j), self.b, stage, step, first
        if self.b.words:
            body = self._words(*place, rows=False)
        else:
            body = self._matrices(*place, self._digit(16, 2), self._digit(8, 2))
        return nest([(j, count, "unroll")], body)

    def _matrices(
        self,
        fragment: Buffer,
        number: Expr,
        tile: SharedTile,
        stage: Expr,
        step: Expr,
        first: Expr,
        lower: Expr,
        later: Expr,
    ) -> Stmt:
        """Four 8x8 matrices at once.

        Args:
            fragment, number: the registers.
            tile, stage: where they come from.
            step: along k.
            first: of the points of m or n.
            lower: 1 in threads that name rows of the other 8 points.
            later: 1 in threads that name the other half of the terms.
        """
        own = self._digit(1, 8)
        if tile.factor.along == "k":
            row = weighted_sum([(first, 1), (lower, 8), (own, 1)])
            piece, gather = weighted_sum([(step, 2), (later, 1)]), ROWS_OF[tile.factor.itemsize]
        else:
            row = weighted_sum([(step, 16), (later, 8), (own, 1)])
            piece = weighted_sum([(binary("//", first, const(8)), 1), (lower, 1)])
            gather = COLUMNS_OF
        out = load(fragment, (number, const(0)))
        read = Intrinsic(gather, (out,), (load(tile.buffer, tile.at(stage, row, piece)),))
        if self.kind != "tf32" or tile.factor.constant:
            return read
        q = loop_var("q", REGISTERS)
        one = load(fragment, (number, q))
        rounded = Intrinsic(ROUND_TF32, (one,), (one,))
        return seq(read, For(q, REGISTERS, "unroll", rounded))

    def _words(
        self,
        fragment: Buffer,
        number: Expr,
        tile: SharedTile,
        stage: Expr,
        step: Expr,
        first: Expr,
        rows: bool,
    ) -> Stmt:
        """The same of floats that lie along m or n; ``rows``: the halves of m come first."""
        q = loop_var("q", REGISTERS)
        low, high = binary("%", q, const(2)), binary("//", q, const(2))
        lower, later = (low, high) if rows else (high, low)
        term = weighted_sum([(step, 8), (later, 4), (self._digit(1, 4), 1)])
        pieces = [(binary("//", first, const(4)), 1), (lower, 2), (self._digit(16, 2), 1)]
        at = tile.at(stage, term, weighted_sum(pieces), self._digit(4, 4))
        body = Intrinsic(ROUND_TF32, (load(fragment, (number, q)),), (load(tile.buffer, at),))
        return For(q, REGISTERS, "unroll", body)

    def _digit(self, unit: int, count: int) -> Expr:
        """``lane / unit % count``."""
        value = binary("//", self.lane, const(unit))
        return value if unit * count == self.lane.points else binary("%", value, const(count))

    # -- products -----------------------------------------------------------------------------

    def _products(self) -> Stmt:
        """One instruction for each 16 rows and 8 columns."""
        rows, columns, _ = known_shape(self.sums.shape)
        i, j = loop_var("i", rows), loop_var("j", columns)
        at, to = var_or_zero(i), var_or_zero(j)
        sums = load(self.sums, (at, to, const(0)))
        a = load(self.fragments_a, (at, const(0)))
        half = binary("*", binary("%", to, const(2)), const(2))
        b = load(self.fragments_b, (binary("//", to, const(2)), half))
        body: Stmt = Intrinsic(INSTRUCTIONS[self.kind], (sums,), (a, b))
        return nest([(i, rows, "unroll"), (j, columns, "unroll")], body)


def element(sums: Buffer, i: Expr, j: Expr, half: Expr, one: Expr) -> Load:
    """An accumulator: that of row ``lane / 4 + 8 half`` and column ``lane % 4 * 2 + one``."""
    return load(sums, (i, j, weighted_sum([(half, 2), (one, 1)])))
