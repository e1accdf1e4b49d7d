"""Random rows that are valid: of all blocks at once, or of each where that is rare."""

from __future__ import annotations

from functools import partial

import numpy as np

from tilework.space.decision import Rows
from tilework.space.draws import Draws
from tilework.space.nest import BlockNest
from tilework.space.programs import RowPrograms
from tilework.space.protocol import space_of

_MAX_SAMPLING_ROUNDS = 12
_RARE_DRAWS = 8192
"""Rows drawn of each block where valid ones are very rare."""


class RowSampling:
    """How rows of a sketch are drawn.

    Args:
        programs: its rows as programs.
        width: columns of a row.
    """

    def __init__(self, programs: RowPrograms, width: int) -> None:
        self._programs, self._width = programs, width
        fits, target = space_of(programs.target).fits, programs.target
        self._draws = tuple(
            Draws.of(own, block.spatial, partial(fits, block, target=target))
            for block, own in zip(programs.blocks, programs.by_block, strict=True)
        )

    def rows(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` valid rows (fewer only if valid ones are very rare)."""
        kept: list[Rows] = []
        total = 0
        for _ in range(_MAX_SAMPLING_ROUNDS):
            rows = self.drawn(rng, 2 * (n - total) + 16)
            good = np.flatnonzero(self._programs.within_limits(self._programs.parts(rows)))
            kept.append(rows[good[: n - total]])
            total += len(kept[-1])
            if total >= n:
                return np.concatenate(kept)
        kept.append(self._block_by_block(rng, n - total))
        return np.concatenate(kept)

    def drawn(self, rng: np.random.Generator, n: int) -> Rows:
        """Rows of random choices, valid or not."""
        columns = np.empty((self._width, n), np.int32)
        for draws in self._draws:
            draws.into(columns, rng)
        return columns.T

    def _block_by_block(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` valid rows where rows are rarely valid in all blocks at once."""
        target, draw = self._programs.target, max(2 * n, _RARE_DRAWS)
        out = np.empty((n, self._width), np.int32)
        blocks = zip(self._programs.blocks, self._programs.by_block, self._draws, strict=True)
        for block, own, draws in blocks:
            columns = np.ones((self._width, draw), np.int32)
            draws.into(columns, rng)
            good = space_of(target).valid(BlockNest.of(block, columns.T, own), target)
            rows = columns.T[good]
            if not len(rows):
                return out[:0]
            of_block = [c for d in own for c in d.columns]
            out[:, of_block] = rows[rng.integers(len(rows), size=n)][:, of_block]
        return out[self._programs.valid(out)]
