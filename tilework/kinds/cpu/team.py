"""The threads that a process has for kernels: one runtime for all modules, loaded when needed.

What it does, `tilework.kinds.cpu.llvm.pool` says. It holds the state of the whole process, so that
modules share its threads and its budget of cores; therefore it is loaded once and for good.
"""

from __future__ import annotations

from functools import lru_cache

from tilework.kinds.cpu.jit import LinkedObjects, llvm
from tilework.kinds.cpu.llvm.pool import SYMBOLS, pool_object
from tilework.kinds.cpu.target import CpuTarget
from tilework.locks import Lock

_loading = Lock()


def load_team() -> dict[str, int]:
    """Make the runtime's functions known to code that is loaded from now on.

    Returns:
        Their addresses by symbol.
    """
    with _loading:
        return _load_team()


@lru_cache(maxsize=1)
def _load_team() -> dict[str, int]:
    code = LinkedObjects(pool_object(CpuTarget("llvm -num-cores=1")))
    found = {symbol: code.address(symbol) for symbol in SYMBOLS}
    for symbol, address in found.items():
        llvm().add_symbol(symbol, address)
    _kept.append(code)
    return found


_kept: list[LinkedObjects] = []
