"""Conversions between element types.

The narrow floating-point types are converted from and to float32 alone: by instructions where the
CPU has them (F16C; AVX512_BF16), else in integer arithmetic, with the same results. Numbers become
integers by cutting off the fraction; a narrow integer takes the low bits of a wide one, so that it
wraps around instead of depending on the instruction.
"""

from __future__ import annotations

from tilework.dtypes import NARROW_FLOATS, is_float, is_unsigned
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.ssa import BYTES, Ssa, float_literal

FEATURE = {"float16": "f16c", "bfloat16": "avx512bf16"}
"""The CPU feature that converts a narrow type."""


def convert(arith: Arithmetic, v: Ssa, dtype: str) -> Ssa:
    """``v`` as numbers of another type."""
    if v.dtype == dtype:
        return v
    if dtype == "bool":
        zero = float_literal(0.0, v.dtype) if is_float(v.dtype) else "0"
        return compare(arith, "!=", v, Ssa(zero, 1, v.dtype))
    narrow = v.dtype in NARROW_FLOATS or dtype in NARROW_FLOATS
    if narrow and "float32" not in (v.dtype, dtype):
        return convert(arith, convert(arith, v, "float32"), dtype)
    for kind, bits in (("bfloat16", _Bits.bfloat16), ("float16", _Bits.float16)):
        if kind in (v.dtype, dtype) and FEATURE[kind] not in arith.declarations.features:
            code = _Bits(arith, v.width)
            return bits(code, v) if dtype == kind else code.widened(v)
    if is_float(v.dtype) and is_float(dtype):
        return _plain(arith, "fpext" if BYTES[dtype] > BYTES[v.dtype] else "fptrunc", v, dtype)
    if is_float(v.dtype):
        return _to_integer(arith, v, dtype)
    if is_float(dtype):
        return _plain(arith, "uitofp" if is_unsigned(v.dtype) else "sitofp", v, dtype)
    have = 1 if v.dtype == "bool" else 8 * BYTES[v.dtype]
    want = 8 * BYTES[dtype]
    if have == want:
        return Ssa(v.ssa, v.width, dtype)
    wider = "zext" if is_unsigned(v.dtype) else "sext"
    return _plain(arith, wider if want > have else "trunc", v, dtype)


_TO_NEAREST = {
    16: ("avx512f", "llvm.x86.avx512.mask.cvtps2dq.512", ", <16 x i32> poison, i16 -1, i32 4"),
    8: ("avx2", "llvm.x86.avx.cvt.ps2dq.256", ""),
}
"""Feature, intrinsic, and operands behind the first, by lanes; 4 means the mode that is set."""


def to_nearest(arith: Arithmetic, v: Ssa) -> Ssa | None:
    """float32 rounded to int32, ties to even, where an instruction does both; of that range."""
    feature, name, more = _TO_NEAREST.get(v.width, ("", "", ""))
    if v.dtype != "float32" or feature not in arith.declarations.features:
        return None
    to = Ssa("", v.width, "int32").type
    types = [v.type, *(operand.rpartition(" ")[0] for operand in more.split(", ")[1:])]
    arith.declarations.declare(f"declare {to} @{name}({', '.join(types)})")
    ssa = arith.fn.emit(f"call {to} @{name}({v.type} {v.ssa}{more})")
    return Ssa(ssa, v.width, "int32")


def compare(arith: Arithmetic, op: str, x: Ssa, y: Ssa) -> Ssa:
    """The predicate ``x op y``; numbers of narrow floating-point types are compared as float32."""
    a, b = arith.match(x, y)
    if a.dtype in NARROW_FLOATS:
        a, b = (convert(arith, v, "float32") for v in (a, b))
    return arith.compare(op, a, b)


def binary(arith: Arithmetic, op: str, x: Ssa, y: Ssa) -> Ssa:
    """``x op y`` for all operators and types.

    Raises:
        ScheduleError: the operator is not defined for the type.
    """
    if op not in ("max", "min"):
        return arith.binary(op, x, y)
    a, b = arith.match(x, y)
    # One instruction, and a NaN on the left stays: max(x, 0) of NaN is NaN.
    return arith.select(compare(arith, "<" if op == "max" else ">", a, b), b, a)


def _plain(arith: Arithmetic, instruction: str, v: Ssa, dtype: str) -> Ssa:
    to = Ssa("", v.width, dtype).type
    ssa = arith.fn.emit(f"{instruction} {v.type} {v.ssa} to {to}")
    if instruction == "fptosi":  # any number rather than none at all: it may become an index
        ssa = arith.fn.emit(f"freeze {to} {ssa}")
    return Ssa(ssa, v.width, dtype)


