"""The error function of float32 vectors, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence

from tilework.codegen.types import float_literal, vector_type

_LIMIT = 3.95  # erf is one, rounded, beyond it
# erf(x) = x P(x^2) / Q(x^2): fitted to the least relative error (2e-8) between the limits
_P = (1.1283791437506125, 0.1915489681351158, 0.05287527756241114, 0.003808106720783297,
      0.0002846869781514245, 2.0259244482352055e-06)  # fmt: skip
_Q = (1.0, 0.5030885289061343, 0.11455907671114174, 0.015054979089042537, 0.00117071339010947,
      3.783193248353502e-05)  # fmt: skip


def erf_definition(symbol: str, width: int) -> tuple[str, list[str]]:
    """A function ``symbol`` of ``width`` lanes, and the declarations that it needs.

    Its absolute and relative error are below 4e-7; NaN stays NaN. Every coefficient is positive,
    so nothing cancels.
    """
    t = vector_type("float32", width)
    v = "f32" if width == 1 else f"v{width}f32"
    flags = "i1" if width == 1 else f"<{width} x i1>"

    def c(x: float) -> str:
        literal = float_literal(x, "float32")
        return literal if width == 1 else "<" + ", ".join([f"float {literal}"] * width) + ">"

    def horner(name: str, coefficients: Sequence[float]) -> list[str]:
        lines, value = [], c(coefficients[-1])
        for i in range(len(coefficients) - 2, -1, -1):
            step = f"call {t} @llvm.fmuladd.{v}({t} {value}, {t} %s, {t} {c(coefficients[i])})"
            lines.append(f"  %{name}{i} = {step}")
            value = f"%{name}{i}"
        return lines

    lines = [
        f"define internal {t} {symbol}({t} %x) #0 {{",
        f"  %above = fcmp ogt {t} %x, {c(_LIMIT)}",
        f"  %below = fcmp olt {t} %x, {c(-_LIMIT)}",
        f"  %x1 = select {flags} %above, {t} {c(_LIMIT)}, {t} %x",
        f"  %y = select {flags} %below, {t} {c(-_LIMIT)}, {t} %x1",
        f"  %s = fmul {t} %y, %y",
        *horner("p", _P),
        *horner("q", _Q),
        f"  %n = fmul {t} %y, %p0",
        f"  %r = fdiv {t} %n, %q0",
        f"  %over = fcmp ogt {t} %r, {c(1.0)}",
        f"  %under = fcmp olt {t} %r, {c(-1.0)}",
        f"  %r1 = select {flags} %over, {t} {c(1.0)}, {t} %r",
        f"  %r2 = select {flags} %under, {t} {c(-1.0)}, {t} %r1",
        f"  ret {t} %r2",
        "}",
    ]
    return "\n".join(lines), [f"declare {t} @llvm.fmuladd.{v}({t}, {t}, {t})"]
