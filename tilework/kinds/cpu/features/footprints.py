"""What accesses touch of their tensors while the loops of a nest are walked, innermost first.

In state 0 of the walk every axis stands still; in state ``k`` its ``k`` innermost loops run. Which
state shows how much of an axis is a fact of the block: a `Walk` finds it once, and then takes all
states of all candidates together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tilework.frozen import frozen
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.features.access import Access
from tilework.kinds.cpu.features.runs import Lying, Runs, run_lines, whole_rows
from tilework.once import cached_property
from tilework.space.blocks import Block
from tilework.te.expr import Axis

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


def width(access: Access, i: int, spans: Mapping[Axis, Floats]) -> Floats | float:
    """Elements along dimension ``i`` that are touched while axes run over ``spans``.

    Whole cache lines are where neighbours along the dimension are neighbours in memory.
    """
    reach = access.reaches[i]
    out: Floats | float = reach.start
    for axis, c in reach.moving:
        if reach.alone:
            out = spans[axis]
        else:
            steps = spans[axis] - 1
            out = out + (steps if c == 1 else c * steps)
    if reach.most is not None:
        out = np.minimum(out, reach.most)
    if reach.lines:
        unit = LINE_BYTES / access.element_bytes  # a power of two: nothing is rounded
        out = np.ceil(out / unit)
        out *= unit
    return out


def touched_bytes(access: Access, spans: Mapping[Axis, Floats]) -> Floats | float:
    """Bytes of cache lines that an access touches while its axes run over ``spans``."""
    size: Floats | float = float(access.element_bytes)
    for i in range(len(access.dims)):
        size = size * width(access, i, spans)
    return size


@lru_cache(maxsize=2048)
def _most(axes: tuple[Axis, ...]) -> Floats:
    """Points of axes, for arrays of axes x states x P."""
    return np.array([a.typical for a in axes], np.float64)[:, None, None]


@frozen(eq=False)
class _Dimension:
    """A dimension that some accesses have in common: it changes with the loops of few axes.

    Attributes:
        access, i: one of these accesses, and which of its dimensions it is.
        spans: per axis, how many of its loops run, for each of the dimension's own states; None
            where each of its loops makes a state.
        rows: where its own states are in `Walk.widths`.
    """

    access: Access
    i: int
    spans: tuple[tuple[Axis, Places | None], ...]
    rows: slice

    def widths(self, spans: Mapping[Axis, Floats]) -> Floats | float:
        """Its width in its own states."""
        own = {a: _taken(spans[a], at) for a, at in self.spans}
        return width(self.access, self.i, own)


@frozen(eq=False)
class _Touched:
    """An access by its dimensions: their widths, and their states in each state of the access.

    Attributes:
        dims: where the widths of each are, and its states; None where it has those of the access,
            or one alone.
        at: the state of the access in each state of the walk.
        rows: where its widths in each state of the walk are, the last dimension's first.
    """

    dims: tuple[tuple[slice, Places | None], ...]
    at: Places
    rows: Places


def _taken(values: Floats, at: Places | None) -> Floats:
    return values if at is None else values.take(at, axis=0)


@frozen(eq=False)
class Walk:
    """The loops of a block with more than one point, innermost first, and what they move.

    Attributes:
        loops: as (axis, level).
        accesses: what they touch.
        visited: the spatial level of an outer tile: `Levels.visited`.
    """

    loops: tuple[tuple[Axis, int], ...]
    accesses: tuple[Access, ...]
    visited: int

    @staticmethod
    def of(block: Block, accesses: Sequence[Access]) -> Walk:
        """The walk through a block."""
        loops = tuple((a, n) for a, n in reversed(block.loops) if a.typical > 1)
        return Walk(loops, tuple(accesses), block.levels.visited)

    def outer_tile(self, tiles: Mapping[Axis, Floats]) -> int:
        """The state in which one outer tile is covered; 0 where it is one register tile in all.

        This goes by all candidates together: a loop that none of them has is no loop.
        """
        visited = self.visited
        level = [k for k, (a, n) in enumerate(self.loops) if a.kind == "spatial" and n == visited]
        moves = any((tiles[a][n] != 1).any() for a, n in (self.loops[k] for k in level))
        return level[-1] + 1 if moves else 0

    def spans(self, groups: Sequence[tuple[tuple[Axis, ...], Floats]]) -> dict[Axis, Floats]:
        """Points of each axis that none, one, two, ... of its inner loops cover.

        Args:
            groups: extents of loops as in `tilework.space.nest.BlockNest`.
        """
        out: dict[Axis, Floats] = {}
        for axes, extents in groups:
            some, levels, count = extents.shape
            covered = np.empty((some, levels + 1, count))
            covered[:, 0] = 1.0
            for k in range(levels):
                np.multiply(covered[:, k], extents[:, levels - 1 - k], out=covered[:, k + 1])
            np.minimum(covered, _most(axes), out=covered)
            out.update(zip(axes, covered, strict=True))
        return out

    def passes(self, table: Floats, first: Mapping[Axis, int]) -> Floats:
        """How often each state is come to: the trips of all loops around it.

        By two counts: of all loops, and of the spatial ones alone.

        Args:
            table: extents of all loops.
            first: where those of an axis begin in it.
        """
        out = np.ones((2, len(self.loops) + 1, table.shape[1]))
        for k, axis, level, spatial in self._inwards:
            trips = table[first[axis] + level]
            if spatial:
                np.multiply(out[:, k + 1], trips, out=out[:, k])
            else:
                np.multiply(out[0, k + 1], trips, out=out[0, k])
                out[1, k] = out[1, k + 1]
        return out

    @cached_property
    def _inwards(self) -> tuple[tuple[int, Axis, int, bool], ...]:
        """Loops by number, axis, level and whether they are spatial, the outermost first."""
        each = [(k, a, n, a.kind == "spatial") for k, (a, n) in enumerate(self.loops)]
        return tuple(each[::-1])

    def widths(self, spans: Mapping[Axis, Floats], count: int) -> Floats:
        """Widths of all dimensions, of each in its own states, of P candidates: a row a state.

        And a row of ones, as of dimensions that there are not.
        """
        dimensions, _ = self._numbered
        out = np.empty(((dimensions[-1].rows.stop if dimensions else 0) + 1, count))
        out[-1] = 1.0
        for dimension in dimensions:
            out[dimension.rows] = dimension.widths(spans)
        return out

    def touched(self, widths: Floats) -> Floats:
        """Bytes that each access touches in each state of the walk."""
        out = np.empty((len(self.accesses), len(self.loops) + 1, widths.shape[1]))
        for one, access, here in zip(self._numbered[1], self.accesses, out, strict=True):
            size: Floats | float = float(access.element_bytes)
            for rows, at in one.dims:
                size = size * _taken(widths[rows], at)
            if isinstance(size, np.ndarray):
                size.take(one.at, axis=0, out=here, mode="clip")
            else:
                here[:] = size
        return out

    def run_lines(self, widths: Floats, touched: Floats, states: int | Places) -> Floats:
        """Lines that follow each other in memory, of each access in a state for each candidate.

        Args:
            widths, touched: as the walk finds them.
            states: one of all candidates, or of each.
        """
        rows, lying = self._rows[:, :, states], self.lying
        if isinstance(states, np.ndarray):
            every = np.arange(touched.shape[-1])
            rows *= touched.shape[-1]
            rows += every
            columns, own = widths.take(rows), touched[:, states, every]
        else:
            columns, own = widths.take(rows, axis=0), touched[:, states]
        whole = whole_rows(columns, lying.ends[:, :, None])
        out = run_lines(columns, whole, lying.lines[:, None])
        for i in self._packed:
            np.divide(own[i], LINE_BYTES, out=out[i])
        return out

    def own_states(self, i: int) -> Places:
        """The states of the walk in which something new of an access is touched, and state 0."""
        at = self._numbered[1][i].at
        return np.flatnonzero(np.diff(at, prepend=-1))

    def runs(
        self, of: int | Places, widths: Floats, states: int | Places, some: Places | None = None
    ) -> Runs:
        """Runs of an access, or one each, for some candidates in a state of the walk each.

        Or of one access for all of them in a state; in several, one after the other.
        """
        lying = self.lying
        if some is None:
            rows = self._rows[:, of, states]
            columns = widths.take(rows, axis=0).reshape(len(rows), -1)
        else:
            rows = self._flat.take(of * self._rows.shape[2] + states, axis=1)
            rows *= widths.shape[1]
            rows += some
            columns = widths.take(rows)
        ends = lying.ends.take(of, axis=1)
        whole = whole_rows(columns, ends if isinstance(of, np.ndarray) else ends[:, None])
        return Runs(lying, of, columns, whole)

    def row_lines(self, of: Places, widths: Floats, states: Places, some: Places) -> Floats:
        """At least so many lines a run has, by its last dimension; arguments as of `runs`."""
        rows = self._flat[0].take(of * self._rows.shape[2] + states)
        rows *= widths.shape[1]
        rows += some
        lines: Floats = widths.take(rows) * self.lying.lines[of]
        return np.maximum(lines, 1.0, out=lines)

    @cached_property
    def lying(self) -> Lying:
        """How the accesses lie in memory."""
        return Lying.of(self.accesses)

    @cached_property
    def _packed(self) -> list[int]:
        return [i for i, access in enumerate(self.accesses) if access.packed]

    @cached_property
    def _rows(self) -> Places:
        """Where the widths of each access are in each state of the walk: D x A x states."""
        dimensions, touched = self._numbered
        ones = dimensions[-1].rows.stop if dimensions else 0
        out = np.full((len(self.lying.apart), len(touched), len(self.loops) + 1), ones, np.intp)
        for i, one in enumerate(touched):
            out[: len(one.rows), i] = one.rows
        return out

    @cached_property
    def _flat(self) -> Places:
        """The same as D x (A states)."""
        return self._rows.reshape(len(self._rows), -1)

    @cached_property
    def once(self) -> Places:
        """Which count of `passes` is that of each access."""
        return np.array([int(a.once) for a in self.accesses], np.intp)

    @cached_property
    def _numbered(self) -> tuple[tuple[_Dimension, ...], tuple[_Touched, ...]]:
        numbers: dict[object, int] = {}
        dimensions: list[_Dimension] = []
        touched = []
        count, run = len(self.loops), dict[Axis, int]()
        for k, (a, _) in enumerate(self.loops):
            run[a] = run.get(a, 0) | 1 << k
        rows = 0
        for access in self.accesses:
            all_of = sum([run.get(a, 0) for a in access.axes])
            at = _states(count, all_of)
            dims, places = [], []
            for i, dim in enumerate(access.dims):
                last = i == len(access.dims) - 1 and not access.packed
                terms = frozenset(dim.items()) if dim is not None else None
                key = (terms, access.shape[i], access.element_bytes if last else 0)
                axes = [a for a in dim or () if a in run]
                own = sum([run[a] for a in axes])
                number = numbers.setdefault(key, len(dimensions))
                if number == len(dimensions):
                    spans = tuple([(a, _seen_in(count, run[a], own)) for a in axes])
                    place = slice(rows, rows + own.bit_count() + 1)
                    dimensions.append(_Dimension(access, i, spans, place))
                    rows = place.stop
                where = dimensions[number].rows
                dims.append((where, _seen_in(count, own, all_of) if own else None))
                places.append(where.start + _states(count, own))
            each = np.array(places[::-1], np.intp).reshape(-1, len(at))
            touched.append(_Touched(tuple(dims), at, each))
        return tuple(dimensions), tuple(touched)


@lru_cache(maxsize=4096)
def _states(count: int, some: int) -> Places:
    """How many of some of so many loops, a bit each, run in each state."""
    return np.array([0, *accumulate([some >> k & 1 for k in range(count)])], np.intp)


@lru_cache(maxsize=4096)
def _seen_in(count: int, few: int, more: int) -> Places | None:
    """The state of some loops in each state of more of them; None if these are as many."""
    if few == more:
        return None
    states = _states(count, more)
    ends = states.searchsorted(np.arange(1, states[-1] + 2)) - 1  # of each, the last one
    return _states(count, few).take(ends)
