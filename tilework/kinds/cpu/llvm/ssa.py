"""SSA values, and LLVM's names of element types."""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import NamedTuple

from tilework.dtypes import dtype_bytes, integer_range, is_float

LLVM_TYPE = {
    "float16": "half",
    "bfloat16": "bfloat",
    "float32": "float",
    "float64": "double",
    **{f"{u}int{bits}": f"i{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "i8",
}
BYTES = {dtype: dtype_bytes(dtype) for dtype in LLVM_TYPE}
SUFFIX = {"float32": "f32", "float64": "f64"}


@cache
def vector_type(dtype: str, width: int) -> str:
    """LLVM type of ``width`` elements (a scalar for width 1)."""
    base = LLVM_TYPE[dtype]
    return base if width == 1 else f"<{width} x {base}>"


@cache
def intrinsic_suffix(dtype: str, width: int) -> str:
    """How the names of intrinsics on floating-point values end, such as ``f32`` or ``v16f32``."""
    return SUFFIX[dtype] if width == 1 else f"v{width}{SUFFIX[dtype]}"


@cache
def _value_type(dtype: str, width: int) -> str:
    if dtype == "bool":
        return "i1" if width == 1 else f"<{width} x i1>"
    return vector_type(dtype, width)


class Ssa(NamedTuple):
    """An SSA value of ``width`` elements (1 = scalar) of ``dtype`` (``bool`` is ``i1``)."""

    ssa: str
    width: int
    dtype: str

    @property
    def type(self) -> str:
        """LLVM type."""
        return _value_type(self.dtype, self.width)

    @property
    def suffix(self) -> str:
        """How intrinsics of the type end, such as ``v16f32``."""
        return intrinsic_suffix(self.dtype, self.width)


def float_literal(value: float, dtype: str) -> str:
    """A floating-point literal in LLVM's exact hexadecimal form."""
    if dtype == "float16":
        try:
            bits = struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            bits = 0x7C00 | (0x8000 if value < 0 else 0)
        return f"0xH{bits:04X}"
    if dtype in ("float32", "bfloat16"):
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    if dtype == "bfloat16":
        return f"0xR{_bfloat16_bits(value):04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@cache
def zero_literal(dtype: str) -> str:
    """`float_literal` of 0."""
    return float_literal(0.0, dtype)


def literal(value: float, dtype: str) -> str:
    """A literal of any type; integers wrap around."""
    if is_float(dtype):
        return float_literal(float(value), dtype)
    if dtype == "bool":
        return "true" if value else "false"
    low, high = integer_range(dtype.removeprefix("u"))
    return str((int(value) - low) % (high - low + 1) + low)


def _bfloat16_bits(value: float) -> int:
    """The upper half of a float32, rounded to nearest, ties to even."""
    bits = int(struct.unpack("<I", struct.pack("<f", value))[0])
    if math.isnan(value):
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
