"""Loading object code into this process and calling it."""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.codegen.kernel import ALIGN, Kernel
from tilework.codegen.llvm import _llvm
from tilework.errors import ModuleError
from tilework.te.dtypes import numpy_dtype

_SPIN_COUNT = "2000"
_HUGE_PAGE = _HUGE_FROM = 1 << 21
_TEAM = b"omp_get_thread_num"  # in every region that could run in parallel
_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)


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
        _llvm().load_library_permanently(name)
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
        llvm = _llvm()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=0, jit=True)
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        for code in objects:
            self._engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
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


class LoadedKernel:
    """A kernel ready to call with aligned NumPy arrays."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._code = ObjectCode(*(code for _, code in kernel.objects))
        self.address = self._code.address(kernel.symbol)
        self._call = _PROTOTYPE(self.address)

    def __call__(
        self, arrays: Sequence[NDArray[Any]], workspace: NDArray[Any] | None, threads: int
    ) -> None:
        """Run once. ``arrays`` are inputs (packed where the kernel says so), then outputs."""
        self.bind(arrays, workspace, threads)()

    def bind(
        self, arrays: Sequence[NDArray[Any]], workspace: NDArray[Any] | None, threads: int
    ) -> BoundKernel:
        """The call with its arguments fixed, for timing.

        Raises:
            ValueError: an array has another size or type than the kernel expects.
        """
        for a, arg in zip(arrays, self.kernel.args, strict=True):
            if a.shape != arg.shape or a.dtype != numpy_dtype(arg.dtype):
                raise ValueError(
                    f"argument {arg.name}: expected {arg.dtype}{list(arg.shape)}, "
                    f"got {a.dtype}{list(a.shape)}"
                )
            if not a.flags.c_contiguous or a.ctypes.data % ALIGN:
                raise ValueError(
                    f"argument {arg.name} must be contiguous and {ALIGN}-byte aligned"
                )
        need = self.kernel.workspace_bytes(threads)
        if need and (workspace is None or workspace.nbytes < need):
            raise ValueError(f"the kernel needs {need} bytes of workspace")
        return BoundKernel(self, list(arrays), workspace, threads)


class BoundKernel:
    """A kernel with fixed arguments: calling it costs about a microsecond."""

    def __init__(
        self,
        loaded: LoadedKernel,
        arrays: list[NDArray[Any]],
        workspace: NDArray[Any] | None,
        threads: int,
    ) -> None:
        self._keep = (loaded, arrays, workspace)
        self._pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        self._args = ctypes.cast(self._pointers, ctypes.c_void_p)
        self._workspace = ctypes.c_void_p(workspace.ctypes.data if workspace is not None else 0)
        self._threads = threads
        self._call = loaded._call

    def __call__(self) -> None:
        """Run once."""
        self._call(self._args, self._workspace, self._threads)


def load_kernel(kernel: Kernel) -> LoadedKernel:
    """Load a kernel's object code into this process."""
    return LoadedKernel(kernel)


def aligned_empty(shape: Sequence[int], dtype: str) -> NDArray[Any]:
    """An uninitialised array whose data is 64-byte aligned; a large one lies on huge pages."""
    kind = numpy_dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size >= _HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        raw, start = _huge(size)
    else:
        raw = np.empty(size + ALIGN, np.uint8)
        start = -raw.ctypes.data % ALIGN
    return raw[start : start + size].view(kind).reshape(tuple(shape))


def _huge(size: int) -> tuple[NDArray[np.uint8], int]:
    """Fresh memory for ``size`` bytes, and where its first huge page begins.

    NumPy asks for huge pages as well, but may get memory whose small pages were there before.
    With those, kernels that stream weights take up to a quarter longer.
    """
    whole = -(-size // _HUGE_PAGE) * _HUGE_PAGE + _HUGE_PAGE
    memory = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages: small ones do
        memory.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(memory, np.uint8)
    return raw, -raw.ctypes.data % _HUGE_PAGE


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A 64-byte aligned, contiguous copy."""
    out = aligned_empty(array.shape, str(array.dtype))
    out[...] = array
    return out
