"""Straight-line vector functions written as expressions: ``Body`` records each operation as IR.

    f = Body(declarations, width)
    x = f.argument("float32")
    f.fma(x, x, 1.0)            # lines of IR; numbers become literals of the other operand's type

A value is a vector of ``width`` lanes, or a scalar for width 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Union

from tilework.dtypes import is_float
from tilework.frozen import frozen
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.function import Function
from tilework.kinds.cpu.llvm.opcodes import FLOAT_OPS, INT_OPS, comparison
from tilework.kinds.cpu.llvm.ssa import Ssa, intrinsic_suffix, literal

Operand = Union["Lanes", float, int]
ROUND = 12582912.0
"""3 * 2^22: float32 of its size have no fraction. A sum's low bits are the other, rounded."""


@frozen
class Lanes:
    """A value of the function; arithmetic on it records instructions."""

    body: Recorder
    ssa: str
    dtype: str

    @property
    def type(self) -> str:
        """LLVM type."""
        return Ssa(self.ssa, self.body.width, self.dtype).type

    def __add__(self, other: Operand) -> Lanes:
        return self.body.binary("+", self, other)

    def __sub__(self, other: Operand) -> Lanes:
        return self.body.binary("-", self, other)

    def __mul__(self, other: Operand) -> Lanes:
        return self.body.binary("*", self, other)

    def __truediv__(self, other: Operand) -> Lanes:
        return self.body.binary("/", self, other)

    def __rsub__(self, other: float) -> Lanes:
        return self.body.binary("-", self.body.lift(other, self.dtype), self)

    def __rtruediv__(self, other: float) -> Lanes:
        return self.body.binary("/", self.body.lift(other, self.dtype), self)

    def __neg__(self) -> Lanes:
        return self.body.emit(f"fneg {self.type} {self.ssa}", self.dtype)

    def __lt__(self, other: Operand) -> Lanes:
        return self.body.compare("<", self, other)

    def __le__(self, other: Operand) -> Lanes:
        return self.body.compare("<=", self, other)

    def __gt__(self, other: Operand) -> Lanes:
        return self.body.compare(">", self, other)

    def __ge__(self, other: Operand) -> Lanes:
        return self.body.compare(">=", self, other)

    def equals(self, other: Operand) -> Lanes:
        """The predicate ``self == other``."""
        return self.body.compare("==", self, other)

    def differs(self, other: Operand) -> Lanes:
        """The predicate ``self != other``; true for NaN."""
        return self.body.compare("!=", self, other)

    def __and__(self, other: Operand) -> Lanes:
        return self.body.bits("and", self, other)

    def __or__(self, other: Operand) -> Lanes:
        return self.body.bits("or", self, other)

    def __xor__(self, other: Operand) -> Lanes:
        return self.body.bits("xor", self, other)


