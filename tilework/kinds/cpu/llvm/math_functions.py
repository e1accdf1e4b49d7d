"""Math functions in generated code: vector code where it is simple, the C library elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilework.errors import ScheduleError
from tilework.kinds.cpu.llvm.types import SUFFIX, Value, float_literal, vector_type
from tilework.kinds.cpu.llvm.vector_code import Body
from tilework.kinds.cpu.llvm.vector_math import FAR, PERIODIC, VECTOR

if TYPE_CHECKING:
    from tilework.kinds.cpu.llvm.arithmetic import Arithmetic

_INTRINSICS = {
    "sqrt": "sqrt",
    "abs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
    "trunc": "trunc",
}


class MathLibrary:
    """Declarations and helper functions that a module's kernels use.

    Attributes:
        features: what the target's CPU has.
    """

    def __init__(self, features: frozenset[str] = frozenset()) -> None:
        self.features = features
        self.declarations: set[str] = set()
        self.definitions: dict[str, str] = {}

    def declare(self, text: str) -> None:
        """Add a declaration (once)."""
        self.declarations.add(text)

    def call(self, values: Arithmetic, name: str, args: list[Value]) -> Value:
        """Emit ``name(args)``, vectorised where a vector form exists.

        Raises:
            ScheduleError: the function is not available for the arguments' type.
        """
        args = values.match(*args)
        a = args[0]
        if a.dtype not in SUFFIX:
            raise ScheduleError(f"{name} is not available for {a.dtype}")
        suffix = SUFFIX[a.dtype] if a.width == 1 else f"v{a.width}{SUFFIX[a.dtype]}"
        fn = values.fn
        if name in _INTRINSICS:
            symbol = f"llvm.{_INTRINSICS[name]}.{suffix}"
            self.declare(f"declare {a.type} @{symbol}({a.type})")
            return Value(fn.emit(f"call {a.type} @{symbol}({a.type} {a.ssa})"), a.width, a.dtype)
        if name == "rsqrt":
            root = self.call(values, "sqrt", [a])
            one = values.splat(Value(float_literal(1.0, a.dtype), 1, a.dtype), a.width)
            return Value(fn.emit(f"fdiv {a.type} {one.ssa}, {root.ssa}"), a.width, a.dtype)
        if name == "sigmoid":
            zero = values.splat(Value(float_literal(0.0, a.dtype), 1, a.dtype), a.width)
            one = values.splat(Value(float_literal(1.0, a.dtype), 1, a.dtype), a.width)
            neg = Value(fn.emit(f"fsub {a.type} {zero.ssa}, {a.ssa}"), a.width, a.dtype)
            e = self.call(values, "exp", [neg])
            den = fn.emit(f"fadd {a.type} {one.ssa}, {e.ssa}")
            return Value(fn.emit(f"fdiv {a.type} {one.ssa}, {den}"), a.width, a.dtype)
        if name == "exp" and a.dtype == "float32":
            symbol = self._exp(a.width)
            return Value(fn.emit(f"call {a.type} {symbol}({a.type} {a.ssa})"), a.width, a.dtype)
        if name in VECTOR and a.dtype == "float32":
            symbol = self._vector(name, a.width, len(args))
            text = ", ".join(f"{x.type} {x.ssa}" for x in args)
            return Value(fn.emit(f"call {a.type} {symbol}({text})"), a.width, a.dtype)
        return self._libm(values, name, args)

    def _libm(self, values: Arithmetic, name: str, args: list[Value]) -> Value:
        a, fn = args[0], values.fn
        scalar = vector_type(a.dtype, 1)
        symbol = name + ("f" if a.dtype == "float32" else "")
        self.declare(f"declare {scalar} @{symbol}({', '.join([scalar] * len(args))})")
        if a.width == 1:
            text = ", ".join(f"{scalar} {x.ssa}" for x in args)
            return Value(fn.emit(f"call {scalar} @{symbol}({text})"), 1, a.dtype)
        out = "poison"
        for i in range(a.width):
            parts = [fn.emit(f"extractelement {x.type} {x.ssa}, i32 {i}") for x in args]
            one = fn.emit(f"call {scalar} @{symbol}({', '.join(f'{scalar} {p}' for p in parts)})")
            out = fn.emit(f"insertelement {a.type} {out}, {scalar} {one}, i32 {i}")
        return Value(out, a.width, a.dtype)

    def _vector(self, name: str, width: int, count: int) -> str:
        """A function of `vector_math`; if its range is limited, with the C library beyond."""
        symbol = f"@tw.{name}.{width}"
        if symbol in self.definitions:
            return symbol
        body = Body(self, width)
        result = VECTOR[name](body, *(body.argument() for _ in range(count)))
        if name not in PERIODIC:
            self.definitions[symbol] = body.text(symbol, result)
            return symbol
        near = f"@tw.{name}.near.{width}"
        self.definitions[near] = body.text(near, result)
        self.definitions[symbol] = self._limited(name, symbol, near, width)
        return symbol

    def _limited(self, name: str, symbol: str, near: str, width: int) -> str:
        """Calls ``near``, or the C library lane by lane if an element lies beyond `FAR`."""
        t, v = vector_type("float32", width), "f32" if width == 1 else f"v{width}f32"
        self.declare(f"declare {t} @llvm.fabs.{v}({t})")
        self.declare(f"declare float @{name}f(float)")
        limit = float_literal(FAR, "float32")
        far, some = f"fcmp oge {t} %size, {limit}", "  %some = or i1 %far, false"
        if width > 1:
            far = f"fcmp oge {t} %size, <{', '.join([f'float {limit}'] * width)}>"
            reduce = f"@llvm.vector.reduce.or.v{width}i1"
            self.declare(f"declare i1 {reduce}(<{width} x i1>)")
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

    def _exp(self, width: int) -> str:
        """A float32 ``exp``: range reduction by ln 2 and a degree-6 polynomial (Cephes).

        Relative error below 2e-7; underflows to zero, overflows to infinity.
        """
        symbol = f"@tw.exp.{width}"
        if symbol in self.definitions:
            return symbol
        t = vector_type("float32", width)
        it = "i32" if width == 1 else f"<{width} x i32>"
        bt = "i1" if width == 1 else f"<{width} x i1>"
        v = "f32" if width == 1 else f"v{width}f32"

        def c(x: float) -> str:
            lit = float_literal(x, "float32")
            return lit if width == 1 else "<" + ", ".join([f"float {lit}"] * width) + ">"

        def i(x: int) -> str:
            return str(x) if width == 1 else "<" + ", ".join([f"i32 {x}"] * width) + ">"

        self.declare(f"declare {t} @llvm.fmuladd.{v}({t}, {t}, {t})")
        self.declare(f"declare {t} @llvm.floor.{v}({t})")
        lines = [
            f"define internal {t} {symbol}({t} %x) #0 {{",
            f"  %over = fcmp ogt {t} %x, {c(88.72283935546875)}",
            f"  %under = fcmp olt {t} %x, {c(-87.33654)}",
            f"  %nan = fcmp uno {t} %x, {c(0.0)}",
            f"  %known = select {bt} %nan, {t} {c(0.0)}, {t} %x",
            f"  %hi = select {bt} %over, {t} {c(88.0)}, {t} %known",
            f"  %y = select {bt} %under, {t} {c(-87.0)}, {t} %hi",
            f"  %k0 = call {t} @llvm.fmuladd.{v}({t} %y, {t} {c(1.44269504089)}, {t} {c(0.5)})",
            f"  %k = call {t} @llvm.floor.{v}({t} %k0)",
            f"  %r0 = call {t} @llvm.fmuladd.{v}({t} %k, {t} {c(-0.693359375)}, {t} %y)",
            f"  %r = call {t} @llvm.fmuladd.{v}({t} %k, {t} {c(2.12194440e-4)}, {t} %r0)",
        ]
        coefficients = [
            1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
        ]  # fmt: skip
        p = c(1.9875691500e-4)
        for n, value in enumerate(coefficients):
            lines.append(f"  %p{n} = call {t} @llvm.fmuladd.{v}({t} {p}, {t} %r, {t} {c(value)})")
            p = f"%p{n}"
        lines += [
            f"  %rr = fmul {t} %r, %r",
            f"  %q = call {t} @llvm.fmuladd.{v}({t} {p}, {t} %rr, {t} %r)",
            f"  %q1 = fadd {t} %q, {c(1.0)}",
            f"  %ki = fptosi {t} %k to {it}",
            # 2^k in two factors, so that neither leaves the range of normal numbers.
            f"  %ka = ashr {it} %ki, {i(1)}",
            f"  %kz = sub {it} %ki, %ka",
            f"  %ba = add {it} %ka, {i(127)}",
            f"  %bz = add {it} %kz, {i(127)}",
            f"  %sa = shl {it} %ba, {i(23)}",
            f"  %sz = shl {it} %bz, {i(23)}",
            f"  %fa = bitcast {it} %sa to {t}",
            f"  %fz = bitcast {it} %sz to {t}",
            f"  %e0 = fmul {t} %q1, %fa",
            f"  %e = fmul {t} %e0, %fz",
            f"  %e1 = select {bt} %under, {t} {c(0.0)}, {t} %e",
            f"  %e2 = select {bt} %over, {t} {c(float('inf'))}, {t} %e1",
            f"  %e3 = select {bt} %nan, {t} %x, {t} %e2",
            f"  ret {t} %e3",
            "}",
        ]
        self.definitions[symbol] = "\n".join(lines)
        return symbol
