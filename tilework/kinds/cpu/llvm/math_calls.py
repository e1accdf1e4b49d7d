"""Math functions in generated code: vector code where it is simple, the C library elsewhere."""

from __future__ import annotations

from functools import lru_cache

from tilework.errors import ScheduleError
from tilework.kinds.cpu.llvm.arithmetic import Arithmetic
from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.ssa import (
    SUFFIX,
    Ssa,
    float_literal,
    intrinsic_suffix,
    vector_type,
)
from tilework.kinds.cpu.llvm.vector_body import Body, Template
from tilework.kinds.cpu.llvm.vector_math import FAR, PERIODIC, VECTOR

_INTRINSICS = {
    "sqrt": "sqrt",
    "abs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
    "trunc": "trunc",
}


INLINED = frozenset({"exp", "sigmoid", "expm1", "tanh", "erf", "log1p"})
"""Functions so short that what a call costs, all live registers stored around it, is a good part.

The others are called: their code is larger than what that saves, and takes longer to generate.
"""


_FUSED = {"fma", "avx512f", "neon"}
"""Features that bring fused multiply-adds."""


class MathCalls:
    """Emits calls of math functions; the module gets what they need."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.fn = arithmetic.fn
        self.declarations = arithmetic.declarations

    def call(self, name: str, args: list[Ssa]) -> Ssa:
        """Emit ``name(args)``, vectorised where a vector form exists.

        Raises:
            ScheduleError: the function is not available for the arguments' type.
        """
        arith, fn = self.arithmetic, self.fn
        args = arith.match(*args)
        a = args[0]
        if a.dtype not in SUFFIX:
            raise ScheduleError(f"{name} is not available for {a.dtype}")
        if name in _INTRINSICS:
            symbol = f"llvm.{_INTRINSICS[name]}.{a.suffix}"
            self.declarations.declare(f"declare {a.type} @{symbol}({a.type})")
            return Ssa(fn.emit(f"call {a.type} @{symbol}({a.type} {a.ssa})"), a.width, a.dtype)
        if name == "rsqrt":
            root = self.call("sqrt", [a])
            one = arith.splat(Ssa(float_literal(1.0, a.dtype), 1, a.dtype), a.width)
            return Ssa(fn.emit(f"fdiv {a.type} {one.ssa}, {root.ssa}"), a.width, a.dtype)
        if name == "round_tf32":
            return self._round_tf32(a)
        if name == "rounded":  # nothing is contracted but what code is written for
            return a
        if name == "quotient":
            return self.quotient(*args)
        if name in VECTOR and a.dtype == "float32":
            return self._vector(name, args)
        if name == "sigmoid":
            zero = arith.splat(Ssa(float_literal(0.0, a.dtype), 1, a.dtype), a.width)
            one = arith.splat(Ssa(float_literal(1.0, a.dtype), 1, a.dtype), a.width)
            neg = Ssa(fn.emit(f"fsub {a.type} {zero.ssa}, {a.ssa}"), a.width, a.dtype)
            e = self.call("exp", [neg])
            den = fn.emit(f"fadd {a.type} {one.ssa}, {e.ssa}")
            return Ssa(fn.emit(f"fdiv {a.type} {one.ssa}, {den}"), a.width, a.dtype)
        return self._libm(name, args)

    def quotient(self, a: Ssa, b: Ssa, inverse: Ssa, *, finite: bool = False) -> Ssa:
        """A product with the inverse, and what is left of ``a`` taken into account.

        That is the quotient to the last bit (Markstein), but not of infinities and of what
        overflows, where the product is. With ``finite`` there are none.
        """
        fn, arith = self.fn, self.arithmetic
        if a.dtype != "float32" or not _FUSED & self.declarations.features:
            return Ssa(fn.emit(f"fdiv {a.type} {a.ssa}, {b.ssa}"), a.width, a.dtype)
        symbol = f"@llvm.fma.{a.suffix}"
        self.declarations.declare(f"declare {a.type} {symbol}({', '.join([a.type] * 3)})")

        def fused(*factors_and_addend: str) -> str:
            parts = ", ".join(f"{a.type} {part}" for part in factors_and_addend)
            return fn.emit(f"call {a.type} {symbol}({parts})")

        near = fn.emit(f"fmul {a.type} {a.ssa}, {inverse.ssa}")
        left = fused(fn.emit(f"fneg {a.type} {near}"), b.ssa, a.ssa)
        exact = Ssa(fused(left, inverse.ssa, near), a.width, a.dtype)
        if finite:
            return exact
        return arith.select(arith.compare("==", exact, exact), exact, Ssa(near, a.width, a.dtype))

    def _round_tf32(self, a: Ssa) -> Ssa:
        """13 bits of the significand rounded away; NaN stays."""
        fn, lanes = self.fn, f"<{a.width} x i32>" if a.width > 1 else "i32"

        def literal(value: int) -> str:
            return f"<{', '.join([f'i32 {value}'] * a.width)}>" if a.width > 1 else str(value)

        bits = fn.emit(f"bitcast {a.type} {a.ssa} to {lanes}")
        up = fn.emit(f"add {lanes} {bits}, {literal(0x1000)}")
        cut = fn.emit(f"and {lanes} {up}, {literal(-0x2000)}")
        near = fn.emit(f"bitcast {lanes} {cut} to {a.type}")
        odd = fn.emit(f"fcmp uno {a.type} {a.ssa}, {a.ssa}")
        flag = f"<{a.width} x i1>" if a.width > 1 else "i1"
        kept = fn.emit(f"select {flag} {odd}, {a.type} {a.ssa}, {a.type} {near}")
        return Ssa(kept, a.width, a.dtype)

    def _libm(self, name: str, args: list[Ssa]) -> Ssa:
        a, fn = args[0], self.fn
        scalar = vector_type(a.dtype, 1)
        symbol = name + ("f" if a.dtype == "float32" else "")
        self.declarations.declare(f"declare {scalar} @{symbol}({', '.join([scalar] * len(args))})")
        if a.width == 1:
            text = ", ".join(f"{scalar} {x.ssa}" for x in args)
            return Ssa(fn.emit(f"call {scalar} @{symbol}({text})"), 1, a.dtype)
        out = "poison"
        for i in range(a.width):
            parts = [fn.emit(f"extractelement {x.type} {x.ssa}, i32 {i}") for x in args]
            one = fn.emit(f"call {scalar} @{symbol}({', '.join(f'{scalar} {p}' for p in parts)})")
            out = fn.emit(f"insertelement {a.type} {out}, {scalar} {one}, i32 {i}")
        return Ssa(out, a.width, a.dtype)

    def _vector(self, name: str, args: list[Ssa]) -> Ssa:
        """A function of `vector_math`: written here, or called."""
        a, fn = args[0], self.fn
        if name in INLINED:
            inlined = _template(name, a.width, len(args), self.declarations.features)
            self.declarations.declared |= inlined.declared
            return Ssa(inlined.write(fn, [x.ssa for x in args]), a.width, a.dtype)
        symbol = self._helper(name, a.width, len(args))
        text = ", ".join(f"{x.type} {x.ssa}" for x in args)
        return Ssa(fn.emit(f"call {a.type} {symbol}({text})"), a.width, a.dtype)

    def _helper(self, name: str, width: int, count: int) -> str:
        """A function of `vector_math`; if its range is limited, with the C library beyond."""
        symbol = f"@tw.{name}.{width}"
        if symbol in self.declarations.definitions:
            return symbol
        body = Body(self.declarations, width)
        result = VECTOR[name](body, *(body.argument() for _ in range(count)))
        if name not in PERIODIC:
            self.declarations.definitions[symbol] = body.text(symbol, result)
            return symbol
        near = f"@tw.{name}.near.{width}"
        self.declarations.definitions[near] = body.text(near, result)
        self.declarations.definitions[symbol] = self._far_by_library(name, symbol, near, width)
        return symbol

    def _far_by_library(self, name: str, symbol: str, near: str, width: int) -> str:
        """Calls ``near``, or the C library lane by lane if an element lies beyond `FAR`."""
        t, v = vector_type("float32", width), intrinsic_suffix("float32", width)
        self.declarations.declare(f"declare {t} @llvm.fabs.{v}({t})")
        self.declarations.declare(f"declare float @{name}f(float)")
        limit = float_literal(FAR, "float32")
        far, some = f"fcmp oge {t} %size, {limit}", "  %some = or i1 %far, false"
        if width > 1:
            far = f"fcmp oge {t} %size, <{', '.join([f'float {limit}'] * width)}>"
            reduce = f"@llvm.vector.reduce.or.v{width}i1"
            self.declarations.declare(f"declare i1 {reduce}(<{width} x i1>)")
            some = f"  %some = call i1 {reduce}(<{width} x i1> %far)"
        lines = [
            f"define internal {t} {symbol}({t} %x) #0 {{",
            f"  %size = call {t} @llvm.fabs.{v}({t} %x)",
            f"  %far = {far}",
            some,
            "  br i1 %some, label %exact, label %fast",
            "fast:",
            f"  %quick = call {t} {near}({t} %x)",
            f"  ret {t} %quick",
            "exact:",
        ]
        out = "poison"
        for i in range(width):
            at = "%x"
            if width > 1:
                at = f"%e{i}"
                lines.append(f"  {at} = extractelement {t} %x, i32 {i}")
            lines.append(f"  %c{i} = call float @{name}f(float {at})")
            if width > 1:
                lines.append(f"  %o{i} = insertelement {t} {out}, float %c{i}, i32 {i}")
            out = f"%o{i}" if width > 1 else f"%c{i}"
        return "\n".join([*lines, f"  ret {t} {out}", "}"])


@lru_cache(maxsize=256)
def _template(name: str, width: int, count: int, features: frozenset[str]) -> Template:
    """A function of `vector_math`, to be written where it is used: the same text each time."""
    body = Body(Declarations(features), width)
    return body.template(VECTOR[name](body, *(body.argument() for _ in range(count))))
