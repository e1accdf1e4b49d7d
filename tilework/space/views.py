"""Sketches of extents that a run decides, looked at elsewhere: where other extents are typical.

The code of a row is the same wherever it is looked at: neither rules nor capabilities look at a
typical extent. So what they have decided holds there, and blocks are the same of other extents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import overload

from tilework.index.symbols import Point
from tilework.space.sketch import Sketch
from tilework.te.points import Exchange, seen_at


class Views(Sequence[Sketch]):
    """A sketch as it is at some points; each view is made when it is first looked at.

    Args:
        sketch: the sketch.
        there: computations as they are at each of the points.
    """

    def __init__(self, sketch: Sketch, there: Sequence[Exchange]) -> None:
        self._sketch, self._there = sketch, there
        self._made: dict[int, Sketch] = {}

    def __len__(self) -> int:
        return len(self._there)

    def __iter__(self) -> Iterator[Sketch]:
        return map(self._at, range(len(self)))

    @overload
    def __getitem__(self, i: int) -> Sketch: ...

    @overload
    def __getitem__(self, i: slice) -> tuple[Sketch, ...]: ...

    def __getitem__(self, i: int | slice) -> Sketch | tuple[Sketch, ...]:
        places = range(len(self))[i]
        return self._at(places) if isinstance(places, int) else tuple(map(self._at, places))

    def _at(self, i: int) -> Sketch:
        if i not in self._made:
            self._made[i] = _view(self._sketch, self._there[i])
        return self._made[i]


def views_at(sketches: Iterable[Sketch], points: Iterable[Point]) -> list[Views]:
    """The sketches of one task, each as it is where its symbols typically have these values."""
    there = [seen_at(at) for at in points]
    return [Views(sketch, there) for sketch in sketches]


def _view(sketch: Sketch, there: Exchange) -> Sketch:
    slabs = sketch.slabs
    if slabs is not None:
        whole, counts = there.dag(slabs.whole), there.of(slabs.counts)
        slabs = replace(slabs, whole=whole, part=there.dag(slabs.part), counts=counts)
    blocks, plans = there.of(sketch.blocks), there.of(sketch.plans)
    return replace(sketch, blocks=blocks, dag=there.dag(sketch.dag), plans=plans, slabs=slabs)
