"""Moves: how one program becomes another, for a whole population at once.

Every decision is a table of choices, so that a move is an arrow from one choice to another: the
arrows of a table are listed once, and a population follows them with indices alone. A child is
made by one of

- a *redraw*: any other choice of one decision;
- a *step*: the nearest choice in which one level of a tile (or the one number of another decision)
  is larger, or smaller;
- a *factor*: a prime factor of one level of an axis goes to another level of the same axis, the
  loop that the row does not write down, outermost, included;
- a *trade*: the register tile of one axis gives a factor up, that of another takes one.

Decisions with one choice take no part. What comes out invalid, or is the program of its parent or
one that is known already, is tried again from its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.cache import BoundedCache
from tilework.frozen import frozen
from tilework.once import cached_property
from tilework.space.decision import Decision, Rows

Indices = NDArray[np.int64]
Judge = Callable[[Rows], tuple[NDArray[np.bool_], NDArray[np.uint64]]]
"""Which rows are valid, and the identity of each row's program."""

STEP, FACTOR, TRADE = 0.25, 0.35, 0.15
"""Chances of a child's move; the others are redraws."""
TWICE = 0.3
"""Chance that a child moves once more."""
DRAWS = (1, 4)
"""Children that are drawn of each row; then of each row of which none was good."""
_SHARES = np.cumsum([STEP, FACTOR, TRADE])
_SMALLER, _LARGER, _NONE = 2, 3, 4
"""Arrows of a move: of steps, of factors, the two halves of a trade, and none."""
_LARGEST = 1024
"""Choices of a table in which steps are looked for: pairs of them are compared."""


