"""From IR to code by LLVM's functions as llvmlite's library has them, without its one lock.

llvmlite lets one thread at a time into LLVM. LLVM itself asks only that what belongs to one
context, and one machine, is used by one thread; here each call has a context of its own, so that
its code does not depend on what was made before either.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from tilework.kinds.cpu.jit import llvm

_POINTER = ctypes.c_void_p
_SLOW = {
    "ParseAssembly": (_POINTER, (_POINTER, ctypes.c_char_p, ctypes.POINTER(_POINTER))),
    "TargetMachineEmitToMemory": (
        _POINTER,
        (_POINTER, _POINTER, ctypes.c_int, ctypes.POINTER(_POINTER)),
    ),
}
_QUICK = {
    "ContextCreate": (_POINTER, ()),
    "ContextDispose": (None, (_POINTER,)),
    "DisposeModule": (None, (_POINTER,)),
    "GetBufferStart": (_POINTER, (_POINTER,)),
    "GetBufferSize": (ctypes.c_size_t, (_POINTER,)),
    "DisposeMemoryBuffer": (None, (_POINTER,)),
    "DisposeString": (None, (_POINTER,)),
}
"""Functions by name, with the types of what they return and take.

The quick ones keep Python's lock: a thread that gave it up would wait longer to have it again.
"""


class _Functions:
    """LLVM's functions, as attributes."""

    def __init__(self, path: str) -> None:
        for library, functions in ((ctypes.CDLL(path), _SLOW), (ctypes.PyDLL(path), _QUICK)):
            for name, (result, arguments) in functions.items():
                function = library[f"LLVMPY_{name}"]
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@lru_cache(maxsize=1)
def _functions() -> _Functions:
    llvm()
    from llvmlite.binding import ffi

    return _Functions(ffi.lib._name)


def emit(text: str, machine: Any, as_object: bool) -> bytes:
    """What LLVM makes of the text of a module: object code, or else assembly.

    Args:
        text: with the machine's triple and layout.
        machine: llvmlite's target machine, which no other thread uses meanwhile.

    Raises:
        RuntimeError: LLVM cannot read the text, or makes no code of it.
    """
    c = _functions()
    context = c.ContextCreate()
    module = buffer = None
    try:
        said = _POINTER()
        module = c.ParseAssembly(context, text.encode(), ctypes.byref(said))
        if not module or said:
            raise RuntimeError(f"LLVM IR parsing error\n{_taken(said)}")
        address = ctypes.cast(machine._ptr, _POINTER)
        buffer = c.TargetMachineEmitToMemory(address, module, as_object, ctypes.byref(said))
        if not buffer:
            raise RuntimeError(_taken(said))
        return ctypes.string_at(c.GetBufferStart(buffer), c.GetBufferSize(buffer))
    finally:
        if buffer:
            c.DisposeMemoryBuffer(buffer)
        if module:
            c.DisposeModule(module)
        c.ContextDispose(context)


def _taken(said: ctypes.c_void_p) -> str:
    """What LLVM says, which is freed."""
    if not said.value:
        return ""
    text = ctypes.string_at(said.value).decode(errors="replace")
    _functions().DisposeString(said)
    return text
