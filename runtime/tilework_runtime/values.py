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
        shape: dimensions; a text, such as ``past + seq``, of one that a run decides.
        dtype: name of the element type.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    def of_shape(self, shape: Sequence[int]) -> Value:
        """The same in numbers."""
        return Value(self.name, tuple(shape), self.dtype)

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape in numbers.

        Raises:
            LibraryError: a run decides it.
        """
        numbers = tuple(n for n in self.shape if isinstance(n, int))
        if len(numbers) < len(self.shape):
            raise LibraryError(f"a run decides the shape of {self}")
        return numbers

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type; bfloat16 is uint16 (its bits) where the package ml_dtypes is missing."""
        if self.dtype != "bfloat16":
            return np.dtype(self.dtype)
        try:
            import ml_dtypes
        except ImportError:
            return np.dtype(np.uint16)
        kind: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return kind

    def empty(self) -> NDArray[Any]:
        """A new array for it."""
        return aligned_empty(self.dims, self.numpy_dtype)

    def taken(self, what: str, given: Any) -> NDArray[Any]:
        """``given`` as a dense array; itself where it is one.

        Raises:
            LibraryError: it has another shape or type.
        """
        array = np.asarray(given)
        self.check(what, array)
        return np.ascontiguousarray(array).reshape(array.shape)

    def check(self, what: str, array: Any) -> None:
        """Refuse what is no array of this shape and type; what a run decides may be anything.

        Raises:
            LibraryError: see above.
        """
        if not isinstance(array, np.ndarray):
            raise LibraryError(f"{what} {self.name}: expected a NumPy array, got {type(array)}")
        same = len(array.shape) == len(self.shape) and all(
            isinstance(mine, str) or mine == theirs
            for mine, theirs in zip(self.shape, array.shape, strict=True)
        )
        if not same or array.dtype != self.numpy_dtype:
            raise LibraryError(
                f"{what} {self.name}: expected {self._kind}, got {array.dtype}{list(array.shape)}"
            )

    @property
    def _kind(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return f"{self.name} {self._kind}"


def aligned_empty(shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """An uninitialised array that begins where a run takes it without a copy."""
    kind: np.dtype[Any] = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.empty(size + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + size].view(kind).reshape(tuple(shape))
