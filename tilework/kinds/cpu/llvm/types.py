"""LLVM names of element types."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

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


def vector_type(dtype: str, width: int) -> str:
    """LLVM type of ``width`` elements (a scalar for width 1)."""
    base = LLVM_TYPE[dtype]
    return base if width == 1 else f"<{width} x {base}>"


@dataclass(frozen=True)
class Value:
    """An SSA value of ``width`` elements (1 = scalar) of ``dtype`` (``bool`` is ``i1``)."""

    ssa: str
    width: int
    dtype: str

    @property
    def type(self) -> str:
        """LLVM type."""
        if self.dtype == "bool":
            return "i1" if self.width == 1 else f"<{self.width} x i1>"
        return vector_type(self.dtype, self.width)


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


def pieces(extent: int, lanes: int, masked: bool) -> list[tuple[int, int, int]]:
    """Cut a vector loop into (offset, width, active lanes).

    Whole registers first. What is left is cut into halving widths; with ``masked``, the last
    piece is a vector with idle lanes where that saves one or more others: 13 elements of 16
    lanes are 8 + 4 + 1, or 16 with 3 idle.
    """
    out = []
    offset, width = 0, lanes
    while offset < extent:
        rest = extent - offset
        while width > rest:
            width //= 2
        if masked and width < rest < lanes:
            out.append((offset, 1 << rest.bit_length(), rest))
            break
        out.append((offset, width, width))
        offset += width
    return out
