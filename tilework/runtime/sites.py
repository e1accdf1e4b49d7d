"""A network at one point of its symbols: shapes, sizes, and where everything lies.

A *site* follows from an image and the values of its symbols. An image without symbols has one,
which stands in its file; of another, sites are made when a run brings shapes that are new: sizes
are evaluated, the arena is placed, and every reference is proved to lie within its block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from tilework.cache import BoundedCache
from tilework.errors import ShapeError
from tilework.frozen import frozen
from tilework.index.extents import known, most
from tilework.index.symbols import Symbol, Symbolic, value_at
from tilework.runtime.image import Dims, Ends, Image, Ref, Value
from tilework.runtime.layout import KEPT, Laid, Plan
from tilework.runtime.sizes import Shapes, Sizes
from tilework.runtime.solve import Solver


@frozen(eq=False)
class Site:
    """A network at a point.

    Attributes:
        whole: the image.
        values: of its symbols, in order.
        laid: what lies where.
        idle: nothing is computed: no output has elements.
    """

    whole: Image
    values: tuple[int, ...]
    laid: Laid
    idle: bool = False

    @property
    def arena_bytes(self) -> int:
        """Memory of all intermediate values."""
        return self.laid.arena_bytes

    def workspace_bytes(self, threads: int) -> int:
        """Workspace of a run with ``threads`` threads."""
        return max([shared + threads * each for shared, each in self.laid.workspaces], default=0)

    @cached_property
    def dims(self) -> Dims:
        """The shapes of what a run takes and returns here."""
        return self.whole.dims(self.values)

    @cached_property
    def ends(self) -> Ends:
        """What a run takes and returns here, for what need not be fast: shapes are numbers."""
        ends = self.whole.ends
        return ends.at(self.dims) if self.whole.symbols else ends

    @cached_property
    def image(self) -> Image:
        """The image as one compiled for this point alone would be, but for symbols as arguments.

        For what need not be fast: tables, and machines that look at each step by itself.
        """
        whole, at = self.whole, self.point
        if not whole.symbols:
            return whole
        starts = self.laid.starts.tolist()
        refs = zip(whole.refs, starts, strict=False)  # behind these are numbers of repeats
        steps = []
        for step in whole.steps:
            args = tuple(_ref(*next(refs), at) for _ in step.args)
            flops = step.flops
            if isinstance(flops, Symbolic):
                flops = float(flops.value(at))
            nbytes = value_at(step.nbytes, at)
            steps.append(replace(step, args=args, flops=flops, nbytes=nbytes))
        return replace(
            whole, inputs=self.ends.inputs, outputs=self.ends.outputs, steps=tuple(steps),
            arena_bytes=self.arena_bytes, workspaces=self.laid.workspaces, lifetimes=(),
            places=(), rooms=self.ends.rooms, repeats=tuple(r.at(at) for r in whole.repeats),
        )  # fmt: skip

    @cached_property
    def point(self) -> dict[Symbol, int]:
        """The values by symbol."""
        return dict(zip(self.whole.symbols, self.values, strict=True))


class Sites:
    """The sites of an image.

    Attributes:
        fresh: where the image continues inputs, shapes of what each run has anew: `fresh`.

    Raises:
        ShapeError: no input says what a symbol is.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self.symbols = image.symbols
        self._only = None if image.symbols else static_site(image)
        self._shapes: BoundedCache[tuple[tuple[int, ...], ...], Site] = BoundedCache(KEPT)
        self._solver = Solver(f"module {image.name}", image.inputs, image.symbols)
        if image.symbols:
            self._plan = Plan(image)
            self._or_none = [i for i, s in enumerate(image.symbols) if s.or_none]
        if image.rooms:
            self._after = Solver(f"module {image.name}", _after(image.ends), image.symbols)
            room = image.rooms[0]
            now = next(v for v in image.outputs if v.io == room.io)
            self._behind = Sizes(image.symbols, [[now.shape[room.axis]]])
            self.fresh = Shapes(image.symbols, [v.shape for v in fresh(image.ends)])
            grown = [
                e.symbol
                for e in self._after.equations
                if e.at.input == len(self._after.inputs) - 1 and (e.factor, e.rest) == (1, 0)
            ]
            self._grows = image.symbols.index(grown[0]) if grown else None

    def of(self, arrays: Sequence[Any]) -> Site:
        """Where inputs of these shapes are.

        Args:
            arrays: the inputs in order; anything that has a shape, or that NumPy can make an array
                of.

        Raises:
            ShapeError: the module was not compiled for these shapes.
            ModuleError: sizes make no sense there.
        """
        if self._only is not None:
            return self._only
        try:
            shapes = tuple([tuple(a.shape) for a in arrays])
        except AttributeError:
            shapes = tuple([tuple(np.shape(a)) for a in arrays])
        site = self._shapes.get(shapes)
        if site is None:
            site = self.at(self._solver.point(shapes))
            self._shapes.put(shapes, site)
        return site

    def after(self, length: int, shapes: Sequence[tuple[int, ...]]) -> tuple[Site, int]:
        """Where a run is that continues a past of this length, and how long it is then.

        Args:
            length: of all inputs that are continued.
            shapes: of the other inputs in order.

        Raises:
            ShapeError: the module was not compiled for these shapes, or the past is full.
            ModuleError: sizes make no sense there.
        """
        lengths = self._after.inputs[-1].shape
        room = min(map(most, lengths))
        if length > room:
            raise ShapeError(
                f"module {self._image.name}: the past is full: it has {length} positions, and "
                f"{' and '.join(map(str, lengths))} may be {room} at the most; rewind it, or "
                "compile for a longer range"
            )
        past = (length,) * len(lengths)
        site = self.at(self._after.point([*shapes, past]))
        return site, self.length(site.values)

    def following(self, site: Site, length: int) -> tuple[int, ...] | None:
        """The values of symbols at a run behind one, with as many positions; None if not known.

        Args:
            length: of the past behind the run at the site.
        """
        n = self._grows
        if n is None or not self.symbols[n].low <= length <= self.symbols[n].high:
            return None
        return (*site.values[:n], length, *site.values[n + 1 :])

    def length(self, values: tuple[int, ...]) -> int:
        """How long a past is behind a run where symbols have these values."""
        ((length,),) = self._behind.at(*values)
        return length

    def named(self, values: Mapping[str, int] | None) -> Site:
        """Where symbols have these values, by name; typical ones where none is given.

        Raises:
            ShapeError: there is no such symbol, or a value is outside its range.
        """
        point = self._solver.named(values or {})
        return self.at(point) if self._only is None else self._only

    def at(self, values: tuple[int, ...]) -> Site:
        """The site of a point.

        Raises:
            ModuleError: a size is negative or too large, or a reference leaves its block.
        """
        if any([values[i] == 0 for i in self._or_none]):
            return Site(self._image, values, self._plan.nowhere(), idle=True)
        return Site(self._image, values, self._plan.at(values))


