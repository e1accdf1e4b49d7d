"""A space that holds recorded programs and no others, so that every answer was measured.

A search in it decides in which order programs are measured. Between two recorded programs there is
nothing: an answer for a program that nobody measured would have to be invented, and a search that
exploits what it found would be judged by inventions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.record import Record
from tilework.search.pool import Pool, PoolSpace
from tilework.space.sketch import Sketch

Rows = NDArray[np.int32]
NEAREST = 8
"""Recorded rows that count as a row's neighbours."""


@frozen(eq=False)
class ListedSketch(Sketch):
    """A sketch whose operators lead to listed rows only.

    Attributes:
        listed: N x D, distinct rows.
    """

    listed: Rows = field(default_factory=lambda: np.zeros((0, 0), np.int32))

    @staticmethod
    def of(sketch: Sketch, records: Iterable[Record]) -> ListedSketch:
        """A sketch with the rows of its records."""
        own = {r.decisions for r in records if r.sketch_id == sketch.id}
        fit = sorted(d for d in own if len(d) == sketch.num_decisions)
        listed = np.array(fit, np.int32).reshape(len(fit), sketch.num_decisions)
        values = {f.name: getattr(sketch, f.name) for f in fields(Sketch)}
        return ListedSketch(**values, listed=listed)

    @cached_property
    def _positions(self) -> dict[bytes, int]:
        return {row.tobytes(): i for i, row in enumerate(self.listed)}

    @cached_property
    def _nearest(self) -> NDArray[np.intp]:
        """Of each listed row, the others that differ from it in the fewest decisions."""
        far = np.stack([self._distance(row) for row in self.listed])
        np.fill_diagonal(far, np.inf)
        count = min(NEAREST, len(self.listed) - 1)
        return np.argsort(far, axis=1, kind="stable")[:, :count]

    def _distance(self, row: Rows) -> NDArray[np.float64]:
        """In how many decisions each listed row differs; then, by how many powers of two."""
        own, other = (np.log2(np.maximum(x, 0.5)) for x in (self.listed, row))
        gap = np.abs(own - other)
        decisions = [list(d.columns) for d in self.decisions]
        each = np.stack([gap[:, columns].sum(axis=1) for columns in decisions], axis=1)
        result: NDArray[np.float64] = ((each > 0) + each / 64).sum(axis=1)
        return result

    def snapped(self, rows: Rows) -> Rows:
        """The listed rows nearest to some rows."""
        found = [self._positions.get(np.ascontiguousarray(row).tobytes()) for row in rows]
        index = [
            int(np.argmin(self._distance(row))) if at is None else at
            for at, row in zip(found, rows, strict=True)
        ]
        return self.listed[index]

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Up to ``n`` of the listed rows."""
        return self.listed[rng.permutation(len(self.listed))[:n]]

    def mutate(self, rng: np.random.Generator, rows: Rows, *_: Any, **__: Any) -> Rows:
        """Of each row one of its nearest."""
        if len(self.listed) < 2 or not len(rows):
            return rows.copy()
        at = [self._positions[np.ascontiguousarray(row).tobytes()] for row in rows]
        near = self._nearest[at]
        picks = rng.integers(near.shape[1], size=len(rows))
        return self.listed[near[np.arange(len(rows)), picks]]

    def crossover(self, rng: np.random.Generator, a: Rows, b: Rows) -> Rows:
        """Either parent."""
        return np.where(rng.random((len(a), 1)) < 0.5, a, b).astype(np.int32)

    def moved(self, rng: np.random.Generator, other: Any, rows: Rows) -> Rows:
        """Some listed rows, as many."""
        return self.sample(rng, len(rows))

    def neighbours(self, rows: Rows) -> list[Rows]:
        """Of each row, the nearest listed rows."""
        return [self._near(row) for row in rows]

    def _near(self, row: Rows) -> Rows:
        at = self._positions.get(np.ascontiguousarray(row, np.int32).reshape(-1).tobytes())
        if at is None or len(self.listed) < 2:
            return self.listed[:0]
        return self.listed[self._nearest[at]]

    def canonical(self, rows: Rows) -> Rows:
        """Themselves: only what is listed was measured."""
        return rows

    def row_hash(self, rows: Rows) -> NDArray[np.uint64]:
        """An identity of each row."""
        return self._hashed(rows)

    def valid(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are listed."""
        known = self._positions
        return np.array([np.ascontiguousarray(row).tobytes() in known for row in rows], bool)


class ListedSpace(PoolSpace):
    """The recorded programs of a task; others that are handed in become the nearest one."""

    @staticmethod
    def around(space: PoolSpace, records: Sequence[Record]) -> ListedSpace:
        """The part of a space that the records are of."""
        listed = [ListedSketch.of(s, records) for s in space.sketches]  # type: ignore[arg-type]
        kept = [s for s in listed if len(s.listed)]
        return ListedSpace(kept, space.draft, space.rules_version)

    def pool(self, index: int, rows: Any) -> Pool:
        """See `PoolSpace.pool`."""
        sketch = self.sketches[index]
        wanted = np.asarray(rows, np.int32).reshape(-1, sketch.num_decisions)
        return super().pool(index, sketch.snapped(wanted) if len(wanted) else wanted)  # type: ignore[attr-defined]
