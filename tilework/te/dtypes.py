"""NumPy types of element types. NumPy itself has no bfloat16; the package ml_dtypes adds it.

A bfloat16 is the upper half of a float32: the same 8 bits of exponent, 8 bits of significand, so
that rounding to nearest changes a value by at most 2^-8 of itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilework.te.expr import is_float


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy type of an element type's name, ``bfloat16`` included."""
    if dtype == "bfloat16":
        import ml_dtypes  # registers the name with NumPy, too

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(dtype)


def is_float_array(array: NDArray[Any]) -> bool:
    """Whether the elements are floating-point numbers; NumPy calls bfloat16 opaque bytes."""
    return is_float(str(array.dtype))


def round_bfloat16(array: NDArray[Any]) -> NDArray[Any]:
    """Values rounded to the nearest bfloat16, ties to even, in the array's own type.

    Through float32, as a kernel rounds.
    """
    kind = numpy_dtype("bfloat16")
    return np.asarray(array, np.float32).astype(kind).astype(array.dtype)