@frozen(eq=False)
class Arrows:
    """From each choice to others: of choice ``i`` to ``to[start[i] : start[i] + count[i]]``."""

    start: Indices
    count: Indices
    to: Indices

    @staticmethod
    def of(size: int, pairs: Sequence[tuple[Indices, Indices]]) -> Arrows:
        """Arrows between ``size`` choices, from pairs of sources and ends; each counts once."""
        codes_of = [a * size + b for a, b in pairs]
        codes = np.unique(np.concatenate(codes_of)) if codes_of else np.zeros(0, np.int64)
        count = np.bincount(codes // size, minlength=size) if size else np.zeros(0, np.int64)
        return Arrows(np.cumsum(count) - count, count, codes % max(size, 1))

    def within(self, keep: NDArray[np.bool_]) -> Arrows:
        """Those that a mask over ``to`` keeps."""
        source = np.repeat(np.arange(len(self.count)), self.count)[keep]
        count = np.bincount(source, minlength=len(self.count))
        return Arrows(np.cumsum(count) - count, count, self.to[keep])

    @staticmethod
    def joined(parts: Sequence[Arrows]) -> Arrows:
        """The arrows of several tables, whose choices are numbered one table after the other."""
        sizes = np.cumsum([0, *(len(p.count) for p in parts)])
        lengths = np.cumsum([0, *(len(p.to) for p in parts)])
        none = np.zeros(0, np.int64)
        return Arrows(
            np.concatenate([none, *(p.start + n for p, n in zip(parts, lengths, strict=False))]),
            np.concatenate([none, *(p.count for p in parts)]),
            np.concatenate([none, *(p.to + n for p, n in zip(parts, sizes, strict=False))]),
        )


class Table:
    """The choices of one decision, N x C: their numbers, and arrows from one to another.

    Args:
        choices: distinct rows.
        extent: of the axis that they tile, whose outermost loop is what they leave; 0 if none.
    """

    def __init__(self, choices: Rows, extent: int) -> None:
        self.choices = choices
        self._extent = extent
        self._base = np.asarray(choices.max(axis=0, initial=0), np.int64) + 1
        codes = self._codes(choices.astype(np.int64))
        self._order = np.argsort(codes, kind="stable")
        self._sorted = codes[self._order]

    def __len__(self) -> int:
        return len(self.choices)

    def _codes(self, values: NDArray[np.int64]) -> Indices:
        out = np.zeros(len(values), np.int64)
        for c in range(values.shape[1]):
            out = out * self._base[c] + values[:, c]
        return out

    def numbers(self, values: NDArray[np.integer]) -> Indices:
        """The number of each choice, from its values (P x C); -1 where it is none of the table."""
        wide = values.astype(np.int64)
        known = np.logical_and.reduce((wide >= 0) & (wide < self._base), axis=1)
        codes = self._codes(np.where(known.reshape(-1, 1), wide, 0))
        at = np.minimum(np.searchsorted(self._sorted, codes), len(self) - 1)
        return np.where(known & (self._sorted[at] == codes), self._order[at], -1)

    @cached_property
    def steps(self) -> Arrows:
        """To the nearest choices with a larger, and a smaller, number in one column.

        Near in the logarithms of all levels. Tables too large to compare all pairs have none.
        """
        size, pairs = len(self), []
        if 1 < size <= _LARGEST:
            levels = np.log2(np.maximum(self._levels, 1))
            apart = np.abs(levels[:, None] - levels[None]).sum(axis=2)
            for c in range(self.choices.shape[1]):
                column = self.choices[:, c]
                for farther in (column[None] > column[:, None], column[None] < column[:, None]):
                    reach = np.where(farther, apart, np.inf)
                    source = np.flatnonzero(farther.any(axis=1))
                    pairs.append((source, np.argmin(reach[source], axis=1)))
        return Arrows.of(size, pairs)

    @cached_property
    def factors(self) -> Arrows:
        """To the choices in which one prime factor has gone from one level to another."""
        size, pairs = len(self), []
        values = self.choices.astype(np.int64)
        columns = range(values.shape[1]) if self._extent else ()
        for prime in _primes(values):
            for i in (-1, *columns):
                for j in (-1, *columns):
                    if i == j:
                        continue
                    moved = values.copy()
                    whole = np.ones(size, bool)
                    if i >= 0:  # else the outermost loop gives it up, and is what then remains
                        whole = values[:, i] % prime == 0
                        moved[:, i] //= prime
                    if j >= 0:
                        moved[:, j] *= prime
                    end = np.where(whole, self.numbers(moved), -1)
                    source = np.flatnonzero(end >= 0)
                    pairs.append((source, end[source]))
        return Arrows.of(size, pairs)

    @cached_property
    def tiles(self) -> tuple[Arrows, Arrows]:
        """Steps and factors in which the innermost level becomes smaller; and larger."""
        both = [
            (np.repeat(np.arange(len(self)), a.count), a.to) for a in (self.steps, self.factors)
        ]
        arrows = Arrows.of(len(self), both)
        source = np.repeat(np.arange(len(self)), arrows.count)
        inner = self.choices[:, -1]
        smaller, larger = (inner[arrows.to] < inner[source]), (inner[arrows.to] > inner[source])
        return arrows.within(smaller), arrows.within(larger)

    @property
    def _levels(self) -> NDArray[np.int64]:
        """The choices' columns, behind the outermost loop where an axis is tiled."""
        values = self.choices.astype(np.int64)
        if not self._extent:
            return values
        covered = np.maximum(values, 1).prod(axis=1)
        return np.column_stack([-(-self._extent // covered), values])


_TABLES: BoundedCache[tuple[int, tuple[int, ...], bytes], Table] = BoundedCache(512)
"""Sketches of one task, and tasks of one network, share most of their tables."""


def table_of(decision: Decision) -> Table:
    """The table of a decision's choices."""
    choices = np.ascontiguousarray(decision.choices)
    extent = decision.axis.typical if decision.axis is not None else 0
    key = (extent, choices.shape, choices.tobytes())
    return _TABLES.get_or_make(key, lambda: Table(choices, extent))


class Moves:
    """The moves of a sketch's rows.

    Args:
        by_block: its decisions, block by block.

    Attributes:
        live: the decisions with more than one choice, which alone are moved.
    """

    def __init__(self, by_block: Sequence[Sequence[Decision]]) -> None:
        live = [(d, b) for b, own in enumerate(by_block) for d in own if len(d.choices) > 1]
        self.live = tuple(d for d, _ in live)
        self._tables = [table_of(d) for d in self.live]
        self._sizes = np.array([len(t) for t in self._tables], np.int64)
        self._first = np.cumsum(self._sizes) - self._sizes
        self._block = np.array([b for _, b in live], np.int64)
        none = [Arrows.of(len(t), ()) for t in self._tables]
        tiles = [
            table.tiles if d.axis is not None and d.axis.kind == "spatial" else (no, no)
            for d, table, no in zip(self.live, self._tables, none, strict=True)
        ]
        kinds = [
            [t.steps for t in self._tables],
            [t.factors for t in self._tables],
            [smaller for smaller, _ in tiles],
            [larger for _, larger in tiles],
            none,
        ]
        self._arrows = Arrows.joined([a for kind in kinds for a in kind])
        self._choices = int(self._sizes.sum())

    def children(
        self,
        rng: np.random.Generator,
        rows: Rows,
        judge: Judge,
        known: NDArray[np.uint64],
    ) -> Rows:
        """One child of each row: another program than its parent, and than those before it.

        A row for which none of `DRAWS` is good comes back as it is.

        Args:
            rng: of all draws.
            rows: the parents.
            judge: says which children are valid, and which programs they are.
            known: programs that children avoid, the parents' own among them.
        """
        out = rows.copy()
        if not len(rows) or not self.live:
            return out
        numbers = self.numbers(rows)
        known = np.sort(known)
        open_ = np.arange(len(rows))
        for draws in DRAWS:
            of = np.repeat(open_, draws)
            moved = self._moved(rng, numbers[of])
            again = rng.random(len(of)) < TWICE
            moved[again] = self._moved(rng, moved[again])
            drawn = self._written(rows[of], numbers[of], moved)
            valid, programs = judge(drawn)
            at = np.minimum(np.searchsorted(known, programs), len(known) - 1)
            good = np.flatnonzero(valid & (known[at] != programs))
            good = good[np.unique(programs[good], return_index=True)[1]]
            parent, first = np.unique(of[good], return_index=True)
            out[parent] = drawn[good[first]]
            known = np.sort(np.concatenate([known, programs[good[first]]]))
            open_ = np.setdiff1d(open_, parent, assume_unique=True)
        return out

    def numbers(self, rows: Rows) -> Indices:
        """The choices of the live decisions, P x L; -1 where a row holds none of the table."""
        columns = [
            t.numbers(rows[:, d.columns]) for d, t in zip(self.live, self._tables, strict=True)
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(rows), 0), np.int64)

    def _written(self, rows: Rows, before: Indices, after: Indices) -> Rows:
        """The rows with the decisions that have changed written into them."""
        out = rows.copy()
        for i, (d, table) in enumerate(zip(self.live, self._tables, strict=True)):
            at = np.flatnonzero(before[:, i] != after[:, i])
            if len(at):
                out[at[:, None], d.columns] = table.choices[after[at, i]]
        return out

    def _moved(self, rng: np.random.Generator, numbers: Indices) -> Indices:
        """The choices after one move of each row; a redraw where its own kind has no arrow."""
        out, everything = numbers.copy(), np.arange(len(numbers))
        kind = np.searchsorted(_SHARES, rng.random(len(out)), side="right")
        kind = np.where(kind == len(_SHARES), _NONE, kind)
        which = self._follow(rng, out, everything, kind)
        at = np.flatnonzero(which < 0)
        drawn = rng.integers(len(self.live), size=len(at))
        value, now = rng.integers(0, self._sizes[drawn] - 1), out[at, drawn]
        out[at, drawn] = value + ((now >= 0) & (value >= now))
        gave = np.flatnonzero((kind == _SMALLER) & (which >= 0))
        if len(gave):  # and the tile of another axis of the block takes it, if one can
            block = self._block[which[gave]][:, None]
            among = (self._block == block) & (np.arange(len(self.live)) != which[gave][:, None])
            self._follow(rng, out, gave, np.full(len(gave), _LARGER), among)
        return out

    def _follow(
        self,
        rng: np.random.Generator,
        out: Indices,
        at: Indices,
        kind: Indices,
        among: NDArray[np.bool_] | None = None,
    ) -> Indices:
        """Follow an arrow of one decision of each row ``at``, in place.

        Args:
            rng: of the draws.
            out: choices of all rows.
            at: the rows.
            kind: which arrows, for each of them.
            among: decisions that may change, for each of them; all if None.

        Returns:
            The decision that has changed, or -1 where none has an arrow.
        """
        held, arrows = out[at], self._arrows
        source = self._first + np.maximum(held, 0) + self._choices * kind[:, None]
        can = (arrows.count[source] > 0) & (held >= 0)
        if among is not None:
            can &= among
        total = np.cumsum(can, axis=1)
        ends, (first, second) = total[:, -1], rng.random((2, len(at)))
        which = np.argmax(total > (first * ends).astype(np.int64)[:, None], axis=1)
        some = np.flatnonzero(ends > 0)
        decision = which[some]
        chosen = source[some, decision]
        drawn = (second[some] * arrows.count[chosen]).astype(np.int64)
        ahead = arrows.to[arrows.start[chosen] + drawn] % max(self._choices, 1)
        out[at[some], decision] = ahead - self._first[decision]
        return np.where(ends > 0, which, -1)


def _primes(values: NDArray[np.int64]) -> list[int]:
    """The primes that divide any of the values."""
    rest, primes = np.unique(values[values > 1]), []
    prime = 2
    while len(rest):
        if prime * prime > rest[-1]:
            primes += [int(r) for r in rest]
            break
        if (rest % prime == 0).any():
            primes.append(prime)
            while (divides := rest % prime == 0).any():
                rest = np.where(divides, rest // prime, rest)
            rest = np.unique(rest[rest > 1])
        prime += 1
    return primes
