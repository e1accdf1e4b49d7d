"""Rows of a sketch as programs: which of them are within limits, and which are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.space.blocks import Block
from tilework.space.decision import Decision, Rows
from tilework.space.nest import BlockRows
from tilework.space.protocol import space_of
from tilework.target import Target


@frozen(eq=False)
class RowPrograms:
    """What rows of decisions are, asked of the target's kind for a whole population at once.

    Attributes:
        id: of the sketch; rows of another one are other programs.
        blocks, by_block: the sketch's blocks, and the decisions of each.
        target: the machine.
    """

    id: int
    blocks: tuple[Block, ...]
    by_block: tuple[tuple[Decision, ...], ...]
    target: Target

    def parts(self, rows: Rows) -> list[BlockRows]:
        """The given rows as each block sees them."""
        pairs = zip(self.blocks, self.by_block, strict=True)
        alone = len(self.blocks) == 1
        return [BlockRows.of(block, rows, own, alone=alone) for block, own in pairs]

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are within limits; see `tilework.space.Sketch.valid`."""
        if rows.min(initial=0) >= 0:
            return self.within_limits(self.parts(rows))
        ok = np.all(rows >= 0, axis=1)
        return np.asarray(ok & self.within_limits(self.parts(np.maximum(rows, 0))))

    def within_limits(self, parts: Sequence[BlockRows]) -> NDArray[np.bool_]:
        """Which rows of table entries are within the target's limits in all blocks."""
        space = space_of(self.target)
        each = [part.of_all(space.valid(part.nest, self.target)) for part in parts]
        ok: NDArray[np.bool_] = np.logical_and.reduce(each)
        return ok

    def canonical(self, rows: Rows, parts: Sequence[BlockRows]) -> Rows:
        """The rows with columns that have no effect set to zero."""
        out, space = rows.copy(), space_of(self.target)
        for own, part in zip(self.by_block, parts, strict=True):
            plain = space.canonical(part.nest, self.target)
            for d in own:
                if d.kind in plain:
                    out[:, d.columns[0]] = part.of_all(plain[d.kind])
        return out

    def hashes(self, rows: Rows, parts: Sequence[BlockRows]) -> NDArray[np.uint64]:
        """A 64-bit identity of each row's program: columns without effect do not count."""
        plain = self.canonical(rows, parts)
        h = np.full(len(rows), 1469598103934665603 + self.id, np.uint64)
        with np.errstate(over="ignore"):
            for c in range(rows.shape[1]):
                h = (h ^ plain[:, c].astype(np.uint64)) * np.uint64(1099511628211)
                h ^= h >> np.uint64(29)
        return h

    def judged(self, rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Which rows of table entries are valid, and the identity of each."""
        parts = self.parts(rows)
        return self.within_limits(parts), self.hashes(rows, parts)
