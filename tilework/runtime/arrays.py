"""Arrays as kernels take them: of the right shape, aligned, on huge pages where they are large."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import addressof, c_char
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.dtypes import is_float, numpy_dtype
from tilework.errors import ModuleError
from tilework.runtime.device_array import device_array

ALIGN = 64
"""Bytes at whose multiples every buffer begins: a cache line, and the widest vector."""

_HUGE_PAGE = _HUGE_FROM = 1 << 21
_KEPT_FROM, _MOST_SPARE = 1 << 20, 1 << 26


def address(array: NDArray[Any]) -> int:
    """Where an array's data begin.

    ``array.ctypes.data`` says it, too, and takes several times as long: it makes objects of
    Python. What is no writable block of its own is left to it.
    """
    try:
        return addressof(c_char.from_buffer(array.data))
    except (TypeError, ValueError):
        return int(array.ctypes.data)


def aligned_empty(shape: Sequence[int], dtype: str) -> NDArray[Any]:
    """An uninitialised array whose data is 64-byte aligned; a large one lies on huge pages.

    Raises:
        MemoryError: there is not enough.
    """
    kind = numpy_dtype(dtype)
    dims = tuple(map(int, shape))
    size = math.prod(dims) * kind.itemsize
    return np.ndarray(dims, kind, *_memory(size, _HUGE_FROM))


def kept_memory(size: int, grows: bool) -> NDArray[np.uint8]:
    """Uninitialised memory of at least ``size`` bytes that one run after another has.

    It is on huge pages from half of one on: 256 faults of small pages take a millisecond.

    Args:
        size: in bytes.
        grows: later runs may need more. There is as much again, up to 64 MB, which takes addresses
            alone until it is used; what was used is not new to a run that needs more.

    Raises:
        MemoryError: there is not enough.
    """
    size += min(size, _MOST_SPARE) * grows
    return np.ndarray(size, np.uint8, *_memory(size, _KEPT_FROM))


def _memory(size: int, huge_from: int) -> tuple[NDArray[np.uint8], int]:
    """Fresh memory for ``size`` bytes, and where in it these begin."""
    if size >= huge_from and hasattr(mmap, "MADV_HUGEPAGE"):
        return _huge(size)
    raw = np.empty(size + ALIGN, np.uint8)
    return raw, -address(raw) % ALIGN


def _huge(size: int) -> tuple[NDArray[np.uint8], int]:
    """Fresh memory for ``size`` bytes, and where its first huge page begins.

    NumPy asks for huge pages as well, but may get memory whose small pages were there before.
    With those, kernels that stream weights take up to a quarter longer.
    """
    whole = -(-size // _HUGE_PAGE) * _HUGE_PAGE + _HUGE_PAGE
    try:
        memory = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as e:
        raise MemoryError(f"no {whole} bytes of memory") from e
    with suppress(OSError):  # a kernel without huge pages: small ones do
        memory.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(memory, np.uint8)
    return raw, -address(raw) % _HUGE_PAGE


def aligned_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A 64-byte aligned, contiguous copy."""
    out = aligned_empty(array.shape, str(array.dtype))
    out[...] = array
    return out


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> NDArray[Any]:
    """An aligned array: of the normal distribution, or of zeros and ones."""
    drawn = rng.standard_normal(shape) if is_float(dtype) else rng.integers(0, 2, shape)
    return aligned_copy(np.asarray(drawn, numpy_dtype(dtype)))


def is_ready(array: NDArray[Any]) -> bool:
    """Whether a kernel can take the array as it is: contiguous, at an aligned address."""
    aligned = address(array) % ALIGN == 0 or not array.size
    return aligned and bool(array.flags.c_contiguous)


def check_array(what: str, array: NDArray[Any], shape: Sequence[int], dtype: str) -> None:
    """Refuse an array of another shape or element type.

    Args:
        what: names the array in the message, such as ``input data``.

    Raises:
        ModuleError: it is no NumPy array, or of another shape or type.
    """
    if not isinstance(array, np.ndarray):
        raise ModuleError(f"{what}: expected a NumPy array, got {type(array).__name__}")
    if array.shape != tuple(shape) or array.dtype != numpy_dtype(dtype):
        raise ModuleError(
            f"{what}: expected {dtype}{list(shape)}, got {array.dtype}{list(array.shape)}"
        )


def check_ready(what: str, array: NDArray[Any], shape: Sequence[int], dtype: str) -> None:
    """Refuse an array that a kernel cannot take as it is.

    Raises:
        ModuleError: it has another shape or type, or is not contiguous at an aligned address.
    """
    check_array(what, array, shape, dtype)
    if not is_ready(array):
        raise ModuleError(
            f"{what}: the array must be contiguous and begin at a {ALIGN}-byte boundary, which "
            "NumPy gives by chance; make it with tilework.runtime.aligned_empty or "
            "tilework.runtime.aligned_copy, or bind without it and fill the bound call's own"
        )


def ready_copy(
    what: str,
    given: Any,
    shape: Sequence[int],
    dtype: str,
    empty: Callable[[Sequence[int], str], NDArray[Any]] = aligned_empty,
) -> NDArray[Any]:
    """``given`` as an array that a kernel can take; itself where it is one already.

    Args:
        empty: makes the copy's memory.

    Raises:
        ModuleError: it has another shape or type, or lies in a GPU's memory.
    """
    array: NDArray[Any] = given
    if not isinstance(given, np.ndarray):
        if device_array(what, given) is not None:
            raise ModuleError(
                f"{what}: the array lies in a GPU's memory; bind it with module.bind, or copy it "
                "to the host"
            )
        array = np.asarray(given)
    check_array(what, array, shape, dtype)
    if is_ready(array):
        return array
    out = empty(array.shape, dtype)
    out[...] = array
    return out