class Recorder:
    """The lines of one function of ``width`` lanes: an instruction each."""

    def __init__(self, declarations: Declarations, width: int) -> None:
        self.declarations, self.width = declarations, width
        self.lines: list[str] = []
        self.arguments: list[Lanes] = []
        self._next = 0

    def argument(self, dtype: str = "float32") -> Lanes:
        """The next parameter."""
        parameter = Lanes(self, f"%x{len(self.arguments)}", dtype)
        self.arguments.append(parameter)
        return parameter

    def emit(self, text: str, dtype: str) -> Lanes:
        """The value of an instruction."""
        self._next += 1
        name = f"%t{self._next}"
        self.lines.append(f"  {name} = {text}")
        return Lanes(self, name, dtype)

    def lift(self, number: Operand, dtype: str) -> Lanes:
        """A number in all lanes; values pass through."""
        if isinstance(number, Lanes):
            return number
        one = literal(number, dtype)
        scalar = Ssa("", 1, dtype).type
        if self.width > 1:
            one = f"splat ({scalar} {one})"
        return Lanes(self, one, dtype)

    def binary(self, op: str, a: Lanes, b: Operand) -> Lanes:
        """``a op b`` for ``+ - * /``."""
        name = (FLOAT_OPS if is_float(a.dtype) else INT_OPS)[op]
        right = self.lift(b, a.dtype)
        return self.emit(f"{name} {a.type} {a.ssa}, {right.ssa}", a.dtype)

    def bits(self, name: str, a: Lanes, b: Operand) -> Lanes:
        """A bitwise operation, or a shift: ``and or xor shl lshr ashr``."""
        right = self.lift(b, a.dtype)
        return self.emit(f"{name} {a.type} {a.ssa}, {right.ssa}", a.dtype)

    def compare(self, op: str, a: Lanes, b: Operand) -> Lanes:
        """A predicate; comparisons with NaN fail, except ``!=``."""
        right = self.lift(b, a.dtype)
        return self.emit(f"{comparison(op, a.dtype)} {a.type} {a.ssa}, {right.ssa}", "bool")

    def select(self, cond: Lanes, a: Operand, b: Operand) -> Lanes:
        """``cond ? a : b``, lane by lane."""
        kind = a.dtype if isinstance(a, Lanes) else b.dtype if isinstance(b, Lanes) else "float32"
        x, y = self.lift(a, kind), self.lift(b, kind)
        return self.emit(
            f"select {cond.type} {cond.ssa}, {x.type} {x.ssa}, {y.type} {y.ssa}", kind
        )

    def intrinsic(self, name: str, *args: Lanes) -> Lanes:
        """A call of ``llvm.NAME`` on values of one floating-point type."""
        a = args[0]
        symbol = f"@llvm.{name}.{intrinsic_suffix(a.dtype, self.width)}"
        self.declarations.declare(f"declare {a.type} {symbol}({', '.join([a.type] * len(args))})")
        text = ", ".join(f"{x.type} {x.ssa}" for x in args)
        return self.emit(f"call {a.type} {symbol}({text})", a.dtype)

    def convert(self, instruction: str, x: Lanes, dtype: str) -> Lanes:
        """A conversion: ``bitcast fptosi sitofp fpext fptrunc``."""
        to = Ssa("", self.width, dtype).type
        return self.emit(f"{instruction} {x.type} {x.ssa} to {to}", dtype)

    def text(self, symbol: str, result: Lanes) -> str:
        """The function's IR, which returns ``result``."""
        parameters = ", ".join(f"{a.type} {a.ssa}" for a in self.arguments)
        head = f"define internal {result.type} {symbol}({parameters}) #0 {{"
        return "\n".join([head, *self.lines, f"  ret {result.type} {result.ssa}", "}"])

    def template(self, result: Lanes) -> Template:
        """The function's lines, to be written into other functions."""
        count = len(self.arguments)

        def place(name: re.Match[str]) -> str:
            number = int(name[2])
            return f"{{{number if name[1] == 'x' else count + number - 1}}}"

        def placed(text: str) -> str:
            return _NAME.sub(place, text.replace("{", "{{").replace("}", "}}"))

        declared = frozenset(self.declarations.declared)
        return Template(placed("\n".join(self.lines)), placed(result.ssa), self._next, declared)


