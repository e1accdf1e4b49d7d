"""Tiles of operands in shared memory, arranged so that no two threads wait for one bank.

A tile is rows of pieces of 16 bytes. Memory delivers 128 bytes at a time, from 8 columns of such
pieces; instructions read a piece of each of 8 neighbouring rows, which plain rows of 128 bytes
would keep in one column. So piece c of row r lies where piece ``c ^ s(r)`` would: neighbouring
rows use other columns, and whole rows are still whole rows.

::

    row 0:  0 1 2 3 4 5 6 7
    row 1:  1 0 3 2 5 4 7 6
    row 2:  2 3 0 1 6 7 4 5
"""

from __future__ import annotations

from tilework.frozen import frozen
from tilework.index.extents import known
from tilework.kinds.cuda.mma.product import Factor
from tilework.lower.common import const
from tilework.lower.ir import Buffer
from tilework.te.expr import Expr, binary

COLUMNS = 8
"""Pieces of 16 bytes that shared memory delivers at once."""


@frozen(eq=False)
class SharedTile:
    """One operand's tiles in shared memory, one for each stage.

    Attributes:
        factor: the operand.
        buffer: stages x rows x elements of a row.
        piece: elements of a piece.
    """

    factor: Factor
    buffer: Buffer
    piece: int

    @property
    def rows(self) -> int:
        """Of a tile: points of m or n where pieces lie along k, else terms of k."""
        return known(self.buffer.shape[1])

    @property
    def pieces(self) -> int:
        """Of a row, a power of two."""
        return known(self.buffer.shape[2]) // self.piece

    def at(self, stage: Expr, row: Expr, piece: Expr, offset: int | Expr = 0) -> tuple[Expr, ...]:
        """Indices of an element: ``offset`` behind the first one of a piece."""
        column = binary("*", self._column(row, piece), const(self.piece))
        return (stage, row, binary("+", column, offset))

    def _column(self, row: Expr, piece: Expr) -> Expr:
        """Where a piece of a row lies."""
        count = min(self.pieces, COLUMNS)
        if count == 1:
            return piece
        row = binary("//", row, const(COLUMNS // count))  # these lie in one row of banks
        if self.words:
            turn = binary("*", binary("%", row, const(count // 2)), const(2))
        else:
            turn = binary("%", row, const(count))
        return binary("^", piece, turn)

    @property
    def words(self) -> bool:
        """Whether operands are read by words, not by pieces: two pieces of each of four rows.

        What lies along m or n is transposed as it is read, which instructions do for elements of
        two bytes alone.
        """
        return self.factor.along == "outer" and self.factor.itemsize == 4
