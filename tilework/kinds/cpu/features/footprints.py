"""What accesses touch of their tensors while the loops of a nest are walked, innermost first.

In state 0 of the walk every axis stands still; in state ``k`` its ``k`` innermost loops run. Which
state shows how much of an axis is a fact of the block: a `Walk` finds it once, and then takes all
states of all candidates together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tilework.index.extents import Typical
from tilework.kinds.cpu.caches import LINE_BYTES
from tilework.kinds.cpu.features.access import Access
from tilework.space.blocks import Block
from tilework.te.expr import Axis

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


def width(access: Access, i: int, spans: Mapping[Axis, Floats]) -> Floats | float:
    """Elements along dimension ``i`` that are touched while axes run over ``spans``.

    Whole cache lines are where neighbours along the dimension are neighbours in memory.
    """
    dim, extent = access.dims[i], access.shape[i]
    step = access.steps[i]
    extent = Typical(-(-extent // step))
    moving = [(a, c / step) for a, c in (dim or {}).items() if a.typical > 1]
    out: Floats | float = 1.0 if dim is not None else float(extent)
    for axis, c in moving:
        alone = c == 1 and len(moving) == 1
        out = spans[axis] if alone else out + c * (spans[axis] - 1)
    if 1 + sum(c * (a.typical - 1) for a, c in moving) > extent:
        out = np.minimum(out, extent)
    if i == len(access.dims) - 1 and not access.packed:
        lines = np.ceil(out * access.element_bytes / LINE_BYTES)
        out = lines * (LINE_BYTES / access.element_bytes)
    return out


def touched_bytes(access: Access, spans: Mapping[Axis, Floats]) -> Floats | float:
    """Bytes of cache lines that an access touches while its axes run over ``spans``."""
    size: Floats | float = float(access.element_bytes)
    for i in range(len(access.dims)):
        size = size * width(access, i, spans)
    return size


@dataclass(frozen=True, eq=False)
class Runs:
    """Elements that follow each other in memory, of what an access touches of its rows.

    Attributes:
        access: what is accessed, not packed.
        widths: elements along each of its dimensions, the last first: D x P.
        whole: where all of the dimensions after one are touched from end to end.
    """

    access: Access
    widths: Floats
    whole: NDArray[np.bool_]

    @staticmethod
    def of(access: Access, widths: Sequence[Floats | float], count: int) -> Runs:
        """Runs of an access by its ``widths`` (one for each dimension) of P candidates."""
        columns = np.empty((len(widths), count))
        for column, one in zip(columns[::-1], widths, strict=True):
            column[:] = one
        whole = np.ones(columns.shape, bool)
        ends = np.array(access.shape[:0:-1])[:, None]
        np.logical_and.accumulate(columns[:-1] >= ends, axis=0, out=whole[1:])
        return Runs(access, columns, whole)

    @cached_property
    def lines(self) -> Floats:
        """Lines of a run, on average; at least 1."""
        unit = self.access.element_bytes / LINE_BYTES
        size: Floats = np.multiply.reduce(self.widths, axis=0, initial=unit, where=self.whole)
        return np.maximum(size, 1.0, out=size)

    def room(self, ahead: float) -> Floats:
        """How many times its bytes an access takes up in a cache.

        Runs of ``n`` lines that begin at strides of a multiple of ``g`` lines (of the 64 of a
        page: beyond it addresses are the system's) fall into ``n`` of every ``g`` sets, and fill
        these as if they were as long as the next multiple of ``g``. What is fetched ahead of each
        is of no use.

        Args:
            ahead: lines that are fetched beyond the end of a run.
        """
        parted = ~self.whole & (self.widths > 1)
        every = np.array(self.access.lines_apart[::-1])[parted.argmax(axis=0)]
        taken = np.ceil((self.lines + ahead) / every) * every / self.lines
        return np.where(parted.any(axis=0), taken, 1.0)


@dataclass(frozen=True, eq=False)
class _Dimension:
    """A dimension that some accesses have in common: it changes with the loops of few axes.

    Attributes:
        access, i: one of these accesses, and which of its dimensions it is.
        spans: per axis, how many of its loops run, for each of the dimension's own states.
    """

    access: Access
    i: int
    spans: tuple[tuple[Axis, Places], ...]

    def widths(self, spans: Mapping[Axis, Floats]) -> Floats | float:
        """Its width in its own states."""
        return width(self.access, self.i, {a: spans[a].take(at, axis=0) for a, at in self.spans})


@dataclass(frozen=True, eq=False)
class _Touched:
    """An access by its dimensions: their numbers, and their states in each state of the access.

    Attributes:
        at: the state of the access in each state of the walk.
    """

    dims: tuple[tuple[int, Places], ...]
    at: Places


@dataclass(frozen=True, eq=False)
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

    def spans(self, tiles: Mapping[Axis, Floats], count: int) -> dict[Axis, Floats]:
        """Points of each axis that none, one, two, ... of its inner loops cover."""
        out = {}
        for axis in dict.fromkeys(a for a, _ in self.loops):
            levels = [n for a, n in self.loops if a is axis]
            covered = np.empty((len(levels) + 1, count))
            covered[0] = 1.0
            for k, level in enumerate(levels):
                np.multiply(covered[k], tiles[axis][level], out=covered[k + 1])
            out[axis] = np.minimum(covered, axis.typical, out=covered)
        return out

    def passes(self, tiles: Mapping[Axis, Floats], count: int) -> Floats:
        """How often each state is come to: the trips of all loops around it.

        By two counts: of all loops, and of the spatial ones alone.
        """
        out = np.ones((2, len(self.loops) + 1, count))
        for k, (axis, level) in reversed(list(enumerate(self.loops))):
            trips = tiles[axis][level]
            np.multiply(out[0, k + 1], trips, out=out[0, k])
            out[1, k] = out[1, k + 1]
            if axis.kind == "spatial":
                out[1, k] *= trips
        return out

    def widths(self, spans: Mapping[Axis, Floats]) -> list[Floats | float]:
        """The width of each dimension in its own states."""
        return [dimension.widths(spans) for dimension in self._dimensions]

    def touched(self, widths: Sequence[Floats | float], count: int) -> Floats:
        """Bytes that each access touches in each state of the walk."""
        out = np.empty((len(self.accesses), len(self.loops) + 1, count))
        for one, access, here in zip(self._touched, self.accesses, out, strict=True):
            size: Floats | float = float(access.element_bytes)
            for d, at in one.dims:
                each = widths[d]
                size = size * (each.take(at, axis=0) if isinstance(each, np.ndarray) else each)
            if isinstance(size, np.ndarray):
                size.take(one.at, axis=0, out=here, mode="clip")
            else:
                here[:] = size
        return out

    def run_lines(
        self, widths: Sequence[Floats | float], touched: Floats, states: Places
    ) -> Floats:
        """Lines that follow each other in memory, of each access in a state for each candidate."""
        out = np.empty((len(self.accesses), touched.shape[-1]))
        every = np.arange(touched.shape[-1])
        for i, (access, lines) in enumerate(zip(self.accesses, out, strict=True)):
            if access.packed:
                lines[:] = touched[i, states, every] / LINE_BYTES
            else:
                lines[:] = self.runs(i, widths, states, every).lines
        return out

    def runs(self, i: int, widths: Sequence[Floats | float], states: Places, some: Places) -> Runs:
        """Runs of an access, for some candidates in a state of the walk each."""
        one = self._touched[i]
        own = one.at[states]
        here = [
            w[at[own], some] if isinstance(w := widths[d], np.ndarray) else w for d, at in one.dims
        ]
        return Runs.of(self.accesses[i], here, len(some))

    @cached_property
    def once(self) -> Places:
        """Which count of `passes` is that of each access."""
        return np.array([int(a.once) for a in self.accesses], np.intp)

    @cached_property
    def _numbered(self) -> tuple[tuple[_Dimension, ...], tuple[_Touched, ...]]:
        numbers: dict[object, int] = {}
        dimensions: list[_Dimension] = []
        touched = []
        moving = {a for a, _ in self.loops}
        states_of = cache(self._states)

        @cache
        def seen_in(few: frozenset[Axis], more: frozenset[Axis]) -> Places:
            """The state of some axes in each state of a larger set of axes."""
            number_of = dict(zip(states_of(more), states_of(few), strict=True))
            return np.array(list(number_of.values()), np.intp)

        for access in self.accesses:
            states = frozenset(moving & access.axes)
            dims = []
            for i, dim in enumerate(access.dims):
                last = i == len(access.dims) - 1 and not access.packed
                terms = frozenset(dim.items()) if dim is not None else None
                key = (terms, access.shape[i], access.element_bytes if last else 0)
                axes = [a for a in dim or () if a in moving]
                own = frozenset(axes)
                number = numbers.setdefault(key, len(dimensions))
                if number == len(dimensions):
                    spans = tuple((a, seen_in(frozenset((a,)), own)) for a in axes)
                    dimensions.append(_Dimension(access, i, spans))
                dims.append((number, seen_in(own, states)))
            touched.append(_Touched(tuple(dims), np.array(states_of(states), np.intp)))
        return tuple(dimensions), tuple(touched)

    def _states(self, axes: Collection[Axis]) -> list[int]:
        """How many loops of some axes run in each state."""
        return list(accumulate([a in axes for a, _ in self.loops], initial=0))

    @property
    def _dimensions(self) -> tuple[_Dimension, ...]:
        return self._numbered[0]

    @property
    def _touched(self) -> tuple[_Touched, ...]:
        return self._numbered[1]