class Body(Recorder):
    """A function written in formulas, of one instruction or several."""

    def fma(self, a: Lanes, b: Operand, c: Operand) -> Lanes:
        """``a * b + c``, fused where the target can."""
        return self.intrinsic("fmuladd", a, self.lift(b, a.dtype), self.lift(c, a.dtype))

    def polynomial(self, x: Lanes, coefficients: tuple[Operand, ...]) -> Lanes:
        """``coefficients[0] + coefficients[1] * x + ...``."""
        out = self.lift(coefficients[-1], x.dtype)
        for c in reversed(coefficients[:-1]):
            out = self.fma(out, x, c)
        return out

    def smaller(self, x: Lanes, limit: float) -> Lanes:
        """``x``, or ``limit`` where x is larger; NaN stays."""
        return self.select(x > limit, limit, x)

    def larger(self, x: Lanes, limit: float) -> Lanes:
        """``x``, or ``limit`` where x is smaller; NaN stays."""
        return self.select(x < limit, limit, x)

    @property
    def scales(self) -> bool:
        """Whether `scale` is available: one instruction of AVX-512, for whole registers."""
        return self.width == 16 and "avx512f" in self.declarations.features

    def scale(self, x: Lanes, k: Lanes) -> Lanes:
        """``x * 2^k`` for float32 k without a fraction; it overflows as products do."""
        symbol = "@llvm.x86.avx512.mask.scalef.ps.512"
        t = x.type
        self.declarations.declare(f"declare {t} {symbol}({t}, {t}, {t}, i16, i32 immarg)")
        return self.emit(
            f"call {t} {symbol}({t} {x.ssa}, {t} {k.ssa}, {t} zeroinitializer, i16 -1, i32 4)",
            x.dtype,
        )

    @property
    def looks_up(self) -> bool:
        """Whether `looked_up` is available: one instruction of AVX-512, for whole registers."""
        return self.scales

    @property
    def looked_up_of(self) -> int:
        """Of how many numbers an instruction looks one up fast.

        AMD's first cores with AVX-512 (Zen 4) have 32 numbers looked up by the units of
        multiply-adds; ``sse4a`` tells AMD's cores from Intel's.
        """
        return 16 if "sse4a" in self.declarations.features else 32

    def looked_up(self, table: tuple[float, ...], index: Lanes) -> Lanes:
        """Of 16 or 32 numbers the one that the lowest bits of an int32 name, lane by lane."""
        t = Ssa("", self.width, "float32").type
        numbers = [f"float {literal(c, 'float32')}" for c in table]
        registers = [f"{t} <{', '.join(numbers[i : i + 16])}>" for i in range(0, len(table), 16)]
        name = "permvar.sf" if len(registers) == 1 else "vpermi2var.ps"
        symbol = f"@llvm.x86.avx512.{name}.512"
        arguments = [registers[0], f"{index.type} {index.ssa}", *registers[1:]]
        types = ", ".join([t, index.type, t][: len(arguments)])
        self.declarations.declare(f"declare {t} {symbol}({types})")
        return self.emit(f"call {t} {symbol}({', '.join(arguments)})", "float32")

    def abs(self, x: Lanes) -> Lanes:
        """Magnitude."""
        return self.intrinsic("fabs", x)

    def copysign(self, size: Lanes, sign: Lanes) -> Lanes:
        """The first with the sign of the second."""
        return self.intrinsic("copysign", size, sign)

    def signed(self, size: Lanes, sign: Lanes) -> Lanes:
        """The first, which has no sign, with that of the second: one instruction less."""
        bit = self.convert("bitcast", sign, "int32") & -(2**31)
        return self.convert("bitcast", self.convert("bitcast", size, "int32") | bit, "float32")

    def nearest(self, x: Lanes) -> Lanes:
        """A whole number at most a little more than 1/2 away."""
        return self.intrinsic("floor", x + 0.5)

    def power_of_two(self, exponent: Lanes) -> Lanes:
        """Two to a power given as a whole int32 (or int64) within the range of normal numbers."""
        wide = exponent.dtype == "int64"
        kind, bias, shift = ("float64", 1023, 52) if wide else ("float32", 127, 23)
        return self.convert("bitcast", self.bits("shl", exponent + bias, shift), kind)


@frozen
class Template:
    """A function's lines with places for its arguments and for the names of its values.

    Attributes:
        lines, result: format strings, of positions: arguments, then names.
        names: how many names it takes.
        declared: what a module with these lines declares.
    """

    lines: str
    result: str
    names: int
    declared: frozenset[str]

    def write(self, fn: Function, arguments: Sequence[str]) -> str:
        """Append the lines to a function's current block; returns the result's name."""
        names = (*arguments, *fn.names(self.names))
        fn.block.body.append(self.lines.format(*names))
        return self.result.format(*names)


_NAME = re.compile(r"%([xt])(\d+)\b")
"""Arguments and values of a function."""
