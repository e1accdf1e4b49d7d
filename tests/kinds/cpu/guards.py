"""Kernels called on arrays between pages that nobody may touch."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Mapping, Sequence

import numpy as np

from tilework.dtypes import numpy_dtype
from tilework.index.extents import shape_at
from tilework.index.symbols import Symbol, value_at
from tilework.kinds.cpu.kernel_call import LoadedKernel
from tilework.lower.interpret import poisoned
from tilework.lower.kernel import Kernel

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE


class Guarded:
    """An array that ends (or begins) at a page of no access; what is beside it is known.

    Arrays of floats are poisoned with NaN, so that reading what was never written shows.
    """

    def __init__(self, shape: Sequence[int], dtype: str, at_end: bool) -> None:
        kind = numpy_dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        whole = -(-max(size, 1) // _PAGE) * _PAGE
        self._memory = mmap.mmap(-1, whole + 2 * _PAGE)
        self.raw = np.frombuffer(self._memory, np.uint8)
        for offset in (0, _PAGE + whole):
            at = ctypes.c_void_p(self.raw.ctypes.data + offset)
            assert _LIBC.mprotect(at, ctypes.c_size_t(_PAGE), mmap.PROT_READ & 0) == 0
        start = _PAGE + (whole - size if at_end else 0)
        self.rest = [self.raw[_PAGE:start], self.raw[start + size : _PAGE + whole]]
        for rest in self.rest:
            rest[...] = 0xFF
        self.array = self.raw[start : start + size].view(kind).reshape(tuple(shape))

    @property
    def intact(self) -> bool:
        """Whether nothing beside the array was written."""
        return all(bool((rest == 0xFF).all()) for rest in self.rest)


def run_at(
    loaded: LoadedKernel,
    at: Mapping[Symbol, int],
    inputs: Sequence[np.ndarray],
    threads: int,
    at_end: bool,
) -> list[np.ndarray]:
    """Outputs of a kernel where its symbols have these values, all its arrays being guarded.

    ``inputs`` come as the task has them, and are packed as the kernel wants them.
    """
    kernel: Kernel = loaded.kernel
    values, given = {s.name: v for s, v in at.items()}, iter(inputs)
    arrays = []
    for arg in kernel.args:
        one = Guarded(shape_at(arg.shape, at), arg.dtype, at_end)
        if arg.role == "input":
            value = next(given)
            one.array[...] = arg.packing.apply(value) if arg.packing else value
        elif arg.role == "symbol":
            one.array[...] = values[arg.name]
        else:
            one.array[...] = poisoned(one.array.shape, arg.dtype)
        arrays.append(one)
    workspace = Guarded((value_at(kernel.workspace_bytes(threads), at),), "uint8", at_end)
    workspace.array[...] = 0xFF
    before = [a.array.copy() for a in arrays]
    pointers = (ctypes.c_void_p * len(arrays))(*(a.array.ctypes.data for a in arrays))
    loaded._call(ctypes.cast(pointers, ctypes.c_void_p), workspace.array.ctypes.data, threads)
    for a, b, arg in zip(arrays, before, kernel.args, strict=True):
        assert a.intact, f"wrote beside {arg.name} at {values}"
        if arg.role != "output":
            assert a.array.tobytes() == b.tobytes(), f"{arg.name} was changed at {values}"
    assert workspace.intact, f"wrote beside the workspace at {values}"
    return [
        a.array.copy() for a, arg in zip(arrays, kernel.args, strict=True) if arg.role == "output"
    ]
