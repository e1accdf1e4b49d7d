"""Object code loaded into this process. Needs llvmlite and nothing of the compiler."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilework.errors import ModuleError
from tilework.kinds.cpu.elf import BadObject, ObjectFile, is_elf, read_object
from tilework.locks import Lock
from tilework.target.host import HOST_PLATFORM

_SPIN_COUNT = "2000"
_loading = Lock()
_TEAM = b"omp_get_thread_num"  # in every region that could run in parallel


def llvm() -> Any:
    """The LLVM binding, made ready for this machine."""
    with _loading:
        return _llvm()


@lru_cache(maxsize=1)
def _llvm() -> Any:
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def openmp_runtime() -> str:
    """Load the OpenMP runtime (libgomp) and return its path or name.

    The system's library is preferred; the copy that xgboost's wheel ships serves where there is
    none.

    Raises:
        ModuleError: there is no OpenMP runtime on this machine.
    """
    with _loading:
        return _openmp_runtime()


@lru_cache(maxsize=1)
def _openmp_runtime() -> str:
    candidates = ["libgomp.so.1"]
    bundled = _folder_beside("xgboost", "xgboost.libs")
    candidates += sorted(str(p) for p in bundled.glob("libgomp*")) if bundled else []
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


def _folder_beside(package: str, name: str) -> Path | None:
    """A folder beside an installed package, which is not imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # kept from being imported
        return None
    return Path(spec.origin).parent.parent / name if spec is not None and spec.origin else None


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

    Raises:
        ModuleError: the code is damaged, or calls a function that nothing defines.
    """

    def __init__(self, *objects: bytes) -> None:
        files = _read(dict(enumerate(objects)))
        if any(_TEAM in code for code in objects):
            openmp_runtime()
        binding = llvm()
        _check_resolved(files, binding)
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
    if not HOST_PLATFORM.startswith("linux") and not any(map(is_elf, code.values())):
        return None
    out = {}
    for name, data in code.items():
        try:
            out[name] = read_object(data)
        except BadObject as e:
            raise ModuleError(f"object file {name} is damaged: {e}") from e
    return out


def _check_resolved(files: Mapping[Any, ObjectFile] | None, binding: Any) -> None:
    """Refuse objects with references to what neither they nor this process define."""
    if files is None:
        return
    defined = set().union(*(file.defined for file in files.values()))
    needed = set().union(*(file.needed for file in files.values())) - defined
    if any(name.startswith(("GOMP_", "omp_")) for name in needed):
        openmp_runtime()
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
