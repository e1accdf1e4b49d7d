"""Runs compiled kernels in this process.

Without checks a kernel reads and writes what its addresses say, as on a device; one that goes
astray may end the process. With checks it does not touch what is not its own.
"""

from __future__ import annotations

import _ctypes
import ctypes
import weakref
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tilework.errors import TileworkError
from tilework.frozen import frozen
from tilework.kinds.cuda.emulate.compile import runtime_library
from tilework.locks import Lock

MAX_THREADS = 1024


class EmulationError(TileworkError):
    """A kernel that does something no device allows, or whose result depends on luck.

    Attributes:
        problems: what was found first, each with its line of the kernel's text.
        count: how much was found in all.
    """

    def __init__(self, entry: str, problems: Sequence[str], count: int) -> None:
        more = f" (and {count - 1} more)" if count > 1 else ""
        super().__init__(f"kernel {entry}: {problems[0]}{more}")
        self.problems = tuple(problems)
        self.count = count


@frozen
class Requests:
    """Accesses of one kind.

    Attributes:
        instructions: of warps.
        units: 32-byte sectors of global memory, wavefronts of shared memory.
        lanes: accesses of single threads.
    """

    instructions: int
    units: int
    lanes: int


@frozen
class Traffic:
    """What a launch moves."""

    global_load: Requests
    global_store: Requests
    shared_load: Requests
    shared_store: Requests


class Emulated:
    """A library of kernels in this process.

    Raises:
        TargetError: the runtime is not there and cannot be built.
        OSError: the file is no library.
    """

    def __init__(self, path: Path) -> None:
        self._runtime = _runtime(runtime_library())
        self._library = ctypes.CDLL(str(path))
        # The loader keeps libraries; a search runs thousands.
        self._unload = weakref.finalize(self, _ctypes.dlclose, self._library._handle)
        self._unload.atexit = False
        self._library.tw_attach(ctypes.c_void_p(self._runtime.tw_start()))

    def launch(
        self,
        entry: str,
        grid: int,
        block: int,
        shared: int,
        pointers: Sequence[int],
        order: int = 0,
    ) -> None:
        """Run a kernel to its end.

        Args:
            grid: blocks.
            block: threads of each.
            shared: bytes of dynamic shared memory.
            pointers: addresses of the arguments.
            order: in which threads run: 0 ascending, 1 descending, others are seeds of a shuffle.

        Raises:
            EmulationError: threads wait at different places for each other; in a checked library
                also accesses that are out of bounds, unordered and so on.
        """
        self._launch(entry, grid, block, shared, pointers, order, tracing=False)

    def trace(
        self, entry: str, grid: int, block: int, shared: int, pointers: Sequence[int]
    ) -> Traffic:
        """Run a kernel of a checked library and count what its warps move.

        Raises:
            EmulationError: see `launch`.
        """
        with _LOCK:
            self._runtime.tw_clear_traffic()
            self._launch(entry, grid, block, shared, pointers, 0, tracing=True)
            counts = [int(n) for n in self._runtime.tw_traffic_counts()[:12]]
        return Traffic(*(Requests(*counts[i : i + 3]) for i in range(0, 12, 3)))

    def _launch(
        self,
        entry: str,
        grid: int,
        block: int,
        shared: int,
        pointers: Sequence[int],
        order: int,
        tracing: bool,
    ) -> None:
        if not 1 <= block <= MAX_THREADS:
            raise EmulationError(
                entry, [f"a block has 1 to {MAX_THREADS} threads, not {block}"], 1
            )
        if not self._unload.alive:
            raise EmulationError(entry, ["its library was closed"], 1)
        described = _Entry.in_dll(self._library, f"{entry}_entry")
        if described.count != len(pointers):
            wrong = f"it has {described.count} arguments, the launch gives {len(pointers)}"
            raise EmulationError(entry, [wrong], 1)
        addresses = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        with _LOCK:
            count = self._runtime.tw_launch(
                ctypes.byref(described), addresses, grid, block, shared, order, int(tracing)
            )
            if count:
                problems = self._runtime.tw_reports().decode().splitlines()
                raise EmulationError(entry, problems, count)

    def close(self) -> None:
        """Take the library out of memory; nothing can be launched afterwards."""
        self._unload()


class _Entry(ctypes.Structure):
    """`tw_entry` of shim/interface.h."""

    _fields_ = (
        ("call", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p),
        ("count", ctypes.c_int),
        ("granule", ctypes.c_int),
        ("checked", ctypes.c_int),
    )


# The runtime has one state: one launch at a time.
_LOCK = Lock()


@lru_cache(maxsize=4)
def _runtime(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.tw_start.restype = ctypes.c_void_p
    library.tw_launch.argtypes = (
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_int,
        ctypes.c_int,
    )  # fmt: skip
    library.tw_reports.restype = ctypes.c_char_p
    library.tw_traffic_counts.restype = ctypes.POINTER(ctypes.c_double)
    return library
