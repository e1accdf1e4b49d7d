"""Arithmetic on SSA values: broadcasts, operators, comparisons, selection."""

from __future__ import annotations

from functools import cache

from tilework.dtypes import is_float, is_unsigned
from tilework.errors import ScheduleError
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.opcodes import FLOAT_OPS, INT_OPS, comparison
from tilework.kinds.cpu.llvm.ssa import BYTES, Ssa


class Arithmetic:
    """Emits operations; owns the broadcasts of the current straight-line code."""

    def __init__(self, fn: Function, declarations: Declarations) -> None:
        self.fn = fn
        self.declarations = declarations
        self._splats: dict[tuple[str, str, int], Ssa] = {}

    def forget(self) -> None:
        """Start of a new basic block: no broadcast made so far may be reused."""
        self._splats.clear()

    def splat(self, v: Ssa, width: int) -> Ssa:
        """``v`` repeated ``width`` times."""
        if v.width == width:
            return v
        key = (v.ssa, v.dtype, width)
        vector = self._splats.get(key)
        if vector is None:
            out = Ssa("", width, v.dtype)
            if not v.ssa.startswith("%"):
                elems = ", ".join([f"{v.type} {v.ssa}"] * width)
                vector = Ssa(f"<{elems}>", width, v.dtype)
            else:
                one = self.fn.emit(f"insertelement {out.type} poison, {v.type} {v.ssa}, i32 0")
                ssa = self.fn.emit(
                    f"shufflevector {out.type} {one}, {out.type} poison, "
                    f"<{width} x i32> zeroinitializer"
                )
                vector = Ssa(ssa, width, v.dtype)
            self._splats[key] = vector
        return vector

    def match(self, *values: Ssa) -> list[Ssa]:
        """The values broadcast to a common width."""
        width = max([v.width for v in values])
        return [v if v.width == width else self.splat(v, width) for v in values]

    def multiply_add(self, x: Ssa, y: Ssa, z: Ssa) -> Ssa:
        """``x * y + z``, fused where the target can."""
        a, b, c = x, y, z
        if not x.width == y.width == z.width:
            width = max(x.width, y.width, z.width)
            a = x if x.width == width else self.splat(x, width)
            b = y if y.width == width else self.splat(y, width)
            c = z if z.width == width else self.splat(z, width)
        kind, symbol, declaration = _fused(a.dtype, a.width)
        self.declarations.declare(declaration)
        text = f"call {kind} {symbol}({kind} {a.ssa}, {kind} {b.ssa}, {kind} {c.ssa})"
        return Ssa(self.fn.emit(text), a.width, a.dtype)

    def binary(self, op: str, x: Ssa, y: Ssa) -> Ssa:
        """``x op y`` on operands broadcast to a common width; all but ``max min``.

        Raises:
            ScheduleError: the operator is not defined for the type.
        """
        a, b = self.match(x, y)
        if is_float(a.dtype):
            if op not in FLOAT_OPS:
                raise ScheduleError(f"operator {op} is not defined for {a.dtype}")
            return Ssa(
                self.fn.emit(f"{FLOAT_OPS[op]} {a.type} {a.ssa}, {b.ssa}"), a.width, a.dtype
            )
        if op in ("//", "%", "quot", "rem"):
            return self._divide(op, a, b)
        if op in ("<<", ">>"):
            return self._shift(op, a, b)
        if op not in INT_OPS:
            raise ScheduleError(f"operator {op} is not supported on {a.dtype} data")
        return Ssa(self.fn.emit(f"{INT_OPS[op]} {a.type} {a.ssa}, {b.ssa}"), a.width, a.dtype)

    def _divide(self, op: str, a: Ssa, b: Ssa) -> Ssa:
        """Integer division and remainder, rounding down (``// %``) or to zero (``quot rem``).

        A divisor of zero, which a guard may be there to discard, must not trap; nor may the least
        number divided by -1, whose quotient does not fit.
        """

        def put(text: str, x: str, y: str) -> str:
            return self.fn.emit(f"{text} {a.type} {x}, {y}")

        one = self.splat(Ssa("1", 1, a.dtype), a.width)
        zero = self.splat(Ssa("0", 1, a.dtype), a.width)
        known = "%" not in b.ssa
        if not known:
            b = self.select(self.compare("==", b, zero), one, b)
        quotient = op in ("//", "quot")
        if is_unsigned(a.dtype):
            return Ssa(put("udiv" if quotient else "urem", a.ssa, b.ssa), a.width, a.dtype)
        minus = self.splat(Ssa("-1", 1, a.dtype), a.width)
        opposite = None if known and b.ssa != minus.ssa else self.compare("==", b, minus)
        by = b if opposite is None else self.select(opposite, one, b)
        rest = put("srem", a.ssa, by.ssa)

        def divided() -> str:
            plain = Ssa(put("sdiv", a.ssa, by.ssa), a.width, a.dtype)
            if opposite is None:
                return plain.ssa
            negative = Ssa(put("sub", zero.ssa, a.ssa), a.width, a.dtype)
            return self.select(opposite, negative, plain).ssa

        if op in ("quot", "rem"):
            return Ssa(divided() if op == "quot" else rest, a.width, a.dtype)
        signs = put("icmp slt", put("xor", rest, b.ssa), zero.ssa)
        some = put("icmp ne", rest, zero.ssa)
        bits = Ssa("", a.width, "bool").type
        fix = self.fn.emit(f"and {bits} {signs}, {some}")
        if op == "%":
            changed, plain = put("add", rest, b.ssa), rest
        else:
            plain = divided()
            changed = put("sub", plain, one.ssa)
        text = f"select {bits} {fix}, {a.type} {changed}, {a.type} {plain}"
        return Ssa(self.fn.emit(text), a.width, a.dtype)

    def _shift(self, op: str, a: Ssa, b: Ssa) -> Ssa:
        """A shift by any amount, read as unsigned; the instructions only know those below a width.

        Signed numbers keep their sign, whatever leaves at the bottom.
        """
        last = self.splat(Ssa(str(8 * BYTES[a.dtype] - 1), 1, a.dtype), a.width)
        far = Ssa(self.fn.emit(f"icmp ugt {a.type} {b.ssa}, {last.ssa}"), a.width, "bool")
        by = self.select(far, last, b)
        kind = "shl" if op == "<<" else "lshr" if is_unsigned(a.dtype) else "ashr"
        out = Ssa(self.fn.emit(f"{kind} {a.type} {a.ssa}, {by.ssa}"), a.width, a.dtype)
        if kind == "ashr":
            return out
        return self.select(far, self.splat(Ssa("0", 1, a.dtype), a.width), out)

    def select(self, cond: Ssa, x: Ssa, y: Ssa) -> Ssa:
        """``cond ? x : y``, per lane if ``cond`` is a vector."""
        a, b = self.match(x, y)
        if cond.width > 1:
            a, b = self.splat(a, cond.width), self.splat(b, cond.width)
        text = f"select {cond.type} {cond.ssa}, {a.type} {a.ssa}, {b.type} {b.ssa}"
        return Ssa(self.fn.emit(text), a.width, a.dtype)

    def compare(self, op: str, x: Ssa, y: Ssa) -> Ssa:
        """The predicate ``x op y``; `convert.compare` takes narrow types, too."""
        a, b = self.match(x, y)
        text = f"{comparison(op, a.dtype)} {a.type} {a.ssa}, {b.ssa}"
        return Ssa(self.fn.emit(text), a.width, "bool")


@cache
def _fused(dtype: str, width: int) -> tuple[str, str, str]:
    """Type, name and declaration of a multiply-add."""
    one = Ssa("", width, dtype)
    symbol = f"@llvm.fmuladd.{one.suffix}"
    return one.type, symbol, f"declare {one.type} {symbol}({', '.join([one.type] * 3)})"