def fresh(ends: Ends) -> list[Value]:
    """What a run has anew that continues a past: inputs, buffers of outputs, then these."""
    buffers = ends.io_values[len(ends.inputs) :]
    return [*ends.fed, *buffers, *(v for v in ends.outputs if v.io not in ends.continued)]


def _after(ends: Ends) -> list[Value]:
    """What a run that continues a past is given, and last how long the past is."""
    lengths = [ends.inputs[r.io].shape[ends.continued[r.io]] for r in ends.rooms]
    return [*ends.fed, Value("the past", tuple(dict.fromkeys(lengths)), "positions", -1)]


def static_site(image: Image) -> Site:
    """The only site of an image without symbols."""
    places = [0 if r.space == "io" else r.at for r in image.refs]
    starts = np.array([*places, *map(known, image.numbers)], np.int64)
    pairs = tuple((known(shared), known(each)) for shared, each in image.workspaces)
    behind = (0,) * len(image.io_values)
    return Site(image, (), Laid(image.arena_bytes, pairs, starts, behind))


def _ref(ref: Ref, start: int, at: Mapping[Symbol, int]) -> Ref:
    """A reference as it is at a point."""
    reach = value_at(ref.nbytes, at)
    return Ref("arena", start, reach) if ref.space == "place" else ref._replace(nbytes=reach)
