"""The exponential of float32, vectorised: IR text of a function of its own."""

from __future__ import annotations

from tilework.kinds.cpu.llvm.declarations import Declarations
from tilework.kinds.cpu.llvm.ssa import float_literal, intrinsic_suffix, vector_type


def exponential(declarations: Declarations, width: int) -> str:
    """Symbol of ``exp`` on ``width`` lanes: reduction by ln 2, a degree-6 polynomial (Cephes).

    Relative error below 2e-7; underflows to zero, overflows to infinity.
    """
    symbol = f"@tw.exp.{width}"
    if symbol in declarations.definitions:
        return symbol
    t = vector_type("float32", width)
    it = "i32" if width == 1 else f"<{width} x i32>"
    bt = "i1" if width == 1 else f"<{width} x i1>"
    v = intrinsic_suffix("float32", width)

    def c(x: float) -> str:
        lit = float_literal(x, "float32")
        return lit if width == 1 else "<" + ", ".join([f"float {lit}"] * width) + ">"

    def i(x: int) -> str:
        return str(x) if width == 1 else "<" + ", ".join([f"i32 {x}"] * width) + ">"

    declarations.declare(f"declare {t} @llvm.fmuladd.{v}({t}, {t}, {t})")
    declarations.declare(f"declare {t} @llvm.floor.{v}({t})")
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
    declarations.definitions[symbol] = "\n".join(lines)
    return symbol
