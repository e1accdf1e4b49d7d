"""Object code loaded into this process. Needs llvmlite and nothing of the compiler."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilework.errors import ModuleError

_SPIN_COUNT = "2000"
_TEAM = b"omp_get_thread_num"  # in every region that could run in parallel


@lru_cache(maxsize=1)
def llvm() -> Any:
    """The LLVM binding, made ready for this machine."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@lru_cache(maxsize=1)
def openmp_runtime() -> str:
    """Load the OpenMP runtime (libgomp) and return its path or name.

    The system's library is preferred; the copy that xgboost's wheel ships serves where there is
    none.

    Raises:
        ModuleError: there is no OpenMP runtime on this machine.
    """
    candidates = ["libgomp.so.1"]
    spec = importlib.util.find_spec("xgboost")
    if spec is not None and spec.origin:
        bundled = Path(spec.origin).parent.parent / "xgboost.libs"
        candidates += sorted(str(p) for p in bundled.glob("libgomp*"))
    for name in candidates:
        try:
            with _short_spin():
                ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        llvm().load_library_permanently(name)
        return name
    raise ModuleError(
        "no OpenMP runtime (libgomp.so.1) found: install the system package libgomp1 "
        "or 'pip install xgboost'"
    )


@contextmanager
def _short_spin() -> Iterator[None]:
    """Have libgomp, loaded within, put a waiting thread to sleep after some 30 microseconds.

    By default it spins for milliseconds. Where another process keeps a core busy, the threads of
    a team then end up on one core and wait for each other a whole time slice per kernel: a network
    of 7 ms takes 100 ms and more. On an idle machine the short spin costs nothing measurable,
    while a shorter one does: waking a thread takes longer than most kernels leave it waiting. The
    user's own settings are left alone.
    """
    own = "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ
    if not own:
        os.environ["GOMP_SPINCOUNT"] = _SPIN_COUNT
    try:
        yield
    finally:
        if not own:
            del os.environ["GOMP_SPINCOUNT"]


class ObjectCode:
    """Machine code loaded into this process; ``address(symbol)`` finds its functions.

    Code that never forks (for targets with one core) is loaded without any OpenMP runtime.
    """

    def __init__(self, *objects: bytes) -> None:
        if any(_TEAM in code for code in objects):
            openmp_runtime()
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
