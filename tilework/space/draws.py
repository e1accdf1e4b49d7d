"""Random rows: each decision of a block by itself, or tiles together where few of them fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tilework.cache import BoundedCache
from tilework.frozen import frozen
from tilework.space.decision import Decision, Rows
from tilework.te.expr import Axis

Ints = NDArray[np.int64]
_MOST = 1 << 62
"""Rows of a joint table beyond which its rows have no numbers."""


@frozen(eq=False)
class Draws:
    """How the decisions of a block are drawn.

    Attributes:
        alone: decisions that are drawn by themselves, every choice alike.
        joint: those of the tiles, drawn together; None if they are among ``alone``.
    """

    alone: tuple[Decision, ...]
    joint: Joint | None = None

    @staticmethod
    def of(
        decisions: Sequence[Decision],
        axes: Sequence[Axis],
        fits: Callable[[Sequence[Ints]], NDArray[np.bool_]],
    ) -> Draws:
        """Draws of a block's decisions.

        Args:
            decisions: the block's.
            axes: spatial axes of the block, in order.
            fits: which innermost tiles, an array of them for each axis, any valid row has.
        """
        tiled = {d.axis: d for d in decisions if d.axis is not None}
        if not axes or not all(a in tiled for a in axes):
            return Draws(tuple(decisions))
        joint = Joint.of([tiled[a] for a in axes], fits)
        if joint is None:
            return Draws(tuple(decisions))
        return Draws(tuple(d for d in decisions if d not in joint.decisions), joint)

    def into(self, columns: Rows, rng: np.random.Generator) -> None:
        """Draw a row for each place of ``columns`` (D x P), of which the block's are written."""
        for d in self.alone:
            picks = rng.integers(len(d.choices), size=columns.shape[1:])
            _write(columns, d, picks)
        if self.joint is not None:
            self.joint.into(columns, rng)


@frozen(eq=False)
class Joint:
    """Tiles of several axes, each row of their common table alike, without those that do not fit.

    Which rows fit is known by the innermost tiles alone, so that only these are looked at: the
    rows with the same ones are neighbours in a table that is never made.

    Attributes:
        decisions: of each axis.
        order: per axis, its choices by their innermost tile.
        first, count: per axis, where the choices of each combination's innermost tile begin in
            that order, and how many there are: A x N.
        until: how many rows there are up to and with each combination.
    """

    decisions: tuple[Decision, ...]
    order: tuple[NDArray[np.intp], ...]
    first: Ints
    count: Ints
    until: Ints

    @staticmethod
    def of(
        decisions: Sequence[Decision], fits: Callable[[Sequence[Ints]], NDArray[np.bool_]]
    ) -> Joint | None:
        """The joint draw; None where all rows fit, none, or there are too many to be counted."""
        if math.prod(len(d.choices) for d in decisions) >= _MOST:
            return None
        inner = [Inner.of(d.choices) for d in decisions]
        grid = np.indices([len(i.sizes) for i in inner]).reshape(len(inner), -1)
        each = list(zip(inner, grid, strict=True))
        good = fits([i.sizes[at] for i, at in each])
        if good.all() or not good.any():
            return None
        first = np.array([i.first[at[good]] for i, at in each])
        count = np.array([i.count[at[good]] for i, at in each])
        order = tuple(i.order for i in inner)
        until = np.cumsum(np.multiply.reduce(count, axis=0))
        return Joint(tuple(decisions), order, first, count, until)

    def into(self, columns: Rows, rng: np.random.Generator) -> None:
        """As `Draws.into`: a number of the common table, written down axis by axis."""
        drawn = rng.integers(self.until[-1], size=columns.shape[1])
        which = np.searchsorted(self.until, drawn, side="right")
        rest = self.until[which] - 1 - drawn
        for d, order, first, count in zip(
            self.decisions, self.order, self.first, self.count, strict=True
        ):
            rest, at = np.divmod(rest, count[which])
            _write(columns, d, order[first[which] + at])


@frozen(eq=False)
class Inner:
    """The innermost tiles of a table of choices.

    Attributes:
        choices: the table.
        sizes: the tiles that differ, ascending.
        order: the choices by their innermost tile.
        first, count: of each size, where its choices begin in that order, and how many there are.
    """

    choices: Rows
    sizes: Ints
    order: NDArray[np.intp]
    first: Ints
    count: Ints

    @staticmethod
    def of(choices: Rows) -> Inner:
        """Those of a table; tables of a size are few, and many axes share them."""

        def find() -> Inner:
            tiles = choices[:, -1]
            sizes, count = np.unique(tiles, return_counts=True)
            order = np.argsort(tiles, kind="stable")
            return Inner(choices, sizes.astype(np.int64), order, np.cumsum(count) - count, count)

        return _INNER.get_or_make(id(choices), find)


_INNER: BoundedCache[int, Inner] = BoundedCache(1024)
"""By the identity of the table, which what is kept keeps alive."""


def _write(columns: Rows, decision: Decision, picks: NDArray[np.intp]) -> None:
    for c, values in zip(decision.columns, decision.choices.T, strict=True):
        columns[c] = values.take(picks)
