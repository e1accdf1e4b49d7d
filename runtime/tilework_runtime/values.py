"""Inputs and outputs: what they are called, their shapes and types, and arrays for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework_runtime.errors import LibraryError

ALIGN = 64
"""Bytes at whose multiples arrays begin that a run takes without copying them."""


@dataclass(frozen=True)
class Value:
    """An input or output.

    Attributes:
        dtype: name of the element type.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type; bfloat16 is uint16 (its bits) where the package ml_dtypes is missing."""
        if self.dtype != "bfloat16":
            return np.dtype(self.dtype)
        try:
            import ml_dtypes
        except ImportError:
            return np.dtype(np.uint16)
        return np.dtype(ml_dtypes.bfloat16)

    def empty(self) -> NDArray[Any]:
        """A new array for it."""
        return aligned_empty(self.shape, self.numpy_dtype)

    def taken(self, what: str, given: Any) -> NDArray[Any]:
        """``given`` as a dense array; itself where it is one.

        Raises:
            LibraryError: it has another shape or type.
        """
        array = np.asarray(given)
        self.check(what, array)
        return np.ascontiguousarray(array).reshape(self.shape)

    def check(self, what: str, array: Any) -> None:
        """Refuse what is no array of this shape and type.

        Raises:
            LibraryError: see above.
        """
        if not isinstance(array, np.ndarray):
            raise LibraryError(f"{what} {self.name}: expected a NumPy array, got {type(array)}")
        if array.shape != self.shape or array.dtype != self.numpy_dtype:
            raise LibraryError(
                f"{what} {self.name}: expected {self.dtype}{list(self.shape)}, got "
                f"{array.dtype}{list(array.shape)}"
            )

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape)}"


def aligned_empty(shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """An uninitialised array that begins where a run takes it without a copy."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.empty(size + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + size].view(kind).reshape(tuple(shape))
