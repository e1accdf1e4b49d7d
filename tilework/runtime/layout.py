"""Where everything of a network lies at a point of its symbols: evaluated, placed and proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import le, mul
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.index.extents import Extent, nbytes
from tilework.index.symbols import Symbolic, range_of
from tilework.runtime.arena import Arena
from tilework.runtime.image import Ends, Image, Ref, Value
from tilework.runtime.sizes import Numbers, Sizes

KEPT = 32
"""Sites and layouts of a module that are kept."""
_MOST_BYTES = 1 << 46
_SPARE = 1 << 10
"""Bytes by which what grows is given more at least."""
_FIXED = {"constant": 1, "symbol": 8}
"""Bytes by which a reference's number counts that lies where it does at every point."""

Integers = NDArray[np.int64]


class Layout(NamedTuple):
    """An arena with room for some sizes, which all that are not larger share.

    Attributes:
        sizes: room of each distinct size of a value, in bytes.
        total: room of all values together.
        begins: of each value, in bytes.
        arena_bytes: size of the arena.
        starts: as `Laid.starts`.
    """

    sizes: Numbers
    total: int
    begins: Integers
    arena_bytes: int
    starts: Integers


class Laid(NamedTuple):
    """What lies where at a point.

    Attributes:
        arena_bytes: memory of all intermediate values.
        workspaces: as `Image.workspaces`.
        starts: where the arguments of all steps begin in their blocks, in bytes, those in io
            buffers at 0; then `Image.numbers`. Points of one layout have the same array, unless
            these differ.
        behind: of each io buffer, where in it the positions of its input end, in bytes.
    """

    arena_bytes: int
    workspaces: tuple[tuple[int, int], ...]
    starts: Integers
    behind: Numbers


