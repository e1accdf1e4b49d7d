"""LLVM in this process: the binding, and object files linked into memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tilework.errors import ModuleError
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
    """Object files in executable memory, which is freed with this object."""

    def __init__(self, *objects: bytes) -> None:
        binding = llvm()
        machine = binding.Target.from_default_triple().create_target_machine(opt=0, jit=True)
        self._engine: Any = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        for code in objects:
            self._engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Address of a function.

        Raises:
            ModuleError: the code has no such function.
        """
        address = int(self._engine.get_function_address(symbol))
        if not address:
            raise ModuleError(f"the object code has no function {symbol}")
        return address
