"""Object code loaded into this process. Needs llvmlite and nothing of the compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from typing import Any

from tilework.errors import ModuleError
from tilework.kinds.cpu.elf import BadObject, ObjectFile, is_elf, read_object
from tilework.kinds.cpu.jit import LinkedObjects, llvm
from tilework.kinds.cpu.llvm.pool import SYMBOLS
from tilework.kinds.cpu.team import load_team
from tilework.target.host import HOST_PLATFORM

_OF_TEAM = tuple(symbol.encode() for symbol in SYMBOLS)


class ObjectCode:
    """Machine code loaded into this process; ``address(symbol)`` finds its functions.

    Code that has no parallel regions (for targets with one core) is loaded without the runtime of
    threads.

    Raises:
        ModuleError: the code is damaged, or calls a function that nothing defines.
    """

    def __init__(self, *objects: bytes) -> None:
        files = _read(dict(enumerate(objects)))
        team = any(name in code for code in objects for name in _OF_TEAM)
        imports = load_team() if team else {}
        _check_resolved(files, llvm())
        self._linked = LinkedObjects(*objects, imports=imports)

    def address(self, symbol: str) -> int:
        """Address of a function.

        Raises:
            ModuleError: the code has no such function.
        """
        return self._linked.address(symbol)


def check_objects(code: Mapping[str, bytes], wanted: Collection[str]) -> None:
    """Refuse object files that are damaged, or among which a function is missing.

    They are read, and nothing of them is run or given to LLVM, which ends the process where an
    object makes no sense to it.

    Raises:
        ModuleError: see above.
    """
    files = _read(code)
    if files is None:
        return
    for name, file in files.items():
        if file.unwind:
            raise ModuleError(f"{name} has unwind tables, which Tilework does not generate")
    defined = set().union(*(file.defined for file in files.values()))
    missing = sorted(set(wanted) - defined)
    if missing:
        raise ModuleError(f"the code has no function {', '.join(missing)}")
    _check_resolved(files, llvm())


def _read(code: Mapping[Any, bytes]) -> dict[Any, ObjectFile] | None:
    """The objects by name; None where this system has another format, which LLVM alone checks."""
    system, arch = HOST_PLATFORM.split()
    if system != "linux" and not any(map(is_elf, code.values())):
        return None
    out = {}
    for name, data in code.items():
        try:
            out[name] = read_object(data, arch)
        except BadObject as e:
            raise ModuleError(f"object file {name} is damaged: {e}") from e
    return out


def _check_resolved(files: Mapping[Any, ObjectFile] | None, binding: Any) -> None:
    """Refuse objects with references to what neither they nor this process define."""
    if files is None:
        return
    defined = set().union(*(file.defined for file in files.values()))
    needed = set().union(*(file.needed for file in files.values())) - defined
    if needed.intersection(SYMBOLS):
        load_team()
    process = ctypes.CDLL(None) if needed else None
    unknown = sorted(
        name
        for name in needed
        if not hasattr(process, name) and not binding.address_of_symbol(name)
    )
    if unknown:
        raise ModuleError(
            f"the object code calls {', '.join(unknown)}, which nothing here defines"
        )