class Plan:
    """What of an image follows from symbols, ready to be evaluated.

    All that has to hold is an extent that must not be negative: sizes, and what is left of a block
    behind a reference. What ranges of symbols prove is not looked at where a run is.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._arena = Arena(image.lifetimes)
        self._layouts: tuple[Layout, ...] = ()
        refs, io = image.refs, image.io_values
        behind = [
            behind_in(image.ends, n) if n in image.ends.continued else 0 for n in range(len(io))
        ]
        sizes = list(dict.fromkeys(v.size for v in image.lifetimes))
        offsets = list(dict.fromkeys(p.offset for p in image.places))
        given = (*image.inputs, *image.outputs)
        exact = [v for v in given if v.io not in image.ends.continued]
        more = [_left(io, v) for v in given] + [-_left(io, v) for v in exact]
        needed: tuple[Sequence[Extent], ...] = (
            sizes,
            offsets,
            [shared for shared, _ in image.workspaces],
            [each for _, each in image.workspaces],
            behind,
            [-n if _falls(n) else n for n in image.numbers],
        )
        reaches = [*(v.nbytes for v in (*io, *given)), *(r.nbytes for r in refs)]
        groups = (*needed, *map(_open, (reaches, more, _rooms(image, refs, behind))))
        self._proved = not any(map(_open, groups))
        self._sizes = Sizes(image.symbols, groups)
        self._of = np.array([sizes.index(v.size) for v in image.lifetimes], np.int64)
        self._counts = np.bincount(self._of, minlength=len(sizes)).tolist()
        self._grows = [isinstance(size, Symbolic) for size in sizes]
        self._signs = np.array([-1 if _falls(n) else 1 for n in image.numbers], np.int64)
        self._moves = any(isinstance(n, Symbolic) for n in (*offsets, *image.numbers))
        self._offsets = np.array([offsets.index(p.offset) for p in image.places], np.int64)
        self._lifetimes = np.array([p.lifetime for p in image.places], np.int64)
        self._inside = np.array([i for i, r in enumerate(refs) if r.space == "place"], np.int64)
        self._place = np.array([r.at for r in refs if r.space == "place"], np.int64)
        self._fixed = np.array([_FIXED.get(r.space, 0) * r.at for r in refs], np.int64)

    def at(self, values: tuple[int, ...]) -> Laid:
        """What lies where at a point.

        Raises:
            ModuleError: a size is negative or too large, or a reference leaves its block.
        """
        groups = self._sizes.at(*values)
        if not self._proved:
            self._check(values, groups)
        sizes, offsets, shared, each, behind, repeats, *_ = groups
        layout = self._layout(sizes, offsets, repeats)
        if layout.arena_bytes >= _MOST_BYTES:
            self._too_large(values, layout.arena_bytes)
        starts = layout.starts
        if self._moves:
            starts = self._starts(layout.begins, offsets, repeats)
        return Laid(layout.arena_bytes, tuple(zip(shared, each, strict=True)), starts, behind)

    def nowhere(self) -> Laid:
        """Where nothing is computed."""
        count = len(self._fixed) + len(self._signs)
        return Laid(0, (), np.zeros(count, np.int64), ())

    def _layout(self, sizes: Numbers, offsets: Numbers, repeats: Numbers) -> Layout:
        """An arena in which values of these sizes lie.

        As long as all fit into one that was laid out before, they share it, unless it is much too
        large. In a new one all that grow get an eighth more, and a kilobyte at least: next to a
        past that grows by a position at each run, so does something at each run.
        """
        layouts = self._layouts
        most = 1.25 * sum(map(mul, self._counts, sizes)) + _SPARE * len(self._of)
        for n, had in enumerate(layouts):
            if had.total <= most and all(map(le, sizes, had.sizes)):
                if n:
                    self._layouts = (had, *layouts[:n], *layouts[n + 1 :])
                return had
        if layouts:
            pairs = zip(sizes, self._grows, strict=True)
            sizes = tuple([n + max(n // 8, _SPARE) * grows for n, grows in pairs])
        places, arena_bytes = self._arena.place([sizes[n] for n in self._of])
        begins = np.array(places, np.int64)
        starts = self._starts(begins, offsets, repeats)
        new = Layout(sizes, sum(map(mul, self._counts, sizes)), begins, arena_bytes, starts)
        self._layouts = (new, *layouts[: KEPT - 1])
        return new

    def _starts(self, begins: Integers, offsets: Numbers, repeats: Numbers) -> Integers:
        starts = np.concatenate((self._fixed, self._signs * np.array(repeats, np.int64)))
        inside = begins[self._lifetimes] + np.array(offsets, np.int64)[self._offsets]
        starts[self._inside] = inside[self._place]
        return starts

    def _check(self, values: tuple[int, ...], groups: Sequence[Numbers]) -> None:
        """Refuse a negative number, and one that is too large."""
        *sizes, more, left = [min(group, default=0) < 0 for group in groups]
        if any((*sizes, more, left)):
            wrong = "io buffers differ" if more else "a reference leaves its block"
            self._refuse(values, "a size is negative" if any(sizes) else wrong)
        most = max([max(group, default=0) for group in groups])
        if most >= _MOST_BYTES:
            self._too_large(values, most)

    def _too_large(self, values: tuple[int, ...], size: int) -> NoReturn:
        self._refuse(values, f"a block of {size} bytes is too large for any machine")

    def _refuse(self, values: tuple[int, ...], wrong: str) -> NoReturn:
        pairs = zip(self._image.symbols, values, strict=True)
        at = ", ".join(f"{s.name} = {n}" for s, n in pairs)
        raise ModuleError(f"module {self._image.name} cannot run at {at}: {wrong}")


def _falls(number: Extent) -> bool:
    """Whether a number is negative at every point, or 0; those that are not never are."""
    return range_of(number)[1] <= 0


def _open(extents: Iterable[Extent]) -> list[Extent]:
    """Those, each once, that ranges do not show to be a size: not negative, and not too large."""
    distinct = dict.fromkeys(extents)
    return [e for e in distinct if range_of(e)[0] < 0 or range_of(e)[1] >= _MOST_BYTES]


def behind_in(ends: Ends, number: int) -> Extent:
    """Where in a room the positions of its input end, in bytes from the first row's beginning."""
    room, axis = ends.io_values[number], ends.continued[number]
    step = nbytes(room.shape[axis + 1 :], room.dtype)
    return ends.inputs[number].shape[axis] * step


def _left(io: Sequence[Value], value: Value) -> Extent:
    """Bytes of an io buffer behind one of its values."""
    return io[value.io].nbytes - value.nbytes


def _rooms(image: Image, refs: Iterable[Ref], behind: Sequence[Extent]) -> list[Extent]:
    """What is left of a block behind each reference, in bytes; of numbers, the least alone."""
    io = [v.nbytes for v in image.io_values]
    places = [image.lifetimes[p.lifetime].size - p.offset for p in image.places]
    constants, moving, seldom = image.constants.nbytes, image.moving, image.seldom
    out: dict[Extent, None] = {}
    least = 0
    for i, (space, at, reach) in enumerate(refs):
        if space == "place":
            left = places[at] - reach
        elif space == "io":
            left = io[at] - reach
        elif space == "behind":
            left = io[at] - behind[at] - reach
        else:
            left = (constants - at if space == "constant" else 8) - reach
        lefts = [left]
        if i in moving:  # the last trip's begins within the block, too, and ends there
            start = image.places[at].offset if space == "place" else 0
            lefts += [start + moving[i], left - moving[i]]
        for one in [n * seldom[i] for n in lefts] if i in seldom else lefts:
            if isinstance(one, int):
                least = min(least, one)
            else:
                out[one] = None
    return [least, *out]