def _to_integer(arith: Arithmetic, v: Ssa, dtype: str) -> Ssa:
    if dtype in ("int32", "int64"):
        return _plain(arith, "fptosi", v, dtype)
    if dtype in ("int8", "uint8", "int16", "uint16"):
        return convert(arith, _plain(arith, "fptosi", v, "int32"), dtype)
    if dtype == "uint32":
        return convert(arith, _plain(arith, "fptosi", v, "int64"), dtype)
    # The upper half of 64 bits is converted 2^63 lower; negative numbers wrap around.
    half = arith.splat(Ssa(float_literal(2.0**63, v.dtype), 1, v.dtype), v.width)
    low = _plain(arith, "fptosi", v, "int64")
    rest = _plain(arith, "fptosi", arith.binary("-", v, half), "int64")
    top = arith.splat(Ssa(str(-(2**63)), 1, "int64"), v.width)
    high = Ssa(
        arith.fn.emit(f"xor {rest.type} {rest.ssa}, {top.ssa}"), v.width, "int64"
    )  # fmt: skip
    chosen = arith.select(arith.compare("<", v, half), low, high)
    return Ssa(chosen.ssa, v.width, dtype)


class _Bits:
    """Conversions of narrow floating-point types in integer arithmetic."""

    def __init__(self, arith: Arithmetic, width: int) -> None:
        self.arith, self.width = arith, width
        self.int16, self.int32 = (Ssa("", width, t).type for t in ("int16", "int32"))
        self.float32 = Ssa("", width, "float32").type

    def _const(self, number: int) -> Ssa:
        return self.arith.splat(Ssa(str(number), 1, "int32"), self.width)

    def _op(self, name: str, a: Ssa, b: Ssa | int) -> Ssa:
        right = self._const(b) if isinstance(b, int) else b
        text = f"{name} {self.int32} {a.ssa}, {right.ssa}"
        return Ssa(self.arith.fn.emit(text), self.width, "int32")

    def _cast(self, name: str, v: Ssa, source: str, to: str, dtype: str) -> Ssa:
        return Ssa(self.arith.fn.emit(f"{name} {source} {v.ssa} to {to}"), self.width, dtype)

    def _bits(self, v: Ssa) -> Ssa:
        return self._cast("bitcast", v, self.float32, self.int32, "int32")

    def _float(self, v: Ssa) -> Ssa:
        return self._cast("bitcast", v, self.int32, self.float32, "float32")

    def _stored(self, v: Ssa, dtype: str) -> Ssa:
        short = self._cast("trunc", v, self.int32, self.int16, "int16")
        return self._cast("bitcast", short, self.int16, Ssa("", self.width, dtype).type, dtype)

    def bfloat16(self, v: Ssa) -> Ssa:
        """The upper half of a float32, rounded to nearest, ties to even."""
        bits = self._bits(v)
        odd = self._op("and", self._op("lshr", bits, 16), 1)
        rounded = self._op("add", self._op("add", bits, 0x7FFF), odd)
        quiet = self._op("or", bits, 0x400000)
        nan = self.arith.compare("!=", v, v)
        return self._stored(
            self._op("lshr", self.arith.select(nan, quiet, rounded), 16), "bfloat16"
        )

    def float16(self, v: Ssa) -> Ssa:
        """A float32 rounded to 11 significant bits; below 2^-14 to a multiple of 2^-24."""
        arith = self.arith
        bits = self._bits(v)
        sign = self._op("and", bits, -(2**31))
        size = self._op("xor", bits, sign)
        odd = self._op("and", self._op("lshr", size, 13), 1)
        moved = self._op("add", self._op("add", size, 0xFFF - (112 << 23)), odd)
        normal = self._op("lshr", moved, 13)
        # Adding 1/2 has the adder round to multiples of 2^-24.
        half = arith.splat(Ssa(float_literal(0.5, "float32"), 1, "float32"), self.width)
        low = self._bits(arith.binary("+", self._float(size), half))
        small = self._op("sub", low, 126 << 23)
        out = arith.select(arith.compare("<", size, self._const(113 << 23)), small, normal)
        nan = arith.compare(">", size, self._const(0x7F800000))
        top = arith.select(nan, self._const(0x7E00), self._const(0x7C00))
        out = arith.select(arith.compare(">=", size, self._const(143 << 23)), top, out)
        return self._stored(self._op("or", out, self._op("lshr", sign, 16)), "float16")

    def widened(self, v: Ssa) -> Ssa:
        """A narrow number as float32, which is exact."""
        short = self._cast("bitcast", v, v.type, self.int16, "int16")
        bits = self._cast("zext", short, self.int16, self.int32, "int32")
        if v.dtype == "bfloat16":
            return self._float(self._op("shl", bits, 16))
        arith = self.arith
        sign = self._op("shl", self._op("and", bits, 0x8000), 16)
        rest = self._op("and", bits, 0x7FFF)
        # Exponents have a bias of 15 instead of 127: multiply by 2^112, denormal numbers too.
        scale = arith.splat(Ssa(float_literal(2.0**112, "float32"), 1, "float32"), self.width)
        size = self._bits(arith.binary("*", self._float(self._op("shl", rest, 13)), scale))
        special = self._op("or", self._op("shl", rest, 13), 0x7F800000)
        size = arith.select(arith.compare(">=", rest, self._const(0x7C00)), special, size)
        return self._float(self._op("or", size, sign))
