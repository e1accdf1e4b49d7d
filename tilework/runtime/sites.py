"""A network at one point of its symbols: shapes, sizes, and where everything lies.

A *site* follows from an image and the values of its symbols. An image without symbols has one,
which stands in its file; of another, sites are made when a run brings shapes that are new: sizes
are evaluated, the arena is placed, and every reference is proved to lie within its block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilework.cache import BoundedCache
from tilework.errors import ModuleError, ShapeError
from tilework.frozen import frozen
from tilework.index.extents import Extent, known, most, nbytes
from tilework.index.symbols import Point, Symbol, Symbolic, value_at
from tilework.runtime.arena import Arena
from tilework.runtime.image import Ends, Image, Ref, Value
from tilework.runtime.sizes import Sizes
from tilework.runtime.solve import Solver

KEPT = 32
"""Sites of a module that are kept."""
BLOCKS = ("arena", "constant", "io", "symbol")
"""The blocks that arguments lie in at a site, in the order of `Site.blocks`."""
_BLOCK_OF = {"place": "arena", "behind": "io"}
_MOST_BYTES = 1 << 46
_SPARE = 1 << 10
"""Bytes by which what grows is given more at least."""

Integers = NDArray[np.int64]


@frozen(eq=False)
class Site:
    """A network at a point.

    Attributes:
        whole: the image.
        values: of its symbols, in order.
        arena_bytes: memory of all intermediate values.
        workspaces: as `Image.workspaces`.
        blocks: of the arguments of all steps in order, in which of `BLOCKS` each lies.
        starts: where in that block, or io buffer, each begins, in bytes.
        idle: nothing is computed: no output has elements.
    """

    whole: Image
    values: tuple[int, ...]
    arena_bytes: int
    workspaces: tuple[tuple[int, int], ...]
    blocks: Integers
    starts: Integers
    idle: bool = False

    def workspace_bytes(self, threads: int) -> int:
        """Workspace of a run with ``threads`` threads."""
        return max((shared + threads * each for shared, each in self.workspaces), default=0)

    @cached_property
    def ends(self) -> Ends:
        """What a run takes and returns here: shapes are numbers."""
        ends = self.whole.ends
        return ends.at(self.point) if self.whole.symbols else ends

    @cached_property
    def image(self) -> Image:
        """The image as one compiled for this point alone would be, but for symbols as arguments.

        For what need not be fast: tables, and machines that look at each step by itself.
        """
        whole, at = self.whole, self.point
        if not whole.symbols:
            return whole
        refs = zip((r for s in whole.steps for r in s.args), self.starts.tolist(), strict=True)
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
            arena_bytes=self.arena_bytes, workspaces=self.workspaces, lifetimes=(), places=(),
            rooms=self.ends.rooms,
        )  # fmt: skip

    @cached_property
    def point(self) -> dict[Symbol, int]:
        """The values by symbol."""
        return dict(zip(self.whole.symbols, self.values, strict=True))


class Sites:
    """The sites of an image.

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
            self._plan = _Plan(image)
        if image.rooms:
            self._after = Solver(f"module {image.name}", _after(image.ends), image.symbols)
            room = image.rooms[0]
            now = next(v for v in image.outputs if v.io == room.io)
            self._behind = now.shape[room.axis]

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
            site = self._plan.at(self._solver.point(shapes))
            self._shapes.put(shapes, site)
        return site

    def after(self, length: int, arrays: Sequence[Any]) -> Site:
        """Where a run is that continues a past of this length.

        Args:
            length: of all inputs that are continued.
            arrays: the other inputs in order.

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
        return self._plan.at(self._after.point([*map(np.shape, arrays), past]))

    def length(self, at: Point) -> int:
        """How long a past is behind a run at a point."""
        return value_at(self._behind, at)

    def named(self, values: Mapping[str, int] | None) -> Site:
        """Where symbols have these values, by name; typical ones where none is given.

        Raises:
            ShapeError: there is no such symbol, or a value is outside its range.
        """
        point = self._solver.named(values or {})
        return self._plan.at(point) if self._only is None else self._only


def _after(ends: Ends) -> list[Value]:
    """What a run that continues a past is given, and last how long the past is."""
    fed = [v for v in ends.inputs if v.io not in ends.continued]
    lengths = [ends.inputs[r.io].shape[ends.continued[r.io]] for r in ends.rooms]
    return [*fed, Value("the past", tuple(dict.fromkeys(lengths)), "positions", -1)]


class _Layout(NamedTuple):
    """Places of the values of an arena, with room for these sizes, in bytes."""

    sizes: Integers
    begins: Integers
    arena_bytes: int


class _Plan:
    """What of an image follows from symbols, ready to be evaluated."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._arena = Arena(image.lifetimes)
        self._laid: _Layout | None = None
        self._or_none = [i for i, s in enumerate(image.symbols) if s.or_none]
        refs = [r for step in image.steps for r in step.args]
        io = image.io_values
        values = (*image.inputs, *image.outputs)
        behind = [
            behind_in(image.ends, n) if n in image.ends.continued else 0 for n in range(len(io))
        ]
        groups = (
            [v.size for v in image.lifetimes],
            [p.offset for p in image.places],
            [n for pair in image.workspaces for n in pair],
            [v.nbytes for v in io],
            [v.nbytes for v in values],
            behind,
            [r.nbytes for r in refs],
        )
        ends = np.cumsum([0, *map(len, groups)]).tolist()
        self._parts = [slice(a, b) for a, b in pairwise(ends)]
        self._sizes = Sizes(image.symbols, [e for g in groups for e in g])
        self._lifetimes = np.array([p.lifetime for p in image.places], np.int64)
        self._io_of_values = np.array([v.io for v in values], np.int64)
        self._alone = np.array([v.io not in image.ends.continued for v in values], bool)
        spaces = np.array([r.space for r in refs], object)
        at = np.array([r.at for r in refs], np.int64)
        self.blocks = np.array(
            [BLOCKS.index(_BLOCK_OF.get(r.space, r.space)) for r in refs], np.int64
        )
        self._inside = np.flatnonzero(spaces == "place")
        self._place = at[self._inside]
        self._fixed = np.where(spaces == "constant", at, np.where(spaces == "symbol", 8 * at, 0))
        self._room = np.where(spaces == "constant", image.constants.nbytes - at, 8)
        self._io = np.flatnonzero(self.blocks == BLOCKS.index("io"))
        self._io_at = at[self._io]
        self._behind = np.where(spaces == "behind", 1, 0)[self._io]

    def at(self, values: tuple[int, ...]) -> Site:
        """The site of a point.

        Raises:
            ModuleError: a size is negative or too large, or a reference leaves its block.
        """
        image = self._image
        if any([values[i] == 0 for i in self._or_none]):
            nowhere = np.zeros_like(self.blocks)
            return Site(image, values, 0, (), self.blocks, nowhere, idle=True)
        numbers = self._sizes.at(values)
        sizes, offsets, workspaces, io, given, behind, reach = [numbers[p] for p in self._parts]
        if numbers.min(initial=0) < 0:
            self._refuse(values, "a size is negative")
        more = io[self._io_of_values] - given
        if (more < 0).any() or more[self._alone].any():
            self._refuse(values, "io buffers differ")
        begins, arena_bytes = self._layout(sizes)
        most = max(arena_bytes, int(numbers.max(initial=0)))
        if most >= _MOST_BYTES:
            self._refuse(values, f"a block of {most} bytes")
        starts, room = self._fixed.copy(), self._room.copy()
        starts[self._inside] = (begins[self._lifetimes] + offsets)[self._place]
        room[self._inside] = (sizes[self._lifetimes] - offsets)[self._place]
        starts[self._io] = behind[self._io_at] * self._behind
        room[self._io] = io[self._io_at] - starts[self._io]
        if (reach > room).any():
            self._refuse(values, "a reference leaves its block")
        pairs = workspaces.reshape(-1, 2).tolist()
        each = tuple((shared, thread) for shared, thread in pairs)
        return Site(image, values, arena_bytes, each, self.blocks, starts)

    def _layout(self, sizes: Integers) -> tuple[Integers, int]:
        """Where values of these sizes lie, and how large the arena is.

        As long as all fit where they lay before, they stay there, unless that is much too large.
        Those that have grown get an eighth more, and a kilobyte at least: next to a past that
        grows by a position at each run, so does something at each run.
        """
        had = self._laid
        if had is not None:
            fit = sizes <= had.sizes
            if fit.all() and had.sizes.sum() <= 1.25 * sizes.sum() + _SPARE * len(sizes):
                return had.begins, had.arena_bytes
            sizes = np.where(fit, sizes, sizes + np.maximum(sizes // 8, _SPARE))
        begins, arena_bytes = self._arena.place(sizes.tolist())
        self._laid = _Layout(sizes, np.array(begins, np.int64), arena_bytes)
        return self._laid.begins, arena_bytes

    def _refuse(self, values: tuple[int, ...], wrong: str) -> NoReturn:
        pairs = zip(self._image.symbols, values, strict=True)
        at = ", ".join(f"{s.name} = {n}" for s, n in pairs)
        raise ModuleError(f"module {self._image.name} cannot run at {at}: {wrong}")


def behind_in(ends: Ends, number: int) -> Extent:
    """Where in a room the positions of its input end, in bytes from the first row's beginning."""
    room, axis = ends.io_values[number], ends.continued[number]
    step = nbytes(room.shape[axis + 1 :], room.dtype)
    return ends.inputs[number].shape[axis] * step


def static_site(image: Image) -> Site:
    """The only site of an image without symbols."""
    refs = [r for step in image.steps for r in step.args]
    return Site(
        image,
        (),
        image.arena_bytes,
        tuple((known(shared), known(each)) for shared, each in image.workspaces),
        np.array([BLOCKS.index(r.space) for r in refs], np.int64),
        np.array([0 if r.space == "io" else r.at for r in refs], np.int64),
    )


def _ref(ref: Ref, start: int, at: Mapping[Symbol, int]) -> Ref:
    """A reference as it is at a point."""
    reach = value_at(ref.nbytes, at)
    return Ref("arena", start, reach) if ref.space == "place" else ref._replace(nbytes=reach)
