"""How the original makes programs: random annotation of a sketch, and mutations of a program.

A row is valid, or the attempt failed and nothing comes of it: there are no second tries but those
the original has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilework.space.decision import Decision
from tilework.space.sketch import Sketch
from tilework.space.tables import divisors

Rows = NDArray[np.int32]
TILE, UNROLL, LOCATION, PARALLEL = 0.90, 0.04, 0.05, 0.01
"""Shares of the mutations on a CPU."""
ITERATIONS_PER_CORE = 16
"""Parallel iterations after which no further loop is fused into the parallel one."""


@dataclass(frozen=True, eq=False)
class FactorMoves:
    """Moves of a factor from one level of an axis to another, between choices of one decision.

    Attributes:
        extent: of the axis.
        choices: N x C, the inner factors of each choice.
    """

    extent: int
    choices: Rows

    @cached_property
    def _order(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        codes = self._codes(self.choices)
        order = np.argsort(codes)
        return codes[order], order

    def _codes(self, columns: Rows) -> NDArray[np.int64]:
        base = int(self.choices.max(initial=1)) + 1
        out = np.zeros(len(columns), np.int64)
        for c in range(self.choices.shape[1]):
            out = out * base + np.minimum(columns[:, c], base - 1)
        return out

    def _find(self, columns: Rows) -> NDArray[np.intp]:
        """Which choice each row of columns is; -1 for none."""
        codes, order = self._order
        wanted = self._codes(columns)
        at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        return np.where(codes[at] == wanted, order[at], -1)

    @cached_property
    def _children(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Of each choice: where a move can lead, padded, and cumulative chances of these."""
        origin, child, chance = [], [], []
        for i, row in enumerate(self.choices):
            covered = int(np.prod(row, dtype=np.int64))
            lengths = (-(-self.extent // max(covered, 1)), *(int(v) for v in row))
            moves = []
            for source, length in enumerate(lengths):
                for to in range(len(lengths)):
                    if to == source or length < 2:
                        continue
                    found = []
                    for d in divisors(length)[1:]:
                        changed = list(lengths)
                        changed[source] //= d
                        changed[to] *= d
                        found.append(changed[1:])
                    kept = [c for c in self._find(np.array(found, np.int32)) if c >= 0]
                    if kept:
                        moves.append(kept)
            for kept in moves:
                origin += [i] * len(kept)
                child += kept
                chance += [1 / (len(kept) * len(moves))] * len(kept)
        counts = np.bincount(np.array(origin, np.int64), minlength=len(self.choices))
        width = int(counts.max(initial=0))
        places = np.full((len(self.choices), max(width, 1)), -1, np.int32)
        shares = np.zeros(places.shape)
        within = np.concatenate([np.arange(n) for n in counts]) if len(counts) else []
        if origin:
            places[origin, within] = child
            shares[origin, within] = chance
        return places, np.cumsum(shares, axis=1)

    def moved(self, rng: np.random.Generator, columns: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """The columns after one move each, and whether there was one."""
        where = self._find(columns)
        places, cumulative = self._children
        draws = rng.random(len(columns))
        at = (cumulative[where] < draws[:, None]).sum(axis=1)
        at = np.minimum(at, places.shape[1] - 1)
        child = places[where, at]
        ok = (where >= 0) & (child >= 0)
        return self.choices[np.where(ok, child, 0)], ok


class Moves:
    """The operators over the sketches of one task.

    Args:
        sketches: of the task.
        cores: threads of the target.
    """

    def __init__(self, sketches: Sequence[Sketch], cores: int) -> None:
        self.sketches, self._cores = sketches, cores
        self._factors: dict[tuple[int, int], FactorMoves] = {}
        self._relatives = [
            [j for j, other in enumerate(sketches) if j != i and _relatives(sketch, other)]
            for i, sketch in enumerate(sketches)
        ]

    # --- random annotation -------------------------------------------------------------------

    def sample(self, rng: np.random.Generator, count: int) -> list[tuple[int, Rows]]:
        """Valid rows of ``count`` attempts, by sketch: every sketch is as likely."""
        slots = rng.integers(len(self.sketches), size=count)
        out = []
        for i, sketch in enumerate(self.sketches):
            rows = np.empty((int((slots == i).sum()), sketch.num_decisions), np.int32)
            for d in sketch.decisions:
                rows[:, d.columns] = d.choices[rng.integers(len(d.choices), size=len(rows))]
            self._parallelise(sketch, rows)
            out.append((i, rows[sketch.valid(rows)]))
        return out

    def _parallelise(self, sketch: Sketch, rows: Rows) -> None:
        """Fuse outer loops until there are iterations enough for all cores; not at random."""
        for own, nest in zip(sketch.by_block, sketch.nests(rows), strict=True):
            for d in own:
                if d.kind != "parallel":
                    continue
                total, wanted = np.ones(len(rows)), np.zeros(len(rows), np.int32)
                for axis, level in nest.block.parallel_loops:
                    wanted += total <= ITERATIONS_PER_CORE * self._cores
                    total = total * nest.tiles[axis][level]
                allowed = np.sort(d.choices[:, 0])
                at = np.minimum(np.searchsorted(allowed, wanted), len(allowed) - 1)
                rows[:, d.columns[0]] = allowed[at]

    # --- mutation ----------------------------------------------------------------------------

    def mutate(self, rng: np.random.Generator, index: int, rows: Rows) -> list[tuple[int, Rows]]:
        """Children of rows of one sketch, with their sketches; attempts that fail leave none."""
        draws = rng.random(len(rows))
        bounds = np.cumsum([TILE, UNROLL, LOCATION, PARALLEL])
        kind = np.searchsorted(bounds, draws * bounds[-1])
        sketch = self.sketches[index]
        children = [
            self._tiles(rng, sketch, rows[kind == 0], index),
            self._redrawn(rng, sketch, rows[kind == 1], "unroll"),
            self._redrawn(rng, sketch, rows[kind == 3], "parallel", differ=True),
        ]
        found = np.concatenate(children)
        out = [(index, found[sketch.valid(found)])]
        relatives, moved = self._relatives[index], rows[kind == 2]
        if relatives and len(moved):
            to = rng.integers(len(relatives), size=len(moved))
            for i in np.unique(to):
                there = relatives[i]
                out.append((there, self._relocated(rng, index, there, moved[to == i])))
        return out

    def _tiles(self, rng: np.random.Generator, sketch: Sketch, rows: Rows, index: int) -> Rows:
        """A factor of one axis moved to another of its levels."""
        live = [
            (i, d)
            for i, d in enumerate(sketch.decisions)
            if d.kind == "tile" and d.axis is not None and d.axis.extent > 1
        ]
        if not live:
            return rows[:0]
        out, done = rows.copy(), np.zeros(len(rows), bool)
        which = rng.integers(len(live), size=len(rows))
        for n, (i, d) in enumerate(live):
            at = np.flatnonzero(which == n)
            if len(at):
                moves = self._moves_of(index, i, d)
                changed, ok = moves.moved(rng, rows[at][:, d.columns])
                out[np.ix_(at[ok], d.columns)] = changed[ok]
                done[at[ok]] = True
        return out[done]

    def _moves_of(self, index: int, i: int, decision: Decision) -> FactorMoves:
        found = self._factors.get((index, i))
        if found is None:
            assert decision.axis is not None
            for other in self._factors.values():  # sketches share their tables
                if other.choices is decision.choices and other.extent == decision.axis.extent:
                    found = other
                    break
            found = found or FactorMoves(decision.axis.extent, decision.choices)
            self._factors[index, i] = found
        return found

    def _redrawn(
        self,
        rng: np.random.Generator,
        sketch: Sketch,
        rows: Rows,
        kind: str,
        *,
        differ: bool = False,
    ) -> Rows:
        """One decision of a kind drawn again; a draw may give what was there."""
        own = [d for d in sketch.decisions if d.kind == kind and len(d.choices) > 1]
        if not own or not len(rows):
            return rows[:0]
        out = rows.copy()
        which = rng.integers(len(own), size=len(rows))
        for n, d in enumerate(own):
            at = np.flatnonzero(which == n)
            picks = d.choices[rng.integers(len(d.choices), size=len(at))]
            out[np.ix_(at, d.columns)] = picks
        changed = (out != rows).any(axis=1)
        return out[changed] if differ else out

    def _relocated(self, rng: np.random.Generator, index: int, there: int, rows: Rows) -> Rows:
        """Rows of one sketch as rows of another, that computes a stage at another place."""
        here, other = self.sketches[index], self.sketches[there]
        known = {d.key: d for d in here.decisions}
        out = np.empty((len(rows), other.num_decisions), np.int32)
        for d in other.decisions:
            same = known.get(d.key)
            if same is not None and len(same.columns) == len(d.columns):
                out[:, d.columns] = rows[:, same.columns]
            else:
                out[:, d.columns] = d.choices[rng.integers(len(d.choices), size=len(rows))]
        return out[other.valid(out)]


def _relatives(a: Sketch, b: Sketch) -> bool:
    """Whether two sketches tile alike and differ in where an untiled stage is computed."""
    return a.dag is b.dag and _tiled(a) == _tiled(b)


def _tiled(sketch: Sketch) -> tuple[object, ...]:
    return tuple(
        (block.op, str(block.levels), block.write_depth, block.sums, block.epilogue)
        for block in sketch.blocks
        if block.levels.reuse
    )
