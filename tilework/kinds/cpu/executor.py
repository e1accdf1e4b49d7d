"""Compiled networks on this CPU: `tilework.runtime.executor.Executor`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import c_int32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from tilework.cache import BoundedCache
from tilework.errors import ModuleError
from tilework.kinds.cpu.calls import PROFILE, PROFILE_SYMBOL, RUN, RUN_SYMBOL, SITE_WORDS
from tilework.kinds.cpu.code_features import lacking_features
from tilework.kinds.cpu.object_code import ObjectCode, check_objects
from tilework.kinds.cpu.target import CpuTarget
from tilework.locks import Lock
from tilework.overriding import override
from tilework.runtime.arrays import aligned_empty
from tilework.runtime.executor import Context, Executor, HostLoaded, Loaded
from tilework.runtime.image import Image
from tilework.runtime.sites import KEPT, Site, static_site
from tilework.target.host import HOST_PLATFORM

if TYPE_CHECKING:
    from tilework.kinds.cpu.roofline import CpuRoofline

Array = NDArray[Any]

_HERE = "compile the network for 'llvm -mcpu=native' here"


class CpuExecutor(Executor):
    """Runs object code in this process."""

    @override
    def check(self, image: Image, what: str) -> None:
        if image.platform != HOST_PLATFORM:
            raise ModuleError(
                f"{what} has code for {image.platform}, this is {HOST_PLATFORM}: it was compiled "
                f"for '{image.target}'; load it there, or {_HERE}"
            )
        lacking = lacking_features(image.needs)
        if lacking:
            raise ModuleError(
                f"{what} was compiled for '{image.target}' and needs {', '.join(lacking)}, which "
                f"this CPU lacks: {_HERE}"
            )

    def check_threads(self, image: Image, threads: int) -> None:
        """Code for a single core cannot divide its work."""
        if threads > 1 and image.cores == 1:
            raise ModuleError(
                f"module {image.name} was compiled for one core ('{image.target}') and cannot use "
                f"{threads} threads: compile the network for -num-cores={threads}"
            )

    @override
    def check_code(self, image: Image) -> None:
        symbols = {RUN_SYMBOL, PROFILE_SYMBOL, *(step.symbol for step in image.steps)}
        check_objects(image.code, symbols)

    @override
    def load(self, image: Image) -> LoadedNetwork:
        return LoadedNetwork(image)


class LoadedNetwork(HostLoaded, Loaded):
    """Code and constants of a network in this process.

    Runs go on side by side: `tilework.kinds.cpu.llvm.pool` shares the cores among them.
    """

    def __init__(self, image: Image) -> None:
        self.image = image
        self.code = ObjectCode(*image.code.values())
        self.run = RUN(self.code.address(RUN_SYMBOL))
        self.profile = PROFILE(self.code.address(PROFILE_SYMBOL))
        self._judged: BoundedCache[tuple[int, ...], Array] = BoundedCache(KEPT)

    @override
    def context(self) -> CpuContext:
        return CpuContext(self)

    @override
    def roofline(self, threads: int) -> CpuRoofline:
        from tilework.kinds.cpu.roofline import measure_roofline

        return measure_roofline(CpuTarget(self.image.target), threads)

    def judged(self, site: Site) -> Array:
        """What is known of runs at a site, by which the pool chooses their threads.

        Sites share it whose symbols differ by less than a quarter: next to a past that grows, no
        run has the shape of one before. Where nothing was tried yet, a choice that was made for
        not much more or less of one symbol holds; else each step of that past would try anew.
        """
        about = tuple(map(_about, site.values))

        def make() -> Array:
            record = aligned_empty((SITE_WORDS,), "int64")
            record[...] = 0
            return record

        record = self._judged.get_or_make(about, make)
        if self.image.cores > 1 and record[_STATE] == _UNTRIED:  # else nothing is ever tried
            for near in _near(about, self._judged.get):
                known = near.copy()  # runs write to it meanwhile
                if known[_STATE] in _SETTLED:
                    record[...] = known
                    break
        return record


_STATE, _UNTRIED, _SETTLED = 3, 0, (2, 3)
"""Where a record has its state, that in which only the team was seen yet, and those in which a
choice is made: `llvm/judge.ll`."""
_STEPS = 8
"""How far what was chosen holds: two octaves of a symbol."""
_MOST_KNOWN = 64
"""Addresses of buffers that are gone, beside as many as a run has: those of its outputs."""


def _about(number: int) -> int:
    """A number by its first three binary digits."""
    rest = max(0, number.bit_length() - 3)
    return number >> rest << rest


def _near(
    about: tuple[int, ...], record: Callable[[tuple[int, ...]], Array | None]
) -> Iterator[Array]:
    """Records of less and of more of one symbol, the nearest first, as far as there are any."""
    for i, here in enumerate(about):
        for upwards in (False, True):
            number = here
            for _ in range(_STEPS):
                if upwards:
                    number += 1 << max(0, number.bit_length() - 3)
                elif number:
                    number = _about(number - 1)
                known = record((*about[:i], number, *about[i + 1 :]))
                if number == here or known is None:
                    break
                yield known


class _Table(NamedTuple):
    """The arguments of all calls, and what some of them point to.

    Where shapes are symbolic, an address of what `LoadedNetwork.judged` returned is the last.
    """

    entries: NDArray[np.uint64]
    symbols: NDArray[np.int64]
    judged: Array


class CpuContext(Context):
    """Arena, workspace and argument tables of a run."""

    def __init__(self, loaded: LoadedNetwork) -> None:
        image = loaded.image
        self._loaded, self._image = loaded, image
        self._arena = self._workspace = aligned_empty((0,), "uint8")
        self._lock = Lock()
        self._known: dict[int, tuple[ref[Array], int]] = {}
        self._tables: dict[tuple[int, ...], _Table] = {}
        refs = (r for step in image.steps for r in step.args)
        io = [(i, r.at) for i, r in enumerate(refs) if r.space in ("io", "behind")]
        self._io = np.array([i for i, _ in io], np.int64)
        self._numbers = np.array([number for _, number in io], np.int64)
        if not image.symbols:
            self.place(static_site(image))

    def place(self, site: Site) -> None:
        """See `tilework.runtime.executor.Context`: the largest arena so far is kept.

        One that was too small before is made a little larger than it must be: a cache that grows
        by a position at each run has a new shape every time.
        """
        had = self._arena.nbytes
        if had < site.arena_bytes:
            self._tables.clear()
            self._arena = aligned_empty((0,), "uint8")  # what was there goes first
            size = site.arena_bytes + (site.arena_bytes // 8 if had else 0)
            self._arena = aligned_empty((size,), "uint8")
        table = self._tables.pop(site.values, None)
        self._tables[site.values] = table = table or self._made(site)
        if len(self._tables) > KEPT:
            del self._tables[next(iter(self._tables))]
        self._site, self._table = site, table.entries

    def _made(self, site: Site) -> _Table:
        """The table of a site, without io buffers."""
        symbols = np.array(site.values, np.int64)
        constants = self._image.constants.ctypes.data
        bases = (self._arena.ctypes.data, constants, 0, symbols.ctypes.data)
        count = len(site.starts)
        table = np.empty(count + bool(site.values), np.uint64)
        np.add(np.array(bases)[site.blocks], site.starts, out=table[:count].view(np.int64))
        if not site.values:
            return _Table(table, symbols, symbols)
        judged = self._loaded.judged(site)
        table[count] = judged.ctypes.data
        return _Table(table, symbols, judged)

    @override
    def run(self, buffers: Sequence[Array], threads: int) -> None:
        self._fill(buffers, threads)
        self._loaded.run(self._table.ctypes.data, self._workspace.ctypes.data, threads)

    @override
    def profile(self, buffers: Sequence[Array], threads: int) -> NDArray[np.float64]:
        self._fill(buffers, threads)
        stamps = np.zeros((len(self._image.steps) + 1, 2), np.int64)
        self._loaded.profile(
            self._table.ctypes.data,
            self._workspace.ctypes.data,
            threads,
            time.CLOCK_MONOTONIC,
            stamps.ctypes.data,
        )
        passed = np.diff(stamps, axis=0)
        return np.asarray(passed[:, 0] + passed[:, 1] * 1e-9, np.float64)

    def bind(self, buffers: Sequence[Array], threads: int) -> Callable[[], None]:
        """See `tilework.runtime.executor.Context`; a call costs under a microsecond."""
        return self._bound(self._loaded.run, 0, buffers, threads)

    def bind_addresses(self, threads: int) -> Callable[[Sequence[int]], None]:
        """A run whose io buffers are named by their addresses; for one caller at a time."""
        nowhere = aligned_empty((0,), "uint8")
        call = self._bound(self._loaded.run, 0, [nowhere] * len(self._image.io_values), threads)
        filled: Any = call.keep[1]  # type: ignore[attr-defined]
        table = (c_uint64 * filled.size).from_buffer(filled)
        starts = self._site.starts[self._io].tolist()
        places = list(zip(self._io.tolist(), self._numbers.tolist(), starts, strict=True))

        def run(addresses: Sequence[int]) -> None:
            for at, number, start in places:
                table[at] = addresses[number] + start
            call()

        return run

    @override
    def bind_step(self, step: int, buffers: Sequence[Array], threads: int) -> Callable[[], None]:
        steps = self._image.steps
        first = sum(len(s.args) for s in steps[:step])
        kernel = RUN(self._loaded.code.address(steps[step].symbol))
        args = [(ref.space, ref.at) for ref in steps[step].args if ref.space != "symbol"]
        *inputs, output = args
        spare = aligned_empty((self._site.arena_bytes,), "uint8") if output in inputs else None
        changed = {} if spare is None else {first + len(inputs): spare}
        return self._bound(kernel, first, buffers, threads, changed)

    def _bound(
        self,
        run: Any,
        first: int,
        buffers: Sequence[Array],
        threads: int,
        changed: Mapping[int, Array] | None = None,
    ) -> Callable[[], None]:
        """A function with the argument table from entry ``first`` on, some entries replaced."""
        self._fill(buffers, threads)
        table, workspace, lock = self._table.copy(), self._workspace, self._lock
        pointed_to = self._arena, self._tables[self._site.values]
        for entry, array in (changed or {}).items():
            table[entry] = array.ctypes.data
        a = c_void_p(table.ctypes.data + first * table.itemsize)
        b = c_void_p(workspace.ctypes.data)
        count = c_int32(threads)

        def call() -> None:
            with lock.now:
                run(a, b, count)

        # what the pointers point to lives as long as the call
        call.keep = (self, table, workspace, pointed_to, *buffers, *(changed or {}).values())  # type: ignore[attr-defined]
        return call

    def _fill(self, buffers: Sequence[Array], threads: int) -> None:
        """Put the io buffers into the table, and have workspace for so many threads."""
        addresses = np.array(self._addresses_of(buffers), np.int64)
        self._table[self._io] = addresses[self._numbers] + self._site.starts[self._io]
        need = self._site.workspace_bytes(threads)
        if self._workspace.nbytes < need:
            self._workspace = aligned_empty((need,), "uint8")

    def _addresses_of(self, buffers: Sequence[Array]) -> list[int]:
        """Where buffers lie; those of a past come again and again, and NumPy is slow to say it.

        An array that is referred to weakly cannot be resized: as long as it lives, it stays.
        """
        addresses, known = [], self._known
        for b in buffers:
            one = known.get(id(b))
            if one is None or one[0]() is not b:
                known[id(b)] = one = ref(b), b.ctypes.data
            addresses.append(one[1])
        if len(known) > _MOST_KNOWN + 2 * len(addresses):
            self._known = {id(b): known[id(b)] for b in buffers}
        return addresses


EXECUTOR = CpuExecutor()
