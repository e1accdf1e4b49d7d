"""The threads that a process has for kernels: one runtime for all modules, loaded when needed.

What it does, `tilework.kinds.cpu.llvm.pool` says. It holds the state of the whole process, so that
modules share its threads and its budget of cores; therefore it is loaded once and for good.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from tilework.deferred import Awaited
from tilework.errors import ModuleError
from tilework.kinds.cpu.elf import BadObject, read_object
from tilework.kinds.cpu.jit import LinkedObjects, llvm
from tilework.kinds.cpu.llvm.pool import COUNTERS, COUNTS, SYMBOLS, pool_object
from tilework.kinds.cpu.target import CpuTarget
from tilework.locks import Lock
from tilework.target.host import HOST_PLATFORM

_loading = Lock()


class Counts(NamedTuple):
    """What callers and their helpers did.

    Attributes:
        shared: parallel regions that got helpers.
        woken: helpers that slept when they were wanted.
        moved: helpers that woke up on their caller's core and went to another one.
        taken_back: jobs that a helper had not begun when its caller was through.
        waited: helpers in the middle of a chunk then, so that the caller waited.
        lent: of those, helpers that the system had put aside: they got the caller's core.
        waited_ns: nanoseconds of all that waiting.
    """

    shared: int
    woken: int
    moved: int
    taken_back: int
    waited: int
    lent: int
    waited_ns: int

    def __str__(self) -> str:
        each = f" ({1e-3 * self.waited_ns / self.waited:.1f} us each)" if self.waited else ""
        return (
            f"{self.shared} regions shared; helpers woken {self.woken} times, moved off their "
            f"caller's core {self.moved}, too late {self.taken_back}, waited for "
            f"{self.waited}{each}, lent a core {self.lent}"
        )


def counts() -> Counts:
    """What happened in this process, or forked child, since its first parallel region."""
    numbers = (ctypes.c_int64 * len(COUNTERS))()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(load_team()[COUNTS])(ctypes.addressof(numbers))
    return Counts(*numbers)


def counts_during(work: Callable[[], object]) -> Counts:
    """What happened while ``work`` ran."""
    before = counts()
    work()
    return Counts(*(b - a for a, b in zip(before, counts(), strict=True)))


def load_team() -> dict[str, int]:
    """Make the runtime's functions known to code that is loaded from now on.

    Returns:
        Their addresses by symbol.
    """
    with _loading:
        return _load_team()


class Team:
    """The runtime's own code, as what is kept for the next process."""

    def __init__(self) -> None:
        self._target = CpuTarget("llvm -num-cores=1")

    @property
    def follows_from(self) -> str:
        """See `tilework.lower.protocol.Common`."""
        return str(self._target)

    def make(self) -> bytes:
        """See `tilework.lower.protocol.Common`."""
        return pool_object(self._target)

    def check(self, code: bytes) -> bytes:
        """See `tilework.lower.protocol.Common`."""
        try:
            lacking = set(SYMBOLS) - read_object(code, HOST_PLATFORM.split()[1]).defined
        except BadObject as e:
            raise ModuleError(f"the runtime of threads is damaged: {e}") from e
        if lacking:
            raise ModuleError(f"the runtime of threads lacks {', '.join(sorted(lacking))}")
        return code

    def take(self, code: Awaited[bytes]) -> None:
        """See `tilework.lower.protocol.Common`."""
        _made[:] = [code]


def team_to_load() -> Team | None:
    """The runtime, if this process has not loaded it, nor been given its code."""
    return None if _kept or _made or not HOST_PLATFORM.startswith("linux ") else Team()


@lru_cache(maxsize=1)
def _load_team() -> dict[str, int]:
    code = LinkedObjects(_made.pop().result() if _made else Team().make())
    addresses = {symbol: code.address(symbol) for symbol in SYMBOLS}
    for symbol, address in addresses.items():
        llvm().add_symbol(symbol, address)
    _kept.append(code)
    return addresses


_kept: list[LinkedObjects] = []
_made: list[Awaited[bytes]] = []
"""Its code until it is loaded, if that was made, or is being made."""
