"""Generated code for measuring: LLVM IR text, assembled and loaded into this process."""

from __future__ import annotations

import ctypes
from typing import Any

from tilework.kinds.cpu.object_code import ObjectCode
from tilework.kinds.cpu.target import CpuTarget
from tilework.runtime.arrays import aligned_empty


def loaded(text: str, target: CpuTarget) -> ObjectCode:
    """The functions of IR text."""
    # a module that runs a network knows this package, and LLVM's compiler only when it measures
    from tilework.kinds.cpu.llvm.assembler import emit_object

    return ObjectCode(emit_object(text, target))


def function(code: ObjectCode, name: str, result: Any, *arguments: Any) -> Any:
    """A function of the code; ``result`` and ``arguments`` are types of `ctypes`."""
    call = ctypes.CFUNCTYPE(result, *arguments)(code.address(name))
    call.code = code  # type: ignore[attr-defined]  # it lives as long as the function
    return call


def zeros(nbytes: int) -> Any:
    """Aligned memory that has been written to: every page is there."""
    block = aligned_empty((nbytes,), "uint8")
    block[:] = 0
    return block
