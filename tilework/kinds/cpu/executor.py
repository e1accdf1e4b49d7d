"""Compiled networks on this CPU: `tilework.runtime.executor.Executor`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import c_int32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

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
from tilework.runtime.arrays import address, aligned_empty, kept_memory
from tilework.runtime.executor import Addresses, Context, Executor, HostLoaded, Loaded
from tilework.runtime.image import Image
from tilework.runtime.layout import KEPT
from tilework.runtime.sites import Site, static_site
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
        self.arguments = _Arguments(image)
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
        about = _abouts(site)

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
_BLOCKS = {"arena": 0, "place": 0, "constant": 1, "io": 2, "behind": 2, "symbol": 3}
"""The blocks that arguments lie in, as a context numbers them."""
_NUMBERS = 4


def _abouts(site: Site) -> tuple[int, ...]:
    """`_about` each symbol."""
    return tuple(map(_about, site.values))


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


class _Arguments:
    """Where the arguments of all steps lie, in order, and behind them the numbers of repeats.

    Attributes:
        blocks: the number of the block of each, as in `_BLOCKS`; numbers are of one at address 0.
        io: those that lie in io buffers.
        slots: of these, the number of the buffer; so many more if behind its input's positions.
        symbols: those that are symbols.
        fresh: the numbers of buffers that no past keeps.
    """

    def __init__(self, image: Image) -> None:
        refs, count = image.refs, len(image.io_values)
        io = [(i, r.at + count * (r.space == "behind")) for i, r in enumerate(refs)]
        io = [(i, slot) for i, slot in io if _BLOCKS[refs[i].space] == _BLOCKS["io"]]
        blocks = [_BLOCKS[r.space] for r in refs] + [_NUMBERS] * len(image.numbers)
        self.blocks = np.array(blocks, np.int64)
        self.io = np.array([i for i, _ in io], np.int64)
        self.slots = np.array([slot for _, slot in io], np.int64)
        symbols = [i for i, r in enumerate(refs) if r.space == "symbol"]
        self.symbols = np.array(symbols, np.int64)
        self.fresh = sorted({*range(count)} - {room.io for room in image.rooms})


class CpuContext(Context):
    """Arena, workspace and argument table of a run.

    Where shapes are symbolic, an address of what `LoadedNetwork.judged` returned is the table's
    last entry, and symbols have their values in one array: next to a shape never seen before, as
    each of a past that grows, nothing but these differs as long as values lie where they lay.
    """

    def __init__(self, loaded: LoadedNetwork) -> None:
        image = loaded.image
        self._loaded, self._image, self._arguments = loaded, image, loaded.arguments
        self._arena = self._workspace = aligned_empty((0,), "uint8")
        self._lock = Lock()
        count = len(self._arguments.blocks)
        self._symbols = np.zeros(len(image.symbols), np.int64)
        self._io = np.zeros((2, len(image.io_values)), np.int64)
        self._table = np.zeros(count + bool(image.symbols), np.uint64)
        self._table_at, self._workspace_at = address(self._table), address(self._workspace)
        self._entries = self._table[:count].view(np.int64)
        self._starts: NDArray[np.int64] | None = None
        self._judged: Array | None = None
        self._about: tuple[int, ...] = ()
        if not image.symbols:
            self.place(static_site(image))

    def place(self, site: Site) -> None:
        """See `tilework.runtime.executor.Context`: the largest arena so far is kept."""
        if self._arena.nbytes < site.arena_bytes:
            self._starts = None
            self._arena = aligned_empty((0,), "uint8")  # what was there goes first
            self._arena = kept_memory(site.arena_bytes, bool(site.values))
        if self._starts is not site.laid.starts:
            self._starts = site.laid.starts
            blocks = (self._arena, self._image.constants, None, self._symbols, None)
            bases = [0 if block is None else address(block) for block in blocks]
            at = np.array(bases, np.int64)[self._arguments.blocks]
            np.add(at, self._starts, out=self._entries)
        self._site = site
        if site.values:
            self._symbols[:] = site.values
            about = _abouts(site)
            if about != self._about:
                self._about, self._judged = about, self._loaded.judged(site)
                self._table[-1] = address(self._judged)

    @override
    def run(
        self, buffers: Sequence[Array], threads: int, addresses: Addresses | None = None
    ) -> None:
        self._fill(buffers, threads, addresses)
        self._loaded.run(self._table_at, self._workspace_at, threads)

    @override
    def profile(self, buffers: Sequence[Array], threads: int) -> NDArray[np.float64]:
        self._fill(buffers, threads)
        stamps = np.zeros((len(self._image.steps) + 1, 2), np.int64)
        self._loaded.profile(
            self._table_at,
            self._workspace_at,
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
        starts = [*[0] * len(self._image.io_values), *self._site.laid.behind]
        pairs = zip(self._arguments.io.tolist(), self._arguments.slots.tolist(), strict=True)
        places = [(at, slot % len(self._image.io_values), starts[slot]) for at, slot in pairs]

        def run(addresses: Sequence[int]) -> None:
            for at, number, start in places:
                table[at] = addresses[number] + start
            call()

        return run

    @override
    def serves(self, site: Site, threads: int) -> bool:
        return (
            site.laid.starts is self._starts
            and (self._settled or _abouts(site) == self._about)
            and site.arena_bytes <= self._arena.nbytes
            and site.workspace_bytes(threads) <= self._workspace.nbytes
        )

    @property
    def _settled(self) -> bool:
        """Whether a choice of threads is made, which holds for what comes next, too."""
        judged = self._judged
        return self._image.cores == 1 or (judged is not None and judged[_STATE] in _SETTLED)

    @override
    def ahead(
        self, sites: Sequence[Site], addresses: Addresses, threads: int
    ) -> Callable[[int], None]:
        own, tables = self._arguments, np.empty((len(sites), len(self._table)), np.uint64)
        tables[:] = self._table
        symbols = np.array([site.values for site in sites], np.int64)
        behind = addresses + np.array([site.laid.behind for site in sites], np.int64)
        entries = tables.view(np.int64)
        entries[:, own.io] = np.concatenate((addresses, behind), 1)[:, own.slots]
        rows = address(symbols) + symbols.strides[0] * np.arange(len(sites))
        entries[:, own.symbols] += rows[:, None] - address(self._symbols)
        sites_by_about = {_abouts(site): site for site in sites}
        judged = {at: self._loaded.judged(site) for at, site in sites_by_about.items()}
        tables[:, -1] = [address(judged[_abouts(site)]) for site in sites]
        run, first, step = self._loaded.run, address(tables), tables.strides[0]
        workspace = self._workspace_at

        def call(number: int) -> None:
            run(first + number * step, workspace, threads)

        # what the pointers point to lives as long as the call
        call.keep = (tables, symbols, self._arena, self._workspace, judged)  # type: ignore[attr-defined]
        return call

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
        pointed_to = self._arena, self._judged
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

    def _fill(
        self, buffers: Sequence[Array], threads: int, addresses: Addresses | None = None
    ) -> None:
        """Put the io buffers into the table, and have workspace for so many threads."""
        here, behind = self._io
        if addresses is None:
            here[:] = [address(b) for b in buffers]
        else:
            here[:] = addresses
            for n in self._arguments.fresh:
                here[n] = address(buffers[n])
        if self._image.rooms:
            np.add(here, self._site.laid.behind, out=behind)
        self._entries[self._arguments.io] = self._io.reshape(-1)[self._arguments.slots]
        need = self._site.workspace_bytes(threads)
        if self._workspace.nbytes < need:
            self._workspace = kept_memory(need, bool(self._site.values))
            self._workspace_at = address(self._workspace)


EXECUTOR = CpuExecutor()
