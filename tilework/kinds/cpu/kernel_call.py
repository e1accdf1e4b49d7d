"""A kernel's object code as a function of arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tilework.errors import ModuleError
from tilework.index.extents import shape_at
from tilework.index.symbols import Point, symbols_of, value_at
from tilework.kinds.cpu.calls import RUN
from tilework.kinds.cpu.object_code import ObjectCode
from tilework.lower.kernel import Kernel
from tilework.runtime.arrays import check_ready


class LoadedKernel:
    """A kernel ready to call with aligned NumPy arrays."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._code = ObjectCode(*(code for _, code in kernel.objects))
        self.address = self._code.address(kernel.symbol)
        self._call = RUN(self.address)

    def __call__(
        self, arrays: Sequence[NDArray[Any]], workspace: NDArray[Any] | None, threads: int
    ) -> None:
        """Run once.

        ``arrays`` are inputs (packed where the kernel says so), outputs, then values of symbols.
        """
        self.bind(arrays, workspace, threads)()

    def bind(
        self, arrays: Sequence[NDArray[Any]], workspace: NDArray[Any] | None, threads: int
    ) -> BoundKernel:
        """The call with its arguments fixed, for timing.

        Raises:
            ModuleError: an array has another size or type than the kernel expects, a symbol has a
                value out of its range, or the workspace is too small.
        """
        at = _point(self.kernel, arrays)
        for a, arg in zip(arrays, self.kernel.args, strict=True):
            check_ready(f"argument {arg.name}", a, shape_at(arg.shape, at), arg.dtype)
        need = value_at(self.kernel.workspace_bytes(threads), at)
        if need and (workspace is None or workspace.nbytes < need):
            raise ModuleError(f"the kernel needs {need} bytes of workspace")
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


def _point(kernel: Kernel, arrays: Sequence[NDArray[Any]]) -> Point:
    """The values of a kernel's symbols, as its arguments have them."""
    given = {
        arg.name: int(a)
        for a, arg in zip(arrays, kernel.args, strict=True)
        if arg.role == "symbol"
    }
    sizes = (kernel.shared_workspace, kernel.thread_workspace)
    known = symbols_of((*(n for arg in kernel.args for n in arg.shape), *sizes))
    for s in known:
        if not s.low <= given[s.name] <= s.high:
            raise ModuleError(
                f"argument {s.name}: {given[s.name]} is not within {s.low} to {s.high}"
            )
    return {s: given[s.name] for s in known}


def load_kernel(kernel: Kernel) -> LoadedKernel:
    """Load a kernel's object code into this process."""
    return LoadedKernel(kernel)
