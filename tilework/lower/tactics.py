"""What a kind of machine does about memory in every program, whatever the schedule.

Tactics change no result: they ask for data early, and lay results out so that they do not push
each other out of a cache. A kind without any uses `Tactics` as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilework.index.extents import Extent
from tilework.lower.ir import Buffer, Stmt
from tilework.space.nest import BlockNest
from tilework.space.packings import Packed
from tilework.target import Target
from tilework.te.expr import Axis, Expr, Read
from tilework.te.tensor import Operation


class Tactics:
    """The neutral tactics: nothing is asked for, everything is dense. Kinds override them."""

    def masked_lanes(self, target: Target) -> int:
        """Points of a vector of which some may count, where a run decides how many are left.

        0 where the machine has no such vectors.
        """
        return target.lanes()

    def claim_tile(
        self, buffer: Buffer, start: Mapping[Axis, Expr], sizes: Mapping[Axis, int]
    ) -> Stmt | None:
        """Statements that announce that a box of a buffer is about to be written, or None.

        Args:
            buffer: what is going to be written.
            start, sizes: the box: an entry for each dimension of ``buffer``, in order.
        """
        return None

    def streamed(
        self, target: Target, nest: BlockNest, weight: Operation, packed: Packed
    ) -> int | Expr:
        """How many bytes ahead it pays to ask for the elements of a nest's packed weight.

        0: not at all. Of symbols where a run decides.
        """
        return 0

    def ahead(self, nest: BlockNest, read: Read) -> int | Expr:
        """The same of an operand of a nest's product that is no weight."""
        return 0

    def spread(self, shape: tuple[Extent, ...], dtype: str) -> tuple[Extent, ...]:
        """The shape to store a result in, of which transforms touch many places at once.

        At least as long as ``shape`` in every dimension; what is added is never read.
        """
        return shape


NEUTRAL = Tactics()
