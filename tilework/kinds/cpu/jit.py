"""LLVM in this process: the binding, and object files linked into memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tilework.errors import ModuleError
from tilework.kinds.cpu.permission import tiles_permitted
from tilework.locks import Lock

_making = Lock()


def llvm() -> Any:
    """The LLVM binding, made ready for this machine."""
    with _making:
        return _llvm()


@lru_cache(maxsize=1)
def _llvm() -> Any:
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


class LinkedObjects:
    """Object files in executable memory, which is freed with this object.

    JITLink puts all sections of an object into one piece of memory. LLVM's older linker asks the
    system for each, so that in a process that has mapped a lot they may come to lie over 2 GiB
    from each other, which relocations cannot reach: it then ends the process.

    Args:
        objects: what is linked, each checked before (`tilework.kinds.cpu.elf`).
        imports: addresses of what they refer to beside the process's own functions.
    """

    def __init__(self, *objects: bytes, imports: Mapping[str, int] | None = None) -> None:
        binding = llvm()
        tiles_permitted()  # asked for before any code runs
        machine = binding.Target.from_default_triple().create_target_machine(opt=0, jit=True)
        self._jit: Any = binding.create_lljit_compiler(machine, use_jit_link=True)
        library = binding.JITLibraryBuilder().add_current_process()
        for code in objects:
            library.add_object_img(code)
        for symbol, address in (imports or {}).items():
            library.import_symbol(symbol, address)
        self._trackers: list[Any] = [library.link(self._jit, _NAME)]

    def address(self, symbol: str) -> int:
        """Address of a function.

        Raises:
            ModuleError: the code has no such function.
        """
        try:
            tracker = self._jit.lookup(_NAME, symbol)
        except RuntimeError:
            raise ModuleError(f"the object code has no function {symbol}") from None
        self._trackers.append(tracker)  # the code goes with the first of these that does
        return int(tracker[symbol])


_NAME = "objects"
