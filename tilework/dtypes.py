"""Element types: their names, what they hold, and the NumPy types of their arrays.

NumPy itself has no bfloat16; the package ml_dtypes adds it.

A bfloat16 is the upper half of a float32: the same 8 bits of exponent, 8 bits of significand, so
that rounding to nearest changes a value by at most 2^-8 of itself. A float16 has 5 bits of
exponent and 11 of significand. Both are types to store: kernels compute in float32.

A tf32 number is a float32 with 11 bits of significand. Nothing is stored so: it is what tensor
cores take factors of products as, and they sum the products in float32.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")
NARROW_FLOATS = ("float16", "bfloat16")
"""Types to store: their values are compared and moved, but computed with in float32."""


Precision = Literal["f32", "bf16", "f16", "tf32"]
"""How a network is stored and multiplied; see `tilework.graph.precision`."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def is_float(dtype: str) -> bool:
    """Whether ``dtype`` names a floating-point type."""
    return dtype in FLOAT_DTYPES


def is_integer(dtype: str) -> bool:
    """Whether ``dtype`` names an integer type (``bool`` is none)."""
    return dtype.startswith(("int", "uint"))


def is_unsigned(dtype: str) -> bool:
    """Whether ``dtype`` names a type without negative numbers."""
    return dtype == "bool" or dtype.startswith("uint")


_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8,
}  # fmt: skip


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of ``dtype``.

    Raises:
        TypeError: no such element type.
    """
    if dtype not in _BYTES:
        raise TypeError(f"unknown dtype {dtype!r}; known: {', '.join(_BYTES)}")
    return _BYTES[dtype]


def integer_range(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer type, or of ``bool``."""
    if dtype == "bool":
        return 0, 1
    bits = 8 * dtype_bytes(dtype)
    return (0, 2**bits - 1) if is_unsigned(dtype) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrapped(value: int, dtype: str) -> int:
    """``value`` as an element of an integer type holds it: modulo a power of two."""
    low, high = integer_range(dtype)
    return (value - low) % (high - low + 1) + low


_LARGEST = {
    "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}  # fmt: skip


def finite_range(dtype: str) -> tuple[float, float]:
    """Least and greatest finite value of a type."""
    if is_float(dtype):
        return -_LARGEST[dtype], _LARGEST[dtype]
    return integer_range(dtype)


@cache
def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy type of an element type's name, ``bfloat16`` included."""
    if dtype == "bfloat16":
        import ml_dtypes  # registers the name with NumPy, too

        dtype = ml_dtypes.bfloat16
    kind: np.dtype[Any] = np.dtype(dtype)
    return kind


def is_float_array(array: NDArray[Any]) -> bool:
    """Whether the elements are floating-point numbers; NumPy calls bfloat16 opaque bytes."""
    return is_float(str(array.dtype))


def round_bfloat16(array: NDArray[Any]) -> NDArray[Any]:
    """Values rounded to the nearest bfloat16, ties to even, in the array's own type.

    Through float32, as a kernel rounds.
    """
    kind = numpy_dtype("bfloat16")
    return np.asarray(array, np.float32).astype(kind).astype(array.dtype)


def round_tf32(array: NDArray[Any]) -> NDArray[Any]:
    """Values rounded to the nearest tf32 number, ties away from zero; float64 stays as it is."""
    value = np.asarray(array)
    if value.dtype != np.float32:
        return value
    bits = value.view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isnan(value), value, rounded)


def converted(array: Any, dtype: str) -> NDArray[Any]:
    """``array`` as elements of ``dtype``, by the rules of a kernel.

    Numbers with a fraction are cut off towards zero; integers that do not fit wrap around; NaN is
    true. The narrow floating-point types are reached through float32, and left through it.

    A number becomes an integer of up to 16 bits by way of int32, and a uint32 by way of int64.
    NaN, and what does not fit the type on the way, is its least number, as x86 has it; other
    machines may give another one.
    """
    kind, value = numpy_dtype(dtype), np.asarray(array)
    if dtype in NARROW_FLOATS and value.dtype != kind:
        return value.astype(np.float32).astype(kind)
    if value.dtype in (numpy_dtype("bfloat16"), np.dtype(np.float16)):
        value = value.astype(np.float32)
    if is_integer(dtype) and value.dtype.kind == "f":
        if dtype == "uint64":  # the upper half is converted 2^63 lower
            half, top = value.dtype.type(2.0**63), np.uint64(2**63)
            high = _cut_off(value - half, "int64").astype(kind) ^ top
            return np.where(value < half, _cut_off(value, "int64").astype(kind), high)
        wide = "int64" if dtype in ("int64", "uint32") else "int32"
        return _cut_off(value, wide).astype(kind)
    return value.astype(kind)


def _cut_off(value: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Numbers as int32 or int64; those that do not fit are its least one."""
    low = integer_range(dtype)[0]
    fits = (value > low - 1.0) & (value < -float(low))
    if dtype == "int64":  # no number lies between it and the next lower one
        fits = (value >= low) & (value < -float(low))
    return np.where(fits, np.where(fits, value, 0).astype(dtype), np.array(low, dtype))
